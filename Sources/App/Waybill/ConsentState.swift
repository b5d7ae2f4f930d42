internal import WaybillEvent
internal import WaybillSystem

/// What the user allows, and whether the answer is awaited.
struct ConsentState {
    /// The user's answer; `nil` if it was never given.
    private(set) var answer: Consent?
    /// Whether events may be stored.
    private(set) var isAllowed: Bool
    /// Whether lines wait in memory for the answer.
    private(set) var isAsking: Bool

    /// - Parameters:
    ///   - answer: the answer in the install file.
    ///   - unanswered: what applies without one.
    init(_ answer: Consent?, or unanswered: WaybillClient.ConsentDefault) {
        self.answer = answer
        self.isAllowed = answer?.analytics ?? (unanswered != .denied)
        self.isAsking = answer == nil && unanswered == .ask
    }

    /// Sets the answer; returns whether held lines must be dropped: they waited for it, and it denies them.
    mutating func answered(_ answer: Consent) -> Bool {
        defer { self.isAsking = false }
        self.answer = answer
        self.isAllowed = answer.analytics
        return self.isAsking && !self.isAllowed
    }
}

/// How far changes of consent are saved to the install file, which other processes write too.
struct ConsentSaving {
    /// The number of changes in this process.
    private var changeCount: UInt64 = 0
    /// How many of these are in the install file.
    private var savedCount: UInt64 = 0
    /// The number of attempts to save the last change.
    private var attemptCount = 0
    /// The time of the last change, or of the last request to try again.
    private var tried: MonotonicTime?
    /// The number of requests to try again.
    private(set) var retryCount: UInt64 = 0
    /// The consent in the install file when it was last read.
    private var found: Consent?

    /// One attempt to write the install file.
    struct Attempt: Hashable, Sendable {
        fileprivate let changeCount: UInt64
        /// Whether it has a change to save.
        let isUnsaved: Bool
        /// Whether that was tried before.
        fileprivate let isRetry: Bool
    }

    init(found: Consent?) {
        self.found = found
    }

    /// Whether the last change is not saved yet.
    var isUnsaved: Bool {
        self.savedCount != self.changeCount
    }

    /// Records a change in this process.
    mutating func changed(at now: MonotonicTime) {
        self.changeCount += 1
        self.attemptCount = 0
        self.tried = now
    }

    mutating func beginAttempt() -> Attempt {
        defer { if self.isUnsaved { self.attemptCount += 1 } }
        return Attempt(
            changeCount: self.changeCount, isUnsaved: self.isUnsaved, isRetry: self.attemptCount > 0)
    }

    /// The consent to write to the install file: the one set here, or else the one in the file.
    ///
    /// A change whose first save failed must not re-enable what was denied in another process meanwhile.
    mutating func consent(toSave own: Consent?, _ attempt: Attempt, found: Consent?) -> Consent? {
        defer { self.found = found }
        guard attempt.isUnsaved, let own else { return found }
        guard attempt.isRetry, let found, found != self.found else { return own }
        return own.restricted(by: found)
    }

    /// Records that the attempt succeeded.
    mutating func saved(_ attempt: Attempt) {
        self.savedCount = max(self.savedCount, attempt.changeCount)
    }

    /// Requests another attempt, at most once per interval; called with each event while a change is unsaved.
    mutating func retry(at now: MonotonicTime) {
        if let tried, now - tried < Self.retryInterval { return }
        self.retryCount += 1
        self.tried = now
    }

    private static var retryInterval: Duration { .seconds(10) }
}
