internal import WaybillSpool
internal import WaybillSystem

/// What became of an event.
public enum TrackOutcome: Hashable, Sendable {
    /// It is on the disk, under this sequence number, and survives the death of the process.
    case stored(seq: UInt64)
    /// It is in memory and follows as soon as it can: the disk refuses, or lines are gathered
    /// (``WaybillClient/Durability/memory``).
    ///
    /// The death of the process loses it. While a disk refuses, the newest 256 KiB wait; older ones are dropped and
    /// counted.
    case held
    /// It is nowhere, and counted.
    case dropped(DropReason)
}

/// Why an event was not stored; more reasons may come.
public struct DropReason: Hashable, Sendable, CustomStringConvertible {
    enum Code: Int, CaseIterable {
        case optedOut, sampled, filtered, invalid, tooLarge, diskFull, diskError, purged
    }

    let code: Code

    init(_ code: Code) {
        self.code = code
    }

    /// The user does not allow analytics.
    public static let optedOut = DropReason(.optedOut)
    /// A share of such events or users is kept, and this one is not in it.
    public static let sampled = DropReason(.sampled)
    /// A filter dropped it.
    public static let filtered = DropReason(.filtered)
    /// It was in memory when the app purged.
    public static let purged = DropReason(.purged)
    /// It has no name, a user id beyond 256 bytes, or a visitor that cannot be said.
    public static let invalid = DropReason(.invalid)
    /// Its line would be beyond 32 KiB.
    public static let tooLarge = DropReason(.tooLarge)
    /// The file system is full, or has less room than ``WaybillClient/Quota`` leaves to others, and so is the memory
    /// for held events.
    public static let diskFull = DropReason(.diskFull)
    /// The file system refuses to write, and memory for held events is full; every later event tries again.
    public static let diskError = DropReason(.diskError)

    /// Whether a `wb.dropped` event tells of it; the others are what the app asked for.
    var isReported: Bool {
        switch self.code {
        case .optedOut, .sampled, .filtered, .purged: false
        case .invalid, .tooLarge, .diskFull, .diskError: true
        }
    }

    /// A word for metrics and logs.
    public var description: String {
        switch self.code {
        case .optedOut: "opted_out"
        case .sampled: "sampled"
        case .filtered: "filtered"
        case .purged: "purged"
        case .invalid: "invalid"
        case .tooLarge: "too_large"
        case .diskFull: "disk_full"
        case .diskError: "disk_error"
        }
    }
}

extension WaybillClient {
    /// What a client did since it started.
    public struct Counters: Hashable, Sendable {
        /// Events stored, those of Waybill's own included.
        public internal(set) var stored: UInt64 = 0
        /// Bytes of their lines.
        public internal(set) var storedByteCount: UInt64 = 0
        /// Fields and names that could not be written as they were.
        public internal(set) var repairs = FieldRepairs()
        /// Events in memory that wait for the disk.
        public internal(set) var heldCount = 0
        /// Events that were stored and taken out of the spool again, for the quota or by a purge.
        public internal(set) var evicted: UInt64 = 0
        /// Bytes of their lines.
        public internal(set) var evictedByteCount: UInt64 = 0
        /// Times that looking after the quota failed.
        public internal(set) var upkeepFailures: UInt64 = 0
        /// Times that stored events could not be made to survive a power cut.
        public internal(set) var flushFailures: UInt64 = 0
        /// Times that the install file could not be written.
        public internal(set) var installFailures: UInt64 = 0
        /// Whether the disk was full when it refused last.
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

        mutating func count(storedByteCount: Int, count: Int = 1) {
            self.stored += UInt64(count)
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
    /// As in `120 stored, 3 dropped (sampled 2, too_large 1), 0 held, 0 evicted`.
    public var description: String {
        let reasons = DropReason.Code.allCases.map { DropReason($0) }.filter { self.dropped($0) > 0 }
            .map { "\($0) \(self.dropped($0))" }
        let why = reasons.isEmpty ? "" : " (\(reasons.joined(separator: ", ")))"
        return
            "\(self.stored) stored, \(self.droppedCount) dropped\(why), \(self.heldCount) held, \(self.evicted) evicted"
    }
}

/// What waits in a spool.
public struct SpoolUsage: Hashable, Sendable {
    /// Bytes of its segments.
    public let byteCount: Int
    /// Its files.
    public let segmentCount: Int
    /// Events that nobody said are durable elsewhere; those of a segment that is being shipped all count.
    public let unacknowledgedCount: Int
}

/// Where an app is.
public enum AppPhase: Hashable, Sendable {
    /// The user sees it.
    case foreground
    /// It may be suspended at any time.
    case background
}

/// Where the anonymous id of an install came from.
public enum InstallOrigin: Hashable, Sendable {
    /// First start on this spool.
    case created
    /// Read from the install file.
    case continued
    /// The install file could not be read, was set aside under this path, and a new id was made.
    case setAside(path: String)
}
