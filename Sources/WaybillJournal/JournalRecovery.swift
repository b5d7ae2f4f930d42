internal import WaybillProtocol
internal import WaybillSystem

/// What opening a journal found.
package struct JournalRecovery: Hashable, Sendable {
    package var streamCount = 0
    package var batchCount = 0
    package var end = JournalPosition(0)
    /// Bytes of unacknowledged groups behind the last whole one, cut off and kept beside the journal.
    package var tornByteCount = 0
    /// Where they are kept: a file of their own, or the segment itself; `nil` where the disk had no room.
    package var tornPath: String?
    /// Ranges in the middle that cannot be read; they stay where they are.
    package var damages: [JournalDamage] = []
    /// Segments that hold nothing readable, set aside.
    package var setAsidePaths: [String] = []
    /// Bytes of the last group, which were written to the disk again before anything was answered from them.
    package var rewrittenByteCount = 0

    struct Found {
        var report = JournalRecovery()
        fileprivate var table = TableBuilder()
        var end = JournalPosition(0)
        var segments: [JournalPosition] = []

        var streams: [StreamID: StreamStanding] { self.table.streams }
        var sealedOrder: [StreamID] { self.table.sealedOrder }
        /// Streams that may be described wrongly, because the line that did is damaged.
        var unverifiedStreams: Set<StreamID> { self.table.unverified }
    }

    /// Reads the last segment, cuts its torn end, and rebuilds the stream table.
    static func recover(directory: String, files: some FileSystem) throws(FileSystemError) -> Found {
        var found = Found()
        try LastGroup.finishRewriting(directory: directory, files: files)
        found.segments = try files.list(directory).compactMap(JournalPath.position(ofSegment:)).sorted()
        var limit = JournalPosition(Int.max)
        while let last = found.segments.last {
            let path = JournalPath.segment(last, in: directory)
            let fileEnd = JournalPosition(last.rawValue + (try files.status(at: path)?.byteCount ?? 0))
            if let scan = try self.scan(last, upTo: min(fileEnd, limit), directory: directory, files: files) {
                found.take(scan)
                if scan.isHeadDamaged {
                    found.table.fill(from: try self.tableBefore(found.segments, directory: directory, files: files))
                }
                try self.secure(last, scan, to: fileEnd, directory: directory, files: files, into: &found)
                break
            }
            // Not even the table at its head is whole: it was being created and holds no acknowledged batch.
            let aside = try JournalPath.unused(path + ".torn", files)
            try files.rename(path, to: aside)
            found.report.setAsidePaths.append(aside)
            found.segments.removeLast()
            // Its name says where the one before it ends, even if that one was abandoned with more.
            limit = last
        }
        let missing = try self.missingRanges(found.segments, directory: directory, files: files)
        found.report.damages = missing + found.report.damages
        found.report.end = found.end
        found.report.streamCount = found.table.streams.count
        return found
    }

    /// What lies between the end of a segment's file and the next one's name: cut off, or a segment in between is gone.
    private static func missingRanges(
        _ segments: [JournalPosition], directory: String, files: some FileSystem
    ) throws(FileSystemError) -> [JournalDamage] {
        var missing: [JournalDamage] = []
        for (segment, next) in zip(segments, segments.dropFirst()) {
            let path = JournalPath.segment(segment, in: directory)
            let end = JournalPosition(segment.rawValue + (try files.status(at: path)?.byteCount ?? 0))
            guard end < next else { continue }
            missing.append(
                JournalDamage(
                    segment: segment, start: end, end: next,
                    reason: "the file ends early, or the segment behind it is gone"))
        }
        return missing
    }

    /// The stream table at the end of the last segment but one; `nil` when that is gone or unreadable.
    private static func tableBefore(
        _ segments: [JournalPosition], directory: String, files: some FileSystem
    ) throws(FileSystemError) -> TableBuilder? {
        guard segments.count > 1 else { return nil }
        let (previous, last) = (segments[segments.count - 2], segments[segments.count - 1])
        return try self.scan(previous, upTo: last, directory: directory, files: files)?.table
    }

    fileprivate struct Scan {
        var table = TableBuilder()
        var end: JournalPosition
        /// Where the last group begins.
        var groupStart: JournalPosition
        var batchCount = 0
        var damages: [JournalDamage] = []
        /// Whether the table at the segment's head does not hold while groups behind it do.
        var isHeadDamaged = false
    }

    /// Reads a segment; `nil` when nothing in it is whole.
    private static func scan(
        _ base: JournalPosition, upTo limit: JournalPosition, directory: String, files: some FileSystem
    ) throws(FileSystemError) -> Scan? {
        var scan = Scan(end: base, groupStart: base)
        // A mark that covers nothing but itself begins a group.
        var hasUncovered = false
        var scanner = try SegmentScanner(segment: base, in: directory, limit: limit, files: files)
        // Behind the last mark or batch: lines after it may be what damage made of a batch.
        var confirmed = base
        while true {
            let start = scanner.position
            switch try scanner.next() {
            case .message(.mark):
                if !hasUncovered { scan.groupStart = start }
                hasUncovered = false
                scan.table.confirm()
                scan.end = scanner.position
                confirmed = scan.end
            case .message(let message):
                hasUncovered = true
                scan.table.add(message)
            case .batch(let header, let description, _):
                hasUncovered = false
                // A mark stands between lines and a batch, unless damage took it.
                scan.table.forgetUnconfirmed()
                scan.table.add(header, of: description, isVerified: !scanner.isDescriptionUnverified)
                scan.end = scanner.position
                confirmed = scan.end
                scan.batchCount += 1
            case .end:
                return scan.end == base ? nil : scan
            case .damaged(let reason):
                guard try scanner.resynchronize() else { return scan.end == base ? nil : scan }
                if scan.end == base { scan.isHeadDamaged = true }
                hasUncovered = false
                if scanner.isStreamUnknown { scan.end = scanner.position }
                scan.table.forgetUnconfirmed()
                scan.damages.append(
                    JournalDamage(segment: base, start: confirmed, end: scanner.position, reason: reason))
                confirmed = scanner.position
            }
        }
    }

    /// Cuts what is torn, and makes the rest durable: a process that died may have left it to the kernel alone.
    ///
    /// The last group is written anew: the process before may have died after a sync of it had failed, and then the
    /// kernel shows bytes that no later sync would save.
    private static func secure(
        _ base: JournalPosition, _ scan: Scan, to limit: JournalPosition, directory: String, files: some FileSystem,
        into found: inout Found
    ) throws(FileSystemError) {
        let end = scan.end
        let path = JournalPath.segment(base, in: directory)
        let file = try files.open(path, .append)
        defer { files.close(file) }
        // Behind the last group, where the tail stays in the segment.
        var groupEnd = end
        if end < limit {
            found.report.tornByteCount = limit.rawValue - end.rawValue
            let aside = try JournalPath.unused(Path.join(directory, "\(end.rawValue).torn"), files)
            let offset = end.rawValue - base.rawValue
            switch try self.keepTail(of: file, from: offset, as: aside, files: files) {
            case .copied:
                found.report.tornPath = aside
                try files.truncate(file, to: offset)
            case .noRoom:
                // Nothing of it was acknowledged: a full disk must not keep the receiver from starting.
                try files.truncate(file, to: offset)
            case .failed:
                // The name of the segment that begins next says that these bytes are none of the journal's.
                found.report.tornPath = path
                groupEnd = limit
            }
        }
        try files.synchronize(file)
        try files.synchronizeDirectory(directory)
        let group = LastGroup(segment: base, start: scan.groupStart, end: groupEnd)
        if try group.rewrite(in: file, directory: directory, files: files) {
            found.report.rewrittenByteCount = end.rawValue - scan.groupStart.rawValue
        }
    }

    private enum TailCopy {
        case copied
        case noRoom
        /// The disk refused for another reason; the tail must stay where it is.
        case failed
    }

    private static func keepTail(
        of file: FileID, from offset: Int, as aside: String, files: some FileSystem
    ) throws(FileSystemError) -> TailCopy {
        do throws(FileSystemError) {
            try self.copyTail(of: file, from: offset, to: aside, files: files)
            return .copied
        } catch {
            // Half a copy says nothing; it may not even have been made.
            if try files.status(at: aside) != nil { try files.unlink(aside) }
            return error.isDiskFull ? .noRoom : .failed
        }
    }

    private static func copyTail(
        of file: FileID, from start: Int, to path: String, files: some FileSystem
    ) throws(FileSystemError) {
        let copy = try files.open(path, .appendNew)
        defer { files.close(copy) }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var offset = start
        while true {
            let count = try files.readFully(file, at: offset, into: buffer)
            if count == 0 { break }
            try files.writeAll(copy, UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += count
        }
        try files.synchronize(copy)
    }
}

extension JournalRecovery.Found {
    fileprivate mutating func take(_ scan: JournalRecovery.Scan) {
        self.report.damages = scan.damages
        self.report.batchCount = scan.batchCount
        self.table = scan.table
        self.end = scan.end
    }
}

/// A range of a segment that cannot be read.
package struct JournalDamage: Hashable, Sendable {
    package let segment: JournalPosition
    package let start: JournalPosition
    package let end: JournalPosition
    package let reason: String

    package init(segment: JournalPosition, start: JournalPosition, end: JournalPosition, reason: String) {
        self.segment = segment
        self.start = start
        self.end = end
        self.reason = reason
    }
}

/// The stream table that a segment's messages add up to.
private struct TableBuilder {
    private(set) var streams: [StreamID: StreamStanding] = [:]
    private(set) var sealedOrder: [StreamID] = []
    private var ids: [StreamNumber: StreamID] = [:]
    /// Streams of which no line with a good mark behind it says more than the id.
    private(set) var unverified: Set<StreamID> = []
    /// Lines that no mark has covered yet.
    private var unconfirmed: [Message] = []

    mutating func add(_ message: Message) {
        self.unconfirmed.append(message)
    }

    mutating func forgetUnconfirmed() {
        self.unconfirmed.removeAll()
    }

    mutating func add(_ header: BatchHeader, of description: StreamDescription, isVerified: Bool) {
        self.ids[header.stream] = description.id
        if !isVerified, self.streams[description.id] == nil { self.unverified.insert(description.id) }
        self.streams[
            description.id, default: StreamStanding(description: description, durable: header.end, isSealed: false)
        ]
        .durable = header.end
    }

    /// Adds what the table at the segment's damaged head would have said.
    mutating func fill(from previous: TableBuilder?) {
        guard let previous else { return }
        for (id, standing) in previous.streams {
            guard let own = self.streams[id] else {
                self.streams[id] = standing
                if previous.unverified.contains(id) { self.unverified.insert(id) }
                continue
            }
            self.streams[id]?.durable = max(own.durable, standing.durable)
            self.streams[id]?.isSealed = own.isSealed || standing.isSealed
            guard self.unverified.contains(id), !previous.unverified.contains(id) else { continue }
            self.streams[id]?.describe(standing.description)
            self.unverified.remove(id)
        }
        self.sealedOrder = previous.sealedOrder + self.sealedOrder
    }

    mutating func confirm() {
        for message in self.unconfirmed { self.apply(message) }
        self.unconfirmed.removeAll(keepingCapacity: true)
    }

    private mutating func apply(_ message: Message) {
        switch message {
        case .open(let number, let description):
            self.ids[number] = description.id
            let standing = StreamStanding(description: description, durable: StreamOffset(0), isSealed: false)
            self.streams[description.id, default: standing].description = description
            self.unverified.remove(description.id)
        case .at(let number, let offset):
            if let id = self.ids[number] { self.streams[id]?.durable = offset }
        case .skip(let number, let offset, let byteCount, _):
            if let id = self.ids[number] { self.streams[id]?.durable = StreamOffset(offset.rawValue + byteCount) }
        case .sealed(let number), .seal(let number, _):
            guard let id = self.ids[number] else { return }
            self.streams[id]?.isSealed = true
            self.sealedOrder.append(id)
        case .hello, .ready, .batch, .ack, .nak, .ping, .pong, .wait, .move, .err, .bye, .mark:
            return
        }
    }
}
