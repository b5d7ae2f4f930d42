package import WaybillProtocol
package import WaybillSystem

/// Adjacent lines of an archive or quarantine file that are adjacent in their stream too, and arrived in one batch.
package struct SourceRun: Hashable, Sendable {
    package let description: StreamDescription
    /// Where the first line begins in its stream.
    package let offset: StreamOffset
    package let receivedAt: WallTime
    package let range: Range<Int>
    /// All lines of the run.
    package let lineCount: Int
    /// Lines of the run that were an LF alone: they are counted, and not in the file.
    package let emptyLineCount: Int
    /// Bytes of the stream whose lines were erased: they are counted, and not in the file.
    package let erasedByteCount: Int
    /// Whether its lines are not read, because reading them ended the program.
    package let isPoison: Bool
    /// The journal's position of their batch, if the lines are not at their own day because it was one too many: they
    /// count on the day of their receipt.
    package let shiftedAt: JournalPosition?

    package init(
        description: StreamDescription, offset: StreamOffset, receivedAt: WallTime, range: Range<Int>, lineCount: Int,
        emptyLineCount: Int = 0, erasedByteCount: Int = 0, isPoison: Bool = false, shiftedAt: JournalPosition? = nil
    ) {
        self.isPoison = isPoison
        self.shiftedAt = shiftedAt
        self.description = description
        self.offset = offset
        self.receivedAt = receivedAt
        self.range = range
        self.lineCount = lineCount
        self.emptyLineCount = emptyLineCount
        self.erasedByteCount = erasedByteCount
    }

    /// The bytes that the run's lines have in their stream, apart from an LF that was added.
    package var streamByteCount: Int { self.range.count + self.emptyLineCount + self.erasedByteCount }

    /// Lines that are counted and not in the file.
    package var absentLineCount: Int { self.erasedByteCount > 0 ? self.lineCount : self.emptyLineCount }

    /// Where the last line ends in its stream.
    package var end: StreamOffset { self.offset.advanced(by: self.streamByteCount) }

    /// What its line begins with.
    package enum Word: String, CaseIterable, Sendable {
        case from = "FROM"
        case erased = "ERASED"
        case poison = "POISON"
        case shifted = "SHIFTED"
    }

    package var word: Word {
        if self.erasedByteCount > 0 { return .erased }
        if self.shiftedAt != nil { return .shifted }
        return self.isPoison ? .poison : .from
    }

    /// Whether this run may be of the same batch as the one before it in its file: their lines are not adjacent in the
    /// stream, because other files have the ones between them.
    package func continues(_ last: SourceRun) -> Bool {
        last.end < self.offset && last.receivedAt == self.receivedAt && last.description == self.description
    }
}

/// The numbers of a line `FROM n offset received start length lines [ empty ]`, of an `ERASED` or `POISON` line with six of
/// them, or of a `SHIFTED` line, whose seventh is the position of its batch.
///
/// Read without text: a file whose lines alternate between partitions has a run for each line.
private struct FieldsOfRun {
    /// Six or seven.
    private(set) var numbers: [Int] = []
    private let word: SourceRun.Word
    var isErased: Bool { self.word == .erased }
    var isPoison: Bool { self.word == .poison }
    var emptyLineCount: Int { self.word == .from && self.numbers.count == 7 ? self.numbers[6] : 0 }
    var shiftedAt: JournalPosition? { self.word == .shifted ? JournalPosition(self.numbers[6]) : nil }

    /// `nil` if the line is not one.
    init?(_ line: [UInt8]) {
        guard let word = SourceRun.Word.allCases.first(where: { line.starts(with: "\($0.rawValue) ".utf8) }) else {
            return nil
        }
        self.word = word
        self.numbers.reserveCapacity(7)
        for field in line.dropFirst(word.rawValue.utf8.count + 1)
            .split(separator: 0x20, omittingEmptySubsequences: false)
        {
            guard let number = Self.number(field), self.numbers.count < 7 else { return nil }
            self.numbers.append(number)
        }
        guard self.isComplete else { return nil }
    }

    private var isComplete: Bool {
        switch self.word {
        case .from: self.numbers.count == 6 || (self.numbers.count == 7 && self.numbers[6] <= self.numbers[5])
        case .erased: self.numbers.count == 6 && self.numbers[4] > 0
        case .poison: self.numbers.count == 6
        case .shifted: self.numbers.count == 7
        }
    }

    /// A decimal number of at most 2^53.
    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        guard (1...16).contains(digits.count) else { return nil }
        var number = 0
        for digit in digits {
            guard (0x30...0x39).contains(digit) else { return nil }
            number = number * 10 + Int(digit - 0x30)
        }
        return number <= 1 << 53 ? number : nil
    }
}

