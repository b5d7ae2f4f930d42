/// What became of an event.
public enum TrackOutcome: Hashable, Sendable {
    /// It is on the disk, under this sequence number, and survives the death of the process.
    case stored(seq: UInt64)
    /// It is nowhere, and counted.
    case dropped(Drop)
}

/// Why an event was not stored; more reasons may come.
public struct Drop: Hashable, Sendable, CustomStringConvertible {
    enum Reason: Int, CaseIterable {
        case optedOut, invalid, tooLarge, diskFull, diskError
    }

    let reason: Reason

    /// The user does not allow analytics.
    public static let optedOut = Drop(reason: .optedOut)
    /// It has no name, or a user id beyond 256 bytes.
    public static let invalid = Drop(reason: .invalid)
    /// Its line would be beyond 32 KiB.
    public static let tooLarge = Drop(reason: .tooLarge)
    /// The file system is full; later events are stored again as soon as there is room.
    public static let diskFull = Drop(reason: .diskFull)
    /// The file system refuses to write; every later event tries again.
    public static let diskError = Drop(reason: .diskError)

    /// A word for metrics and logs.
    public var description: String {
        switch self.reason {
        case .optedOut: "opted_out"
        case .invalid: "invalid"
        case .tooLarge: "too_large"
        case .diskFull: "disk_full"
        case .diskError: "disk_error"
        }
    }
}

/// What a client did since it started.
public struct Counters: Hashable, Sendable {
    /// Events stored, those of Waybill's own included.
    public internal(set) var stored: UInt64 = 0
    /// Bytes of their lines.
    public internal(set) var storedByteCount: UInt64 = 0
    /// Fields and names that could not be written as they were.
    public internal(set) var repairs = FieldRepairs()
    /// Times that the install file could not be written.
    public internal(set) var installFailures: UInt64 = 0
    private var drops = [UInt64](repeating: 0, count: Drop.Reason.allCases.count)

    init() {}

    /// Events dropped for one reason.
    public func dropped(_ drop: Drop) -> UInt64 {
        self.drops[drop.reason.rawValue]
    }

    /// Events dropped for any reason.
    public var droppedCount: UInt64 {
        self.drops.reduce(0, +)
    }

    mutating func count(storedByteCount: Int) {
        self.stored += 1
        self.storedByteCount += UInt64(storedByteCount)
    }

    mutating func count(_ drop: Drop) {
        self.drops[drop.reason.rawValue] += 1
    }
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

/// An error of the client: what happened, where, and what to do.
public struct WaybillError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A bounded word for metrics, as "permission", "not-a-directory", "disk-full" or "configuration".
    public let code: String
    /// What happened, on which path, and what to do.
    public let message: String
    /// The system's error number; 0 when it was not the system.
    public let errno: Int32

    /// Code and message.
    public var description: String {
        "\(self.code): \(self.message)"
    }
}
