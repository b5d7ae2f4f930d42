package import WaybillProtocol
package import WaybillSystem

/// The name of an agent; part of the ids of foreign streams.
package struct AgentName: Hashable, Sendable, CustomStringConvertible {
    /// Longer names would not leave enough room in a ``StreamID`` of 128 bytes for the file's identity.
    package static let byteCountMax = 32

    package let description: String

    /// Accepts 1 to 32 bytes of `A-Z a-z 0-9 . _ : -`; `nil` for anything else.
    package init?(_ name: String) {
        let bytes = name.utf8
        guard (1...Self.byteCountMax).contains(bytes.count), bytes.allSatisfy(StreamID.isAllowed) else { return nil }
        self.description = name
    }
}

/// A stream's handle for the lifetime of a tail; the handle of a removed stream is never reused.
package struct StreamKey: Hashable, Sendable {
    /// The slot in the low 32 bits, the slot's generation in the high 32 bits.
    package let rawValue: Int

    init(slot: Int, generation: Int) {
        self.rawValue = generation << 32 | slot
    }

    var slot: Int { self.rawValue & 0xFFFF_FFFF }
    var generation: Int { self.rawValue >> 32 }
}

/// The instant of a call, on both clocks.
package struct TailTime: Hashable, Sendable {
    /// The monotonic clock, for the order of events and for grace periods.
    package let monotonic: MonotonicTime
    /// The wall clock, compared only with file times.
    package let wall: WallTime

    package init(monotonic: MonotonicTime, wall: WallTime) {
        self.monotonic = monotonic
        self.wall = wall
    }
}

/// A configured group of files.
package struct SourceConfiguration: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// A folder of client segments; may contain wildcards, as in `/var/spool/waybill/*`.
        case spool(directory: String)
        /// Foreign files by patterns (``GlobPattern``).
        case files(patterns: [String])
    }

    /// The name: 1 or more bytes without spaces or control characters; stored in the registry.
    ///
    /// In `0:/var/log/*.json`, the number before the first colon says which source of the configuration it is.
    package let name: String
    package let kind: Kind
    /// Whether links to foreign files, and links to folders that a wildcard matches, are followed.
    package let followsLinks: Bool
    /// Which of the foreign files are left out (``FileExclusion``).
    package let excludes: [String]
    /// Whether its changes are looked for as if the system reported none.
    package let isPolled: Bool

    package init(
        name: String, kind: Kind, followsLinks: Bool = false, excludes: [String] = [], isPolled: Bool = false
    ) {
        precondition(
            !name.isEmpty && name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F },
            "a source's name must not be empty or have spaces or control characters: \(name)")
        self.name = name
        self.kind = kind
        self.followsLinks = followsLinks
        self.excludes = excludes
        self.isPolled = isPolled
    }

    /// The name without its number.
    static func unnumbered(_ name: String) -> Substring {
        guard let colon = name.firstIndex(of: ":") else { return name[...] }
        return name[name.index(after: colon)...]
    }

    /// Whether its files are segments.
    var isSpool: Bool {
        switch self.kind {
        case .spool: true
        case .files: false
        }
    }
}

/// Limits and intervals of a tail.
package struct TailLimits: Hashable, Sendable {
    /// The maximum length of a line including its LF; longer ones go to the quarantine folder.
    ///
    /// 1 MiB is what the agent accepts from foreign writers (design, section 3).
    package var lineByteCountMax = 1 << 20
    /// The maximum number of lines in a batch.
    package var batchLineCountMax = 65_536
    /// The maximum number of open files; fewer when the process has no descriptors for them.
    package var openFileCountMax = Self.openFileCountUsual
    /// How long a file that was deleted, or renamed away with an incomplete last line, must not grow before it is
    /// sealed.
    package var leftGrace = Duration.seconds(10)
    /// The same for a file that was renamed away and ends with a whole line.
    ///
    /// A writer that has not noticed the rotation may still write to the file; later writes are missed.
    package var renamedGrace = Duration.seconds(600)
    /// The age at which an empty, unlocked segment is deleted, even if it is still named `.new`.
    package var emptySegmentAge = Duration.seconds(60)
    /// How long a segment on a file system that others may use must not be written to before its writer counts as gone.
    package var sharedSegmentGrace = Duration.seconds(3600)
    /// How long a file may be shorter than what was read of it before that is another content.
    package var shortPatience = ShortFiles.patience
    /// How long NULs before a line must stay what they are before they are skipped.
    package var holePatience = PendingHole.patience
    /// The same where not every change is seen.
    package var blindHolePatience = PendingHole.patienceWithoutHints
    /// With fewer acknowledged bytes, equal ones do not prove that a file continues another one.
    package var provingByteCount = 512
    /// How many ids of contents that left their inode are kept from other files.
    package var takenStemCountMax = 65_536
    /// The interval at which ``Tail/isCheckpointDue(_:)`` requests a checkpoint while there are changes.
    package var checkpointInterval = Duration.seconds(1)
    /// The number of fully read segments that one scan checks for whether their writer is gone.
    package var lockProbeCountMax = 512
    /// How much of an over-long line the quarantine folder keeps.
    package var overlongCopyByteCountMax = 128 << 20
    /// The number of bytes of an over-long line that one read looks at.
    package var overlongByteCountPerRead = 64 << 20

    /// How long shipped segments are kept; `nil`: they are deleted as soon as they are sealed, unless their spool asks to
    /// keep them.
    package var keep: FileLimit?
    /// How long the files of the quarantine folder are kept.
    package var quarantine = FileLimit()

    package init() {}
}