/// Reads a `.sources` file line by line, in bounded memory.
///
/// In a damaged file, only consecutive runs count: a run counts if it begins where the last one ended, or if the next
/// one begins where it ends.
///
/// - SeeAlso: `Protocol/formats/archive.md`, section 3.
package struct SourceRuns<Files: FileSystem>: ~Copyable {
    /// One line.
    package enum Item {
        /// A run, and where its line ends in the file.
        case run(SourceRun, end: Int)
        case open(StreamDescription, end: Int)
        /// An invalid line, or a run that does not join the others.
        case damaged(Range<Int>, String)
    }

    private var lines: LineReader<Files>
    private let linesByteCount: Int
    private var descriptions: [Int: StreamDescription] = [:]
    /// Where the last run ended.
    package private(set) var end = 0
    private var pending: (run: SourceRun, line: Range<Int>)?
    private var queue: [Item] = []

    /// Opens a file.
    ///
    /// - Parameters:
    ///   - byteCount: how many of its bytes are valid.
    ///   - linesByteCount: the length of the file of lines; every run ends within it.
    package init(path: String, byteCount: Int, linesByteCount: Int, files: Files) throws(FileSystemError) {
        self.lines = try LineReader(path: path, byteCount: byteCount, files: files)
        self.linesByteCount = linesByteCount
    }

    /// The next line's content; `nil` at the end.
    package mutating func next() throws(FileSystemError) -> Item? {
        while true {
            if !self.queue.isEmpty { return self.queue.removeFirst() }
            guard let line = try self.lines.next() else {
                guard let pending = self.pending.take() else { return nil }
                return .damaged(pending.line, "the run does not begin where the last one ended")
            }
            self.take(line)
        }
    }

    private mutating func take(_ line: LineReader<Files>.Line) {
        guard line.isTerminated else {
            self.queue.append(.damaged(line.range, "the line is cut off"))
            return
        }
        if let run = FieldsOfRun(line.bytes) { return self.take(run, line) }
        let text = String(decoding: line.bytes, as: UTF8.self)
        let fields = text.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        if fields.count == 3, fields[0] == "OPEN", let number = Int(fields[1]) {
            var json = String(fields[2])
            let description = json.withUTF8 { try? StreamDescription(json: UnsafeRawBufferPointer($0)) }
            self.descriptions[number] = description
            // The runs of an unreadable stream are omitted; the following lines report that.
            self.queue.append(
                description.map { .open($0, end: line.range.upperBound) }
                    ?? .damaged(line.range, "the stream's description cannot be read"))
            return
        }
        self.queue.append(.damaged(line.range, "the line is neither OPEN, FROM, SHIFTED, ERASED nor POISON"))
    }

    private mutating func take(_ fields: FieldsOfRun, _ line: LineReader<Files>.Line) {
        guard let description = self.descriptions[fields.numbers[0]] else {
            self.queue.append(.damaged(line.range, "the line names a stream that was not opened"))
            return
        }
        let numbers = fields.numbers
        let run = SourceRun(
            description: description, offset: StreamOffset(UInt64(numbers[1])),
            receivedAt: WallTime(milliseconds: Int64(numbers[2])),
            range: numbers[3]..<(numbers[3] + (fields.isErased ? 0 : numbers[4])), lineCount: numbers[5],
            emptyLineCount: fields.emptyLineCount, erasedByteCount: fields.isErased ? numbers[4] : 0,
            isPoison: fields.isPoison, shiftedAt: fields.shiftedAt)
        self.take(run, line.range)
    }

    private mutating func take(_ run: SourceRun, _ line: Range<Int>) {
        guard run.range.upperBound <= self.linesByteCount else {
            self.queue.append(.damaged(line, "the run ends after its file"))
            return
        }
        if run.range.lowerBound == self.end {
            if let pending = self.pending.take() {
                self.queue.append(.damaged(pending.line, "the run does not begin where the last one ended"))
            }
            self.accept(run, line)
        } else if let pending = self.pending, run.range.lowerBound == pending.run.range.upperBound {
            self.pending = nil
            self.queue.append(
                .damaged(pending.line, "bytes \(self.end) to \(pending.run.range.lowerBound) have no run before it"))
            self.accept(pending.run, pending.line)
            self.accept(run, line)
        } else if run.range.lowerBound > self.end {
            if let pending = self.pending {
                self.queue.append(.damaged(pending.line, "the run does not begin where the last one ended"))
            }
            self.pending = (run, line)
        } else {
            self.queue.append(.damaged(line, "the run overlaps the one before it"))
        }
    }

    private mutating func accept(_ run: SourceRun, _ line: Range<Int>) {
        self.end = run.range.upperBound
        self.queue.append(.run(run, end: line.upperBound))
    }

    /// Calls `body` with each valid run of a file, in order; a file that does not exist has none.
    package static func visit(
        _ path: String, byteCount: Int, linesByteCount: Int, files: Files, _ body: (SourceRun) -> Void
    ) throws(FileSystemError) {
        guard try files.status(at: path)?.kind == .regular else { return }
        var reader = try SourceRuns(path: path, byteCount: byteCount, linesByteCount: linesByteCount, files: files)
        while let item = try reader.next() {
            if case .run(let run, _) = item { body(run) }
        }
    }
}

/// One `SHIFTED` line, without its stream: its batch is known by its position.
package struct ShiftedRun: Hashable, Sendable {
    package let position: JournalPosition
    package let offset: StreamOffset
    package let byteCount: Int

    /// `nil` if the line is not one.
    package init?(_ line: [UInt8]) {
        guard let fields = FieldsOfRun(line), let position = fields.shiftedAt else { return nil }
        self.position = position
        self.offset = StreamOffset(UInt64(fields.numbers[1]))
        self.byteCount = fields.numbers[4]
    }
}
