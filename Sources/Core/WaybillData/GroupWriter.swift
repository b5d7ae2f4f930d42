internal import WaybillCompression
internal import WaybillProtocol
internal import WaybillSystem

/// Lays out one group's bytes: lines in one buffer, payloads in place.
struct GroupWriter {
    private enum Piece {
        /// A range of ``lines``.
        case lines(Range<Int>)
        case payload(SharedBytes)
    }

    private(set) var end: JournalPosition
    private(set) var numbers: [StreamName: StreamNumber]
    private(set) var batchRanges: [Range<JournalPosition>] = []

    private let start: JournalPosition
    private let time: WallTime
    private(set) var lastNumber: Int
    private var lines: [UInt8] = []
    private var pieces: [Piece] = []
    /// The start of the lines that the next mark covers.
    private var unmarkedStart = 0
    /// The start of the lines that are not in ``pieces`` yet.
    private var pieceStart = 0

    init(start: JournalPosition, time: WallTime, numbers: [StreamName: StreamNumber], last: Int) {
        self.start = start
        self.end = start
        self.time = time
        self.numbers = numbers
        self.lastNumber = last
    }

    func number(of name: StreamName) -> StreamNumber? {
        self.numbers[name]
    }

    /// Assigns a stream its number in this segment.
    mutating func introduce(_ description: StreamDescription) {
        self.lastNumber += 1
        let number = StreamNumber(UInt64(self.lastNumber))
        self.numbers[description.name] = number
        self.append(.open(number, description, .none))
    }

    /// Adds the receiver's starts, and the number of resting streams, to the head of a segment.
    mutating func restate(_ history: StartHistory, _ resting: RestingExtent) {
        for message in history.messages { self.append(message) }
        guard resting.byteCount > 0 else { return }
        self.append(
            .resting(
                count: UInt64(resting.count), byteCount: UInt64(resting.byteCount), checksum: resting.checksum))
    }

    /// Adds a stream's standing at `base`: the position of the segment in whose head it is, or its own.
    mutating func restate(_ standing: StreamStanding, at base: JournalPosition) {
        guard let number = self.numbers[standing.description.name] else { return }
        let proof = standing.proof
        let end = UInt64(base.rawValue)
        self.append(.at(number, standing.durable, proof, end: end))
        if standing.isSealed { self.append(.sealed(number, proof, end: end)) }
        if let tail = standing.tail, !tail.bytes.isEmpty { self.append(.tail(number, tail.bytes)) }
    }

    /// Adds a mark that covers the lines since the last batch or mark and holds their time of receipt.
    mutating func mark() {
        let milliseconds = UInt64(max(0, self.time.milliseconds))
        var text = "MARK \(self.end.rawValue) \(milliseconds) "
        let covered = self.lines[self.unmarkedStart...].withUnsafeBytes { FrameChecksum.checksum(continuing: 0, $0) }
        let checksum = text.withUTF8 { FrameChecksum.checksum(continuing: covered, UnsafeRawBufferPointer($0)) }
        self.append(
            .mark(
                position: UInt64(self.end.rawValue), milliseconds: milliseconds,
                checksum: checksum))
        self.unmarkedStart = self.lines.count
    }

    mutating func add(_ entry: JournalEntry, of name: StreamName) {
        guard let number = self.numbers[name] else { return }
        switch entry {
        case .batch(var header, let payload, _):
            if self.unmarkedStart < self.lines.count { self.mark() }
            precondition(payload.count == header.wireByteCount, "\(payload.count) bytes of \(header.wireByteCount)")
            header.stream = number
            let start = self.end
            self.append(.batch(header))
            self.unmarkedStart = self.lines.count
            self.flushLines()
            self.pieces.append(.payload(payload))
            self.end = JournalPosition(self.end.rawValue + payload.count)
            self.batchRanges.append(start..<self.end)
        case .skip(let range):
            self.append(.skip(number, range))
        case .seal(let length):
            self.append(.seal(number, length: length))
        case .standing(let standing):
            self.restate(standing, at: self.end)
        }
    }

    /// Completes the group.
    mutating func finish() {
        if self.unmarkedStart < self.lines.count { self.mark() }
        self.flushLines()
    }

    private mutating func append(_ message: Message) {
        let bytes = message.encoded
        self.lines.append(contentsOf: bytes)
        self.end = JournalPosition(self.end.rawValue + bytes.count)
    }

    private mutating func flushLines() {
        if self.pieceStart < self.lines.count { self.pieces.append(.lines(self.pieceStart..<self.lines.count)) }
        self.pieceStart = self.lines.count
    }

    /// Appends the group to the file in as few system calls as possible.
    func write(to file: FileID, files: some FileSystem) throws(FileSystemError) {
        try self.lines.withBytes { (lines) throws(FileSystemError) in
            let vector = self.pieces.map { piece in
                switch piece {
                case .lines(let range): UnsafeRawBufferPointer(rebasing: lines[range])
                case .payload(let payload): payload.bytes
                }
            }
            let byteCount = vector.reduce(0) { $0 + $1.count }
            precondition(
                self.start.rawValue + byteCount == self.end.rawValue,
                "\(byteCount) bytes from \(self.start) do not end at \(self.end)")
            try files.writeAll(file, vector: vector)
        }
    }
}
