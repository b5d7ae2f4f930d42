package import WaybillSystem

/// Decides when an agent looks at what.
///
///     work          at the soonest          for at most          at the latest
///     everything    5 s, or 0.5 s           0.1 %, or 5 %        300 s            or: where hints are not complete
///     fresh files   1 s, or 0.5 s           5 %                  1 s up to 10,000 files with complete hints, else 300 s
///     watches       1 s                     0.1 %                300 s
///
/// Each is counted from the end of the last one, and the share is of one core. Where hints are complete, a look at
/// everything is a safety net. Fresh files are those that were written to within the last minutes: hints may miss a
/// change there too, and it would be the dearest. A look at everything does the other two as well.
package struct ScanSchedule: Hashable, Sendable {
    package enum Work: Hashable, Sendable {
        case everything
        case freshFiles
        case watches
    }

    static let pauseMax = Duration.seconds(300)
    /// How soon it is seen that a mount answers again.
    private static let mountPause = Duration.milliseconds(500)

    private var everythingAt: MonotonicTime
    private var freshFilesAt: MonotonicTime
    private var watchesAt: MonotonicTime
    /// When the last look at everything began.
    private var lastEverything: MonotonicTime
    /// When the last look began that saw every fresh file.
    private var lastWhole: MonotonicTime
    /// Whether hints were complete at the last look at everything.
    package private(set) var isComplete = true
    /// Whether everything is looked at for the first time, with these sources.
    package private(set) var isFirstLook = true
    /// When gathered hints are read; `nil` while there are none.
    private var hintsAt: MonotonicTime?
    /// The mounts that did not answer at the last look.
    package private(set) var hangingMounts: [HangingMount] = []
    /// When spools take turns.
    var turns: SpoolTurns

    package init(_ now: MonotonicTime) {
        self.everythingAt = now
        self.freshFilesAt = now
        self.watchesAt = now
        self.lastEverything = now
        self.lastWhole = now
        self.turns = SpoolTurns(now)
    }

    // MARK: Requests

    /// Other sources are looked at from now on.
    package mutating func begin(_ now: MonotonicTime) {
        self.isFirstLook = true
        self.hurry(now)
    }

    /// Everything is to be looked at now.
    package mutating func hurry(_ now: MonotonicTime) {
        self.everythingAt = min(self.everythingAt, now)
    }

    /// Everything is to be looked at once more, which a run that would end asks again and again: what cannot be read is
    /// tried again each time.
    package mutating func repeatSoon() {
        self.everythingAt = min(self.everythingAt, self.lastEverything + .milliseconds(20))
    }

    /// There are hints, which are read when more may have gathered.
    package mutating func filesChanged(at now: MonotonicTime, linger: Duration) {
        self.hintsAt = self.hintsAt ?? now + linger
    }

    /// Takes the mounts that do not answer; where one answers again, everything is to be looked at.
    ///
    /// - Returns: which do not answer any more, and which do again; `nil` if they are the same as before.
    package mutating func mountsHang(
        _ mounts: [HangingMount], _ now: MonotonicTime
    ) -> (hanging: [HangingMount], answering: [HangingMount])? {
        let former = self.hangingMounts
        guard mounts != former else { return nil }
        self.hangingMounts = mounts
        let answering = former.filter { !mounts.contains($0) }
        if !answering.isEmpty { self.hurry(now) }
        return (mounts.filter { !former.contains($0) }, answering)
    }

    // MARK: Work

    /// Whether hints gather.
    package var isGathering: Bool { self.hintsAt != nil }

    /// Whether the gathered hints are read now.
    package mutating func takeHints(_ now: MonotonicTime) -> Bool {
        guard let hintsAt, hintsAt <= now else { return false }
        self.hintsAt = nil
        return true
    }

    package func isDue(_ work: Work, _ now: MonotonicTime) -> Bool {
        switch work {
        case .everything: self.everythingAt <= now
        case .freshFiles: self.freshFilesAt <= now
        case .watches: self.watchesAt <= now
        }
    }

    /// When the next work is due.
    package func next(_ now: MonotonicTime, hasFreshFiles: Bool, hasWaitingSpools: Bool) -> MonotonicTime {
        var next = min(self.everythingAt, self.watchesAt)
        if hasFreshFiles { next = min(next, self.freshFilesAt) }
        if let hintsAt { next = min(next, hintsAt) }
        if hasWaitingSpools { next = min(next, self.turns.nextAt) }
        return self.hangingMounts.isEmpty ? next : min(next, now + Self.mountPause)
    }

    /// Everything was looked at; whether hints are complete is known from now on.
    package mutating func lookedAtEverything(from start: MonotonicTime, to end: MonotonicTime, isComplete: Bool) {
        self.isComplete = isComplete
        self.isFirstLook = false
        self.lastEverything = start
        self.turns.looked(from: start, to: end)
        self.everythingAt =
            end
            + (isComplete
                ? Self.pause(after: end - start, .seconds(5), share: 1000)
                : Self.pause(after: end - start, .milliseconds(500), share: 20))
        self.watchesAt = end + .seconds(1)
        self.lookedAtFreshFiles(from: start, to: end, isWhole: true, took: .zero)
    }

    /// - Parameter isWhole: whether all of them were looked at.
    package mutating func lookedAtFreshFiles(from start: MonotonicTime, to end: MonotonicTime, isWhole: Bool) {
        self.lookedAtFreshFiles(from: start, to: end, isWhole: isWhole, took: end - start)
    }

    private mutating func lookedAtFreshFiles(
        from start: MonotonicTime, to end: MonotonicTime, isWhole: Bool, took: Duration
    ) {
        if isWhole { self.lastWhole = start }
        let least = self.isComplete ? Duration.seconds(1) : .milliseconds(500)
        // So many files on a local disk cost less than the share, and a busy machine must not delay their rotations.
        self.freshFilesAt = end + (self.isComplete && isWhole ? least : Self.pause(after: took, least, share: 20))
    }

    package mutating func checkedWatches(from start: MonotonicTime, to end: MonotonicTime) {
        self.watchesAt = end + Self.pause(after: end - start, .seconds(1), share: 1000)
    }

    private static func pause(after took: Duration, _ least: Duration, share: Int) -> Duration {
        min(self.pauseMax, max(least, took * share))
    }

    /// How long ago every file that was written to lately was looked at.
    package func lag(_ now: MonotonicTime, hasFreshFiles: Bool) -> Duration {
        hasFreshFiles ? max(.zero, now - self.lastWhole) : .zero
    }
}
