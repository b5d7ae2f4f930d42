internal import WaybillEvent
internal import WaybillSpool
internal import WaybillSystem

/// The outcome of tracking an event.
public enum TrackOutcome: Hashable, Sendable {
    /// The event is on disk with this sequence number, and survives the death of the process.
    case stored(seq: UInt64)
    /// The event is in memory and will be written as soon as possible: writes currently fail, lines are gathered
    /// (``WaybillClient/Durability/memory``), or the user has not answered the question about consent yet
    /// (``WaybillClient/ConsentDefault/ask``).
    ///
    /// It is lost if the process dies. While writes fail or the answer is missing, the newest 256 KiB are held; older
    /// events are dropped and counted.
    case held
    /// The event was not stored; it is counted by its reason.
    case dropped(DropReason)
}

/// The reason why an event was not stored; later versions may add reasons.
public struct DropReason: Hashable, Sendable, CustomStringConvertible {
    enum Code: Int, CaseIterable {
        case optedOut, sampled, filtered, invalid, tooLarge, diskFull, diskError, purged, disabled, unanswered
    }

    let code: Code

    init(_ code: Code) {
        self.code = code
    }

    /// The user has not given consent to analytics.
    public static let optedOut = DropReason(.optedOut)
    /// Sampling did not select the event or its user.
    public static let sampled = DropReason(.sampled)
    /// A filter dropped the event.
    public static let filtered = DropReason(.filtered)
    /// The client is switched off (``WaybillClient/disabled``).
    public static let disabled = DropReason(.disabled)
    /// The event was held in memory during a purge.
    public static let purged = DropReason(.purged)
    /// The event has no name, a user id of more than 256 bytes, or an invalid visitor.
    public static let invalid = DropReason(.invalid)
    /// The event's line would exceed 32 KiB.
    public static let tooLarge = DropReason(.tooLarge)
    /// The file system is full, or has less free space than ``WaybillClient/Quota`` must leave, and the memory for held
    /// events is full too.
    public static let diskFull = DropReason(.diskFull)
    /// Writes to the file system fail, and the memory for held events is full; every later event tries again.
    public static let diskError = DropReason(.diskError)

    /// The user had not answered the question about consent (``WaybillClient/Configuration/consent``) when the memory for
    /// held events was full.
    public static let unanswered = DropReason(.unanswered)

    /// Whether a `wb.dropped` event reports it; the other drops were requested by the app.
    var isReported: Bool {
        switch self.code {
        case .optedOut, .sampled, .filtered, .purged, .disabled: false
        case .invalid, .tooLarge, .diskFull, .diskError, .unanswered: true
        }
    }

    /// The reason's name in metrics and logs.
    public var description: String {
        switch self.code {
        case .optedOut: "opted_out"
        case .sampled: "sampled"
        case .filtered: "filtered"
        case .purged: "purged"
        case .disabled: "disabled"
        case .unanswered: "unanswered"
        case .invalid: "invalid"
        case .tooLarge: "too_large"
        case .diskFull: "disk_full"
        case .diskError: "disk_error"
        }
    }
}

extension WaybillClient {
    /// A client's counters since it was created.
    public struct Counters: Hashable, Sendable {
        /// Events stored, including Waybill's own.
        public internal(set) var stored: UInt64 = 0
        /// Bytes of their lines.
        public internal(set) var storedByteCount: UInt64 = 0
        /// Fields and names that could not be written unchanged.
        public internal(set) var repairs = FieldRepairs()
        /// Events in memory waiting to be written.
        public internal(set) var heldCount = 0
        /// Stored events that were evicted from the spool, by the quota or by a purge.
        public internal(set) var evicted: UInt64 = 0
        /// Bytes of their lines.
        public internal(set) var evictedByteCount: UInt64 = 0
        /// Failed attempts to enforce the quota.
        public internal(set) var upkeepFailures: UInt64 = 0
        /// Failed attempts to make stored events survive a power failure.
        public internal(set) var syncFailures: UInt64 = 0
        /// Failed attempts to write the install file.
        public internal(set) var installFailures: UInt64 = 0
        /// Failed attempts to save or delete the record of the session, which the next start may then not continue.
        public internal(set) var sessionFailures: UInt64 = 0
        /// Categories of consent that could not be written, because of their names or their number.
        public internal(set) var omittedCategories: UInt64 = 0
        /// Whether the last failed write was due to a full disk.
        private(set) var isDiskFull = false
        private var drops = [UInt64](repeating: 0, count: DropReason.Code.allCases.count)