/// The result of a read of a stream.
package enum TailRead: Hashable, Sendable {
    /// Whole lines, at the start of the caller's buffer.
    ///
    /// If `isFinalUnterminated` is set, it is one line without LF, the last of this stream.
    case batch(offset: Int, rawByteCount: Int, lineCount: Int, isFinalUnterminated: Bool)
    case skip(SkippedRange)
    /// The stream is complete; `length` bytes were returned or skipped.
    case sealed(length: Int)
    /// The receiver's position is needed first (``Tail/positionLearned(_:at:_:)``).
    case unpositioned
    /// There is nothing to read now; the stream becomes ready again automatically.
    case nothing
}

/// What to do with a stream after an answer of the receiver.
package enum AnswerOutcome: Hashable, Sendable {
    /// Continue with it.
    case goOn
    /// Open the file again at once: its stream has another id now.
    case openAgain
    /// The receiver holds other bytes, or lacks some that another one alone has: leave it, and open it again later.
    case disputed
    /// The receiver holds all of the segment, and more of it than this machine still has: leave it.
    case shortened
    /// The file cannot be read now: leave its stream; it becomes ready again after a scan.
    case postponed
    /// The file is shipped and sealed, and is followed no more, or only until it can be deleted.
    case done
}

/// What to do with a stream after the receiver demanded a proof for it.
package enum ProofAnswer: Hashable, Sendable {
    /// Open it again with this claim.
    case claim(OpenClaim)
    /// The file has other bytes, or cannot be read now.
    case outcome(AnswerOutcome)
}

