package import WaybillProtocol
package import WaybillSystem

/// The name an agent is known by; part of the ids of foreign streams.
package struct AgentName: Hashable, Sendable, CustomStringConvertible {
    /// Longer names would not leave room in a ``StreamID`` of 128 bytes for what tells files apart.
    package static let byteCountMax = 32

    package let description: String

    /// Takes 1 to 32 bytes of `A-Z a-z 0-9 . _ : -`; `nil` for anything else.
    package init?(_ name: String) {
        let bytes = name.utf8
        guard (1...Self.byteCountMax).contains(bytes.count), bytes.allSatisfy(StreamID.isAllowed) else { return nil }
        self.description = name
    }
}

/// A stream's handle while this tail lives; a handle of a forgotten stream is never given out again.
package struct StreamKey: Hashable, Sendable {
    /// Slot in the low 32 bits, the slot's generation above.
    package let rawValue: Int

    init(slot: Int, generation: Int) {
        self.rawValue = generation << 32 | slot
    }

    var slot: Int { self.rawValue & 0xFFFF_FFFF }
    var generation: Int { self.rawValue >> 32 }
}

/// The instant of a call, on both clocks.
package struct TailTime: Hashable, Sendable {
    /// Orders events; grace periods are measured with it.
    package let monotonic: MonotonicTime
    /// Compared with file times alone.
    package let wall: WallTime

    package init(monotonic: MonotonicTime, wall: WallTime) {
        self.monotonic = monotonic
        self.wall = wall
    }
}

/// Files that belong together.
package struct SourceConfiguration: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// A folder of client segments; may hold wildcards, as in `/var/spool/waybill/*`.
        case spool(directory: String)
        /// Foreign files by glob patterns (``GlobPattern``).
        case files(patterns: [String])
    }

    /// 1 or more bytes without space or control characters; kept in the registry.
    package let name: String
    package let kind: Kind

    package init(name: String, kind: Kind) {
        precondition(
            !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F },
            "a source's name holds no space or control character: \(name)")
        self.name = name
        self.kind = kind
    }
}

/// Bounds and waiting times of a tail.
package struct TailLimits: Hashable, Sendable {
    /// A line with its LF; a longer one goes to the quarantine folder.
    ///
    /// 1 MiB is what the agent accepts from foreign writers (design, section 3).
    package var lineByteCountMax = 1 << 20
    /// Lines in one batch.
    package var batchLineCountMax = 65_536
    /// Well below the usual limit of 1024 per process.
    package var openFileCountMax = 512
    /// How long a file that was deleted, or was renamed away with half a line at its end, must not have grown before
    /// it is sealed.
    package var leftGrace = Duration.seconds(10)
    /// The same for a file that was renamed away and ends in a whole line.
    ///
    /// A writer that was not told of the rotation may come back to it; what it writes later than that is not seen.
    package var renamedGrace = Duration.seconds(600)
    /// How old an empty, unlocked segment must be before it is deleted, one without its name (`.new`) too.
    package var emptySegmentAge = Duration.seconds(60)
    /// How often ``Tail/isCheckpointDue(_:)`` asks for a checkpoint while there are changes.
    package var checkpointInterval = Duration.seconds(1)
    /// How many fully read segments one scan asks whether their writer is gone.
    package var lockProbeCountMax = 512
    /// Bytes of an over-long line that one read moves to the quarantine folder.
    package var overlongByteCountPerRead = 64 << 20

    package init() {}
}

/// What one read of a stream gave.
package enum TailRead: Hashable, Sendable {
    /// Whole lines, at the start of the caller's buffer.
    ///
    /// `isFinalUnterminated`: one line without LF, the last that this stream will ever have.
    case batch(offset: Int, rawByteCount: Int, lineCount: Int, isFinalUnterminated: Bool)
    case skip(offset: Int, length: Int, reason: SkipReason)
    /// Nothing more will ever come; `length` bytes were handed out or skipped.
    case sealed(length: Int)
    /// The receiver's position must be learned first (``Tail/positionLearned(_:at:)``).
    case unpositioned
    /// Nothing now; the stream becomes ready again by itself.
    case nothing
}

/// Something noteworthy that happened to a file.
///
/// Paths and ids are for the diary, cases for metrics.
package enum TailNotice: Hashable, Sendable {
    case discovered(StreamID, path: String)
    case rotated(StreamID, from: String, to: String)
    /// The file was cut or rewritten: what it held from `offset` on is lost.
    ///
    /// `lostByteCount` bytes of that had been seen; what was written after the last look nobody can count.
    case cut(StreamID?, path: String, offset: Int, lostByteCount: Int)
    /// The receiver holds more than the file does: the file is another now.
    case receiverAhead(StreamID, path: String, receiverOffset: Int, byteCount: Int)
    /// The file is gone: what it held from `offset` on is lost, of which `lostByteCount` bytes had been seen.
    ///
    /// Said without a lost byte too of a foreign file that was not open when it went: nobody saw how it ended.
    case vanished(StreamID?, path: String, offset: Int, lostByteCount: Int)
    case unreadable(path: String, FileSystemError)
    /// A pattern matches something that is no regular file.
    case notRegular(path: String)
    /// A spool holds a file whose name is not a segment's.
    case notSegment(path: String)
    /// Two paths claim one segment; only the first is followed.
    case duplicateSegment(StreamID, path: String)
    case tooLong(StreamID, offset: Int, length: Int, quarantinePath: String)
    case quarantineFailed(StreamID, offset: Int, FileSystemError)
    case tornTail(StreamID, offset: Int, length: Int)
    case segmentDeleted(StreamID)
    case emptySegmentDeleted(path: String)
    /// A segment with bytes had lost its name, as a power cut does it, and has it again.
    case segmentNamed(StreamID, path: String)
    case segmentUndeletable(StreamID, path: String, FileSystemError)
    /// A sealed segment is longer than what was sealed, so it is kept.
    case segmentGrewAfterSeal(StreamID, path: String, sealedByteCount: Int, byteCount: Int)
}

/// What a tail could not ship because it was cut away or deleted before that.
package struct TailLoss: Hashable, Sendable {
    /// Bytes that had been seen; at most what was lost.
    package internal(set) var byteCount = 0
    /// How often bytes that had been seen were lost.
    package internal(set) var occasionCount = 0

    package init(byteCount: Int = 0, occasionCount: Int = 0) {
        self.byteCount = byteCount
        self.occasionCount = occasionCount
    }
}

/// What the registry held when the tail began.
package struct TailRecovery: Hashable, Sendable {
    package internal(set) var entryCount = 0
    /// Keys of the entries that could not be understood; they are dropped.
    package internal(set) var unreadableKeys: [String] = []

    package init(entryCount: Int = 0, unreadableKeys: [String] = []) {
        self.entryCount = entryCount
        self.unreadableKeys = unreadableKeys
    }
}
