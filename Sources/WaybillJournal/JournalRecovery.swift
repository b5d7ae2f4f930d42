internal import WaybillProtocol
internal import WaybillSystem

/// What opening a journal found.
package struct JournalRecovery: Hashable, Sendable {
    package var streamCount = 0
    package var batchCount = 0
    package var end = JournalPosition(0)
    /// Bytes of unacknowledged groups behind the last whole one, cut off and kept beside the journal.
    package var tornByteCount = 0
    package var tornPath: String?
    /// Ranges in the middle that cannot be read; they stay where they are.
    package var damages: [JournalDamage] = []
    /// Segments that hold nothing readable, set aside.
    package var setAsidePaths: [String] = []

    struct Found {
        var report = JournalRecovery()
        var streams: [StreamID: StreamStanding] = [:]
        var sealedOrder: [StreamID] = []
        var end = JournalPosition(0)
        var segments: [JournalPosition] = []
    }

    /// Reads the last segment, cuts its torn end, and rebuilds the stream table.
    static func recover(directory: String, files: some FileSystem) throws(FileSystemError) -> Found {
        var found = Found()
        found.segments = try files.list(directory).compactMap(JournalPath.position(ofSegment:)).sorted()
        while let last = found.segments.last {
            let path = JournalPath.segment(last, in: directory)
            let byteCount = try files.status(at: path)?.byteCount ?? 0
            if try self.scanLast(last, byteCount: byteCount, directory: directory, files: files, into: &found) {
                break
            }
            // Not even the table at its head is whole: it was being created and holds no acknowledged batch.
            let aside = try JournalPath.unused(path + ".torn", files)
            try files.rename(path, to: aside)
            found.report.setAsidePaths.append(aside)
            found.segments.removeLast()
        }
        found.report.end = found.end
        found.report.streamCount = found.streams.count
        return found
    }

    /// - Returns: whether the segment's head is whole.
    private static func scanLast(
        _ base: JournalPosition, byteCount: Int, directory: String, files: some FileSystem, into found: inout Found
    ) throws(FileSystemError) -> Bool {
        let limit = JournalPosition(base.rawValue + byteCount)
        var table = TableBuilder()
        var damages: [JournalDamage] = []
        var end = base
        var batchCount = 0
        do {
            var scanner = try SegmentScanner(segment: base, in: directory, limit: limit, files: files)
            scan: while true {
                let start = scanner.position
                switch try scanner.next() {
                case .message(.mark):
                    table.confirm()
                    end = scanner.position
                case .message(let message):
                    table.add(message)
                case .batch(let header, let description, _):
                    table.confirm()
                    table.add(header, of: description)
                    end = scanner.position
                    batchCount += 1
                case .end:
                    break scan
                case .damaged(let reason):
                    if end == base { return false }
                    table.forgetUnconfirmed()
                    guard try scanner.resynchronize() else { break scan }
                    damages.append(JournalDamage(segment: base, start: start, end: scanner.position, reason: reason))
                }
            }
        }
        if end == base { return false }
        if end < limit { try self.cut(base, from: end, to: limit, directory: directory, files: files, into: &found) }
        found.report.damages = damages
        found.report.batchCount = batchCount
        found.streams = table.streams
        found.sealedOrder = table.sealedOrder
        found.end = end
        return true
    }

    /// Moves a torn end into a file of its own.
    private static func cut(
        _ base: JournalPosition, from end: JournalPosition, to limit: JournalPosition, directory: String,
        files: some FileSystem, into found: inout Found
    ) throws(FileSystemError) {
        let path = JournalPath.segment(base, in: directory)
        let byteCount = limit.rawValue - end.rawValue
        let aside = try JournalPath.unused(Path.join(directory, "\(end.rawValue).torn"), files)
        let file = try files.open(path, .append)
        defer { files.close(file) }
        let copy = try files.open(aside, .appendNew)
        defer { files.close(copy) }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var offset = end.rawValue - base.rawValue
        while true {
            let count = try files.readFully(file, at: offset, into: buffer)
            if count == 0 { break }
            try files.writeAll(copy, UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += count
        }
        try files.truncate(file, to: end.rawValue - base.rawValue)
        try files.synchronize(file)
        found.report.tornByteCount = byteCount
        found.report.tornPath = aside
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
    /// Lines that no mark has covered yet.
    private var unconfirmed: [Message] = []

    mutating func add(_ message: Message) {
        self.unconfirmed.append(message)
    }

    mutating func forgetUnconfirmed() {
        self.unconfirmed.removeAll()
    }

    mutating func add(_ header: BatchHeader, of description: StreamDescription) {
        self.streams[description.id, default: StreamStanding(description: description, durable: header.end, isSealed: false)]
            .durable = header.end
    }

    mutating func confirm() {
        for message in self.unconfirmed { self.apply(message) }
        self.unconfirmed.removeAll(keepingCapacity: true)
    }

    private mutating func apply(_ message: Message) {
        switch message {
        case .open(let number, let description):
            self.ids[number] = description.id
            if self.streams[description.id] == nil {
                self.streams[description.id] = StreamStanding(
                    description: description, durable: StreamOffset(0), isSealed: false)
            }
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