/// A notable event in the life of a file.
///
/// Paths and ids are for logs, cases for metrics.
package enum TailNotice: Hashable, Sendable {
    case discovered(StreamID, path: String)
    /// So many other files were found at the same look.
    case moreDiscovered(count: Int)
    case rotated(StreamID, from: String, to: String)
    /// The file was truncated or rewritten: its content from `offset` on is lost.
    ///
    /// `lostByteCount` of these bytes had been seen; bytes written after the last check cannot be counted.
    case cut(StreamID?, path: String, offset: Int, lostByteCount: Int)
    /// The receiver proves to hold other bytes than the foreign file has: another content of this file, or someone
    /// else's. The file is asked for under the next incarnation.
    case receiverDiffers(StreamID, path: String, receiverOffset: Int, byteCount: Int)
    /// The receiver cannot prove that it holds this segment's bytes: the segment stays and is asked for again later.
    case segmentDisputed(StreamID, path: String, receiverOffset: Int, byteCount: Int, skippedByteCount: UInt64)
    /// The receiver has sealed a segment whose first bytes are in the own archive of `holder`, from before the fleet: the
    /// segment stays until that one has sealed it, too.
    case segmentAwaits(StreamID, path: String, holder: String, byteCount: Int)
    /// The receiver holds more of a segment than the file has, and proves the bytes that were sent: the agent's host
    /// lost the end of the file in a power failure.
    case segmentShortened(StreamID, path: String, receiverOffset: Int, byteCount: Int)
    /// A receiver that is unknown or came back older does not hold these segments, which were delivered at its address
    /// and deleted: no file has them.
    case segmentsMissing(MissingSegments)
    /// The receiver holds less than it acknowledged.
    case receiverForgot(StreamID, path: String, receiverOffset: Int, ackedOffset: Int)
    /// The file is gone: its content from `offset` on is lost, of which `lostByteCount` bytes had been seen.
    ///
    /// Also reported without lost bytes for a foreign file that was not open when it disappeared, because its end is
    /// unknown.
    case vanished(StreamID?, path: String, offset: Int, lostByteCount: Int)
    /// A file was written again under its name, and has all that was shipped of the one before: it continues at `offset`.
    case continued(StreamID, path: String, offset: Int)
    /// A file was shorter than `offset`, up to which it was read, and has grown back to the same content.
    case regrown(StreamID, path: String, byteCount: Int, offset: Int)
    /// A file is shorter than `offset`, up to which it was read: what it has since is another content, and
    /// `rereadByteCount` of its bytes are shipped again.
    case shortened(StreamID, path: String, offset: Int, byteCount: Int, rereadByteCount: Int)
    /// Files that were not found again at the start, and may have had more lines; told once for each folder.
    case unseenEnds(folders: [String], first: String, count: Int)
    case unreadable(path: String, FileSystemError)
    /// The process had no descriptor left; at most so many files are open from here on. Told once.
    case fewDescriptors(count: Int)
    /// A foreign file is shipped although its first bytes show that its lines are probably no events.
    case recognized(path: String, ForeignFormat)
    /// A file or folder is not followed, because another user may have put it there, or because it has no lines.
    case refused(path: String, FileRefusal)
    /// Files whose names and bytes say that they are compressed; told once for each folder.
    case compressed(folder: String, first: String, count: Int)
    /// A pattern matches something that is not a regular file.
    case notRegular(path: String)
    /// A spool has a file whose name is not a segment's.
    case notSegment(path: String)
    /// Two paths claim one segment; one of them is followed.
    case duplicateSegment(StreamID, path: String)
    /// The locks of a spool's writers may not be seen here: a segment is not completed before `grace` has passed.
    case locksUnseen(folder: String, grace: Duration)
    /// `keptByteCount` of its bytes are in the quarantine folder.
    case tooLong(StreamID, offset: Int, length: Int, keptByteCount: Int, quarantinePath: String)
    /// A line is longer than the limit and continues; reported again whenever it is twice as long.
    case tooLongSoFar(StreamID, path: String, offset: Int, length: Int)
    /// So many NULs are skipped, because its writer went on at its old offset after the file was cut. Told once for each
    /// content of a file.
    case hole(StreamID, path: String, offset: Int, byteCount: Int)
    case quarantineFailed(StreamID, offset: Int, FileSystemError)
    case tornTail(StreamID, offset: Int, length: Int)
    case segmentDeleted(StreamID)
    /// A shipped segment has another name now, and is kept for a while.
    case segmentKept(StreamID)
    /// Kept segments are shipped again: the receiver at their address is another one, or came back older.
    case segmentsReturned(count: Int, byteCount: Int)
    case keptSegmentDeleted(path: String, byteCount: Int, FileLimit.Reason)
    /// A line that was too long, which the quarantine folder kept.
    case quarantineDeleted(path: String, byteCount: Int, FileLimit.Reason)
    case emptySegmentDeleted(path: String)
    /// A segment with content that had lost its name in a power failure was renamed.
    case segmentNamed(StreamID, path: String)
    case segmentUndeletable(StreamID, path: String, FileSystemError)
    /// A segment is longer than its sealed length, so it is kept.
    case segmentGrewAfterSeal(StreamID, path: String, sealedByteCount: Int, byteCount: Int)
}

/// Bytes that a tail could not ship because they were truncated or deleted first.
package struct TailLoss: Hashable, Sendable {
    /// Lost bytes that had been seen, a lower bound of the loss.
    package internal(set) var byteCount = 0
    /// How often seen bytes were lost.
    package internal(set) var occasionCount = 0

    package init(byteCount: Int = 0, occasionCount: Int = 0) {
        self.byteCount = byteCount
        self.occasionCount = occasionCount
    }
}

/// What a tail read from the registry at its start.
package struct TailRecovery: Hashable, Sendable {
    package internal(set) var entryCount = 0
    /// Keys of unreadable entries, which are dropped.
    package internal(set) var unreadableKeys: [String] = []
    /// Keys of logs' entries from before the agent got its present name, which are dropped.
    package internal(set) var formerKeys: [String] = []
    /// An entry that ended the agent twice, which is dropped, too.
    package internal(set) var poison: Poison?

    package struct Poison: Hashable, Sendable {
        package let key: String
        package let text: String
        package let signal: Int

        package init(key: String, text: String, signal: Int) {
            self.key = key
            self.text = text
            self.signal = signal
        }
    }

    package init(entryCount: Int = 0, unreadableKeys: [String] = []) {
        self.entryCount = entryCount
        self.unreadableKeys = unreadableKeys
    }
}