        init() {}

        /// Events dropped for one reason.
        public func dropped(_ reason: DropReason) -> UInt64 {
            self.drops[reason.code.rawValue]
        }

        /// Events dropped for any reason.
        public var droppedCount: UInt64 {
            self.drops.reduce(0, +)
        }

        mutating func count(storedByteCount: Int) {
            self.stored += 1
            self.storedByteCount += UInt64(storedByteCount)
        }

        mutating func count(_ eviction: Eviction) {
            self.evicted += UInt64(eviction.evictedCount)
            self.evictedByteCount += UInt64(eviction.evictedByteCount)
        }

        mutating func diskFailed(_ error: FileSystemError) {
            self.isDiskFull = error.isDiskFull
        }

        mutating func count(_ reason: DropReason) {
            self.drops[reason.code.rawValue] += 1
        }
    }
}

extension WaybillClient.Counters: CustomStringConvertible {
    /// The counters as text, such as `120 stored, 3 dropped (sampled 2, too_large 1), 0 held, 0 evicted`.
    public var description: String {
        let reasons = DropReason.Code.allCases.map { DropReason($0) }.filter { self.dropped($0) > 0 }
            .map { "\($0) \(self.dropped($0))" }
        let why = reasons.isEmpty ? "" : " (\(reasons.joined(separator: ", ")))"
        return
            "\(self.stored) stored, \(self.droppedCount) dropped\(why), \(self.heldCount) held, \(self.evicted) evicted"
    }
}

/// The drops that no `wb.dropped` event has reported yet.
struct UnreportedDrops {
    private var counts = [UInt64](repeating: 0, count: DropReason.Code.allCases.count)
    private(set) var isEmpty = true

    /// Counts a drop, unless the app requested it.
    mutating func count(_ reason: DropReason) {
        guard reason.isReported else { return }
        self.counts[reason.code.rawValue] += 1
        self.isEmpty = false
    }

    /// Adds the event's fields: the number of all drops, then that of each reason.
    func put(to fields: inout Fields) {
        fields.put("count", self.counts.reduce(0, +))
        for code in DropReason.Code.allCases where self.counts[code.rawValue] > 0 {
            fields.put(DropReason(code).description, self.counts[code.rawValue])
        }
    }

    /// Records that an event reported them.
    mutating func removeAll() {
        for index in self.counts.indices { self.counts[index] = 0 }
        self.isEmpty = true
    }
}

/// The contents of a spool.
public struct SpoolUsage: Hashable, Sendable {
    /// The size of its segments, in bytes.
    public let byteCount: Int
    /// The number of its segments, each one file.
    public let segmentCount: Int
    /// Events not yet acknowledged by a receiver; all events of a segment count until the whole segment is
    /// acknowledged.
    public let unacknowledgedCount: Int
}

/// The phase of an app.
public enum AppPhase: Hashable, Sendable {
    /// The app is visible to the user.
    case foreground
    /// The app is not visible and may be suspended at any time.
    case background
}

/// The origin of an install's anonymous id.
public enum InstallOrigin: Hashable, Sendable {
    /// The id was created by the first start with this spool.
    case created
    /// The id was read from the install file.
    case continued
    /// The install file could not be read and was renamed to this path; a new id was created.
    case setAside(path: String)
}
