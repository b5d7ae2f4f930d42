package import WaybillProtocol
package import WaybillSystem

internal import WaybillCompression

/// One element of a segment.
package enum SegmentItem {
    /// A message between batches; valid once a ``Message/mark(position:milliseconds:checksum:)`` follows it.
    case message(Message)
    /// A batch with a correct checksum. `payload` is valid until the next call.
    case batch(BatchHeader, StreamDescription, payload: UnsafeRawBufferPointer)
    /// The limit was reached.
    case end
    /// The bytes here are not a valid frame.
    case damaged(String)
}

/// Reads one segment from its head, frame by frame, verifying every checksum.
///
/// Memory: one frame.
package struct SegmentScanner<Files: FileSystem>: ~Copyable {
    /// `nil`: all of it is in ``buffer``.
    private let file: FileID?
    private let files: Files
    private let base: JournalPosition
    /// The end of the segment for this scan.
    package private(set) var limit: JournalPosition
    private var buffer: UnsafeMutableRawBufferPointer
    /// The part of the file in `buffer`: `bufferStart ..< bufferStart + bufferCount`.
    private var bufferStart = 0
    private var bufferCount = 0
    /// The offset of the next frame in the file.
    private var offset = 0
    private var unmarkedChecksum: UInt32 = 0
    /// The offset of the frame after a damaged batch or mark, according to its line.
    private var offsetBehindDamage: Int?
    /// Whether the last damage is a batch of a stream whose `OPEN` line in this segment is damaged.
    package private(set) var isStreamUnknown = false
    /// Streams opened since the last mark.
    private var unmarked: [StreamNumber: StreamDescription] = [:]
    /// Streams whose `OPEN` line no mark covers, because of damage; a non-`nil` entry in ``descriptions`` counts
    /// instead.
    private var unverified: [StreamNumber: StreamDescription] = [:]
    private var descriptions: [StreamNumber: StreamDescription] = [:]
    /// Whether the last batch's description is not covered by a mark; the batch's checksum still covers the stream's
    /// id.
    package private(set) var isDescriptionUnverified = false
    /// The time of the last mark.
    package private(set) var receivedAt = WallTime(milliseconds: 0)
    /// Whether payloads are read and verified, or skipped.
    package var isReadingPayloads = true

    package init(
        segment base: JournalPosition, in directory: String, limit: JournalPosition, files: Files
    ) throws(FileSystemError) {
        try self.init(path: JournalPath.segment(base, in: directory), base: base, limit: limit, files: files)
    }

    /// Reads a segment under any name; `base` is the position of its first byte.
    package init(
        path: String, base: JournalPosition, limit: JournalPosition, files: Files
    ) throws(FileSystemError) {
        self.file = try files.open(path, .read)
        self.files = files
        self.base = base
        self.limit = limit
        self.buffer = .allocate(byteCount: 256 << 10, alignment: 16)
    }

    /// Reads a segment, or a piece of one with its own head, from memory.
    ///
    /// - Parameter base: the position of the first byte.
    package init(bytes: [UInt8], base: JournalPosition, files: Files) {
        self.file = nil
        self.files = files
        self.base = base
        self.limit = JournalPosition(base.rawValue + bytes.count)
        self.buffer = .allocate(byteCount: max(1, bytes.count), alignment: 16)
        self.buffer.copyBytes(from: bytes)
        self.bufferCount = bytes.count
    }

    deinit {
        self.buffer.deallocate()
        if let file { self.files.close(file) }
    }

    /// The position of the next frame in the journal.
    package var position: JournalPosition {
        JournalPosition(self.base.rawValue + self.offset)
    }

    /// Extends the scan to the new end of a segment that has grown.
    package mutating func extend(to limit: JournalPosition) {
        precondition(limit >= self.limit, "a segment does not shrink from \(self.limit) to \(limit)")
        self.limit = limit
    }

    /// Returns the bytes from the next frame on, at least `byteCount` or as many as exist.
    private mutating func window(of byteCount: Int) throws(FileSystemError) -> UnsafeRawBufferPointer {
        let rest = self.limit.rawValue - self.base.rawValue - self.offset
        let wanted = min(byteCount, rest)
        if let file, self.offset < self.bufferStart || self.offset + wanted > self.bufferStart + self.bufferCount {
            if wanted > self.buffer.count {
                self.buffer.deallocate()
                self.buffer = .allocate(byteCount: wanted + (64 << 10), alignment: 16)
            }
            let length = min(self.buffer.count, rest)
            self.bufferStart = self.offset
            self.bufferCount = try self.files.readFully(
                file, at: self.offset, into: UnsafeMutableRawBufferPointer(rebasing: self.buffer[..<length]))
        }
        let start = self.offset - self.bufferStart
        let end = min(self.bufferCount, start + max(wanted, 0))
        return UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(self.buffer)[start..<max(start, end)])
    }

    package mutating func next() throws(FileSystemError) -> SegmentItem {
        self.offsetBehindDamage = nil
        self.isStreamUnknown = false
        self.isDescriptionUnverified = false
        let window = try self.window(of: ProtocolLimits.messageByteCountMax)
        if window.isEmpty { return self.position < self.limit ? .damaged("the file ends early") : .end }
        let decoded: (message: Message, byteCount: Int)?
        do throws(WireError) {
            decoded = try Message.decode(prefixOf: window)
        } catch {
            return .damaged(error.text)
        }
        guard let (message, byteCount) = decoded else { return .damaged("a line is cut off") }
        switch message {
        case .batch(let header):
            return try self.batch(header, lineByteCount: byteCount)
        case .mark(let position, let milliseconds, let checksum):
            return self.mark(
                message, position, milliseconds, checksum, line: UnsafeRawBufferPointer(rebasing: window[..<byteCount]))
        case .open(let number, let description, _):
            self.unmarked[number] = description
        case .at, .tail, .sealed, .skip, .seal, .start, .resting:
            break
        case .hello, .ready, .ack, .nak, .stored, .note, .ping, .pong, .wait, .move, .err, .bye:
            return .damaged("this message does not occur in a journal")
        }
        self.unmarkedChecksum = FrameChecksum.checksum(
            continuing: self.unmarkedChecksum, UnsafeRawBufferPointer(rebasing: window[..<byteCount]))
        self.offset += byteCount
        return .message(message)
    }

    private mutating func mark(
        _ message: Message, _ position: UInt64, _ milliseconds: UInt64, _ checksum: UInt32,
        line: UnsafeRawBufferPointer
    ) -> SegmentItem {
        // The checksum and its LF are the line's last nine bytes.
        let covered = FrameChecksum.checksum(
            continuing: self.unmarkedChecksum, UnsafeRawBufferPointer(rebasing: line[..<(line.count - 9)]))
        // A piece whose head is damaged may begin before 0.
        guard Int(position) == self.position.rawValue, covered == checksum else {
            if Int(position) == self.position.rawValue { self.offsetBehindDamage = self.offset + line.count }
            return .damaged("the checksum of a mark is wrong")
        }
        self.unmarkedChecksum = 0
        for (number, description) in self.unmarked { self.descriptions[number] = description }
        self.unmarked.removeAll(keepingCapacity: true)
        self.receivedAt = WallTime(milliseconds: Int64(milliseconds))
        self.offset += line.count
        return .message(message)
    }

    private mutating func batch(_ header: BatchHeader, lineByteCount: Int) throws(FileSystemError) -> SegmentItem {
        let frameByteCount = lineByteCount + header.wireByteCount
        guard self.position.rawValue + frameByteCount <= self.limit.rawValue else {
            return .damaged("a payload is cut off")
        }
        let verified = self.descriptions[header.stream]
        guard let description = verified ?? self.unverified[header.stream] ?? self.unmarked[header.stream] else {
            self.offsetBehindDamage = self.offset + frameByteCount
            self.isStreamUnknown = true
            return .damaged("a batch names stream \(header.stream.rawValue), which this segment does not open")
        }
        guard header.isPossible else {
            self.offsetBehindDamage = self.offset + frameByteCount
            return .damaged("a batch declares more bytes than its payload can hold")
        }
        self.isDescriptionUnverified = verified == nil
        guard self.isReadingPayloads else {
            self.offset += frameByteCount
            return .batch(header, description, payload: UnsafeRawBufferPointer(start: nil, count: 0))
        }
        let frame = try self.window(of: frameByteCount)
        guard frame.count == frameByteCount else { return .damaged("a payload is cut off") }
        let payload = UnsafeRawBufferPointer(rebasing: frame[lineByteCount...])
        guard FrameChecksum.checksum(of: header.checksummedText(id: description.id), payload) == header.checksum else {
            self.offsetBehindDamage = self.offset + frameByteCount
            self.isStreamUnknown = verified == nil && self.unverified[header.stream] != nil
            return .damaged("the checksum of a batch is wrong")
        }
        self.unmarkedChecksum = 0
        self.offset += frameByteCount
        return .batch(header, description, payload: payload)
    }

    /// Resumes after damage if a group begins after it: at the frame after the damaged one, or else at that group.
    ///
    /// Without such a group the damage may be a torn end, which does not count, unless it is a batch of an unknown
    /// stream: then the damage is further up.
    ///
    /// - Returns: whether there is such a group; if not, the scan does not move.
    package mutating func resynchronize() throws(FileSystemError) -> Bool {
        let start = self.offset
        self.distrustUnmarked()
        if self.isStreamUnknown, try self.stepOver() { return true }
        guard try self.findMark() else { return false }
        let mark = self.offset
        self.offset = start
        if try self.stepOver(), self.offset <= mark { return true }
        self.offset = mark
        return true
    }

    /// Resumes behind damage that is known to be in the middle: at the frame after it, or else at a group.
    ///
    /// - Returns: whether there is one; if not, the scan does not move.
    package mutating func stepOverDamage() throws(FileSystemError) -> Bool {
        if try self.stepOver() { return true }
        return try self.resynchronize()
    }

    /// Reads the rest of the segment.
    ///
    /// - Returns: the last known time of receipt; `nil` if there is none.
    package mutating func lastTime() throws(FileSystemError) -> WallTime? {
        self.isReadingPayloads = false
        var last: WallTime?
        while true {
            switch try self.next() {
            case .message(.mark):
                if self.receivedAt != .unknown { last = self.receivedAt }
            case .message, .batch: continue
            case .end: return last
            case .damaged:
                guard try self.resynchronize() else { return last }
            }
        }
    }

    private mutating func distrustUnmarked() {
        self.unverified.merge(self.unmarked) { first, _ in first }
        self.unmarked.removeAll(keepingCapacity: true)
    }

    /// Resumes at the frame after a damaged batch, or after a mark whose lines are damaged.
    ///
    /// - Returns: whether there is such a frame; if not, the scan does not move.
    package mutating func stepOver() throws(FileSystemError) -> Bool {
        guard let offsetBehindDamage else { return false }
        let start = self.offset
        self.offset = offsetBehindDamage
        let window = try self.window(of: ProtocolLimits.messageByteCountMax)
        guard window.isEmpty || Message.readable(atStartOf: window) != nil else {
            self.offset = start
            return false
        }
        self.distrustUnmarked()
        self.unmarkedChecksum = 0
        return true
    }

    private mutating func findMark() throws(FileSystemError) -> Bool {
        let start = self.offset
        self.offset += 1
        while self.position < self.limit {
            let window = try self.window(of: 64 << 10)
            if let found = self.markOffset(in: window) {
                self.offset += found
                self.unmarkedChecksum = 0
                return true
            }
            // A mark is shorter than 64 bytes; keep enough to find one that spans the border.
            guard window.count > 64 else { break }
            self.offset += window.count - 64
        }
        self.offset = start
        return false
    }

    /// The offset in `window` of a mark that has its own position and a checksum that covers only itself.
    private func markOffset(in window: UnsafeRawBufferPointer) -> Int? {
        var index = 0
        while let found = window[index...].firstIndex(of: UInt8(ascii: "M")) {
            let rest = UnsafeRawBufferPointer(rebasing: window[found...].prefix(80))
            if rest.starts(with: "MARK ".utf8), let end = rest.firstIndex(of: 0x0A), end > 9,
                let message = try? Message(line: UnsafeRawBufferPointer(rebasing: rest[..<end])),
                case .mark(let position, _, let checksum) = message,
                Int(position) == self.base.rawValue + self.offset + found,
                FrameChecksum.checksum(continuing: 0, UnsafeRawBufferPointer(rebasing: rest[..<(end - 8)])) == checksum
            {
                return found
            }
            index = found + 1
        }
        return nil
    }
}

extension Message {
    /// The message that bytes begin with; `nil` if they begin with none, or with a part of one.
    static func readable(atStartOf bytes: UnsafeRawBufferPointer) -> (message: Message, byteCount: Int)? {
        do throws(WireError) {
            return try Message.decode(prefixOf: bytes)
        } catch {
            return nil
        }
    }
}
