package import WaybillSystem

/// What is written around the records of a part.
///
///     .ndjson .log   a line                                        .export   fields up to an empty line
///     .csv           a line, where line feeds in quotes end none; the first is the header
///     .json          an element of an array on a line of its own; while the part is open, its last line has no end
package enum RecordFormat: Hashable, Sendable, CaseIterable {
    case lines
    case rows
    case elements
    case entries

    package init(fileExtension: String) {
        self =
            switch fileExtension {
            case "csv": .rows
            case "json": .elements
            case "export": .entries
            default: .lines
            }
    }

    /// The bytes before the first record and after a header.
    package var start: [UInt8] { self == .elements ? [UInt8(ascii: "[")] : [] }

    /// The bytes between two records, in addition to the terminator.
    package var separator: [UInt8] { self == .elements ? Array(",\n".utf8) : [] }

    /// The bytes after each record.
    package var terminator: [UInt8] {
        switch self {
        case .lines, .entries: [0x0A]
        case .rows: [0x0D, 0x0A]
        case .elements: []
        }
    }

    /// The bytes after the last record of a closed part.
    package var footer: [UInt8] { self == .elements ? Array("]\n".utf8) : [] }
}

/// Cuts a part into its records.
///
///     cutter.take(piece) { record, range in … }       the pieces of a part, of any size, one after another;
///     cutter.finish { record, range in … }            then what follows the last terminator
///
///     cutter.next(in: &reader)                        or one record after another, from its file
///
/// A record comes without what ``RecordFormat`` has around it. Memory is one record.
package struct RecordCutter {
    /// - Parameters:
    ///   - record: valid only during the call.
    ///   - range: the record's in the part's bytes, including what is around it.
    package typealias Visit = (_ record: UnsafeRawBufferPointer, _ range: Range<Int>) -> Void

    /// The next byte's place in an entry, whose values may hold any byte: systemd's docs/JOURNAL_EXPORT_FORMATS.md.
    private enum Place {
        case lineStart
        /// In a name, or in the text after `=`.
        case line(hasEquals: Bool)
        case length(byteCount: Int, value: UInt64)
        case value(rest: UInt64)
        case valueEnd
        /// In an entry that is not in the format. It ends with the next empty line.
        case damaged(isLineStart: Bool)
    }

    private let format: RecordFormat
    private var place = Place.lineStart
    private var isQuoted = false
    /// The bytes, and the start, of the record that has not ended yet; of those that are taken in pieces.
    private var rest: [UInt8] = []
    private var start = 0
    /// A CSV part's first row, with its terminator.
    package private(set) var header: [UInt8] = []
    /// Whether a value of an entry did not have its stated length.
    package private(set) var isDamaged = false

    package init(_ format: RecordFormat) {
        self.format = format
    }

    // MARK: In pieces

    /// Takes the next piece of a part.
    package mutating func take(_ piece: UnsafeRawBufferPointer, _ visit: Visit) {
        var begin = 0
        while let end = self.end(in: piece, from: begin) {
            let bytes = UnsafeRawBufferPointer(rebasing: piece[begin..<end])
            if self.rest.isEmpty {
                self.pass(bytes, isTerminated: true, visit)
            } else {
                self.rest.append(contentsOf: bytes)
                self.passRest(isTerminated: true, visit)
            }
            begin = end
        }
        self.rest.append(contentsOf: piece[begin...])
    }

    /// Takes what follows the last terminator as a record.
    package mutating func finish(_ visit: Visit) {
        if !self.rest.isEmpty { self.passRest(isTerminated: false, visit) }
    }

    private mutating func passRest(isTerminated: Bool, _ visit: Visit) {
        var whole: [UInt8] = []
        swap(&whole, &self.rest)
        whole.withUnsafeBytes { self.pass($0, isTerminated: isTerminated, visit) }
    }

    private mutating func pass(_ bytes: UnsafeRawBufferPointer, isTerminated: Bool, _ visit: Visit) {
        let range = self.start..<(self.start + bytes.count)
        self.start = range.upperBound
        let bytes = UnsafeRawBufferPointer(rebasing: bytes.dropLast(isTerminated ? 1 : 0))
        guard let content = self.content(of: bytes, range, isTerminated: isTerminated) else { return }
        visit(UnsafeRawBufferPointer(rebasing: bytes[content]), range)
    }

    // MARK: From a file

    /// Reads the next record; `nil` at the end.
    ///
    /// The reader may be sent to the start of any record before.
    package mutating func next<Files>(
        in reader: inout LineReader<Files>
    ) throws(FileSystemError) -> LineReader<Files>.Line? {
        while var record = try reader.next(endingAt: { self.end(in: $0, from: 0) }) {
            let content = record.bytes.withUnsafeBytes {
                self.content(of: $0, record.range, isTerminated: record.isTerminated)
            }
            guard let content else { continue }
            record.bytes.removeLast(record.bytes.count - content.upperBound)
            record.bytes.removeFirst(content.lowerBound)
            return record
        }
        return nil
    }

    // MARK: Formats

    /// Where the record that begins, or continues, at `begin` ends: after an LF.
    package mutating func end(in piece: UnsafeRawBufferPointer, from begin: Int) -> Int? {
        switch self.format {
        case .lines, .elements:
            return piece.firstNewline(from: begin).map { $0 + 1 }
        case .rows:
            var from = begin
            while true {
                let newline = piece.firstNewline(from: from)
                for byte in piece[from..<(newline ?? piece.count)] where byte == UInt8(ascii: "\"") {
                    self.isQuoted.toggle()
                }
                guard let newline else { return nil }
                if !self.isQuoted { return newline + 1 }
                from = newline + 1
            }
        case .entries:
            return piece[begin...].firstIndex { self.endsEntry($0) }.map { $0 + 1 }
        }
    }

    private mutating func endsEntry(_ byte: UInt8) -> Bool {
        switch self.place {
        case .lineStart where byte == 0x0A: return true
        case .lineStart where byte == UInt8(ascii: "="): self.place = self.damaged(by: byte)
        case .lineStart: self.place = .line(hasEquals: false)
        case .line(let hasEquals):
            if byte == 0x0A {
                self.place = hasEquals ? .lineStart : .length(byteCount: 0, value: 0)
            } else if byte == UInt8(ascii: "=") {
                self.place = .line(hasEquals: true)
            }
        case .length(let byteCount, let value):
            let value = value | UInt64(byte) << UInt64(byteCount * 8)
            if byteCount < 7 {
                self.place = .length(byteCount: byteCount + 1, value: value)
            } else {
                self.place = value == 0 ? .valueEnd : .value(rest: value)
            }
        case .value(let rest): self.place = rest == 1 ? .valueEnd : .value(rest: rest - 1)
        case .valueEnd: self.place = byte == 0x0A ? .lineStart : self.damaged(by: byte)
        case .damaged(isLineStart: true) where byte == 0x0A:
            self.place = .lineStart
            return true
        case .damaged: self.place = .damaged(isLineStart: byte == 0x0A)
        }
        return false
    }

    private mutating func damaged(by byte: UInt8) -> Place {
        self.isDamaged = true
        return .damaged(isLineStart: byte == 0x0A)
    }

    /// The record's own bytes; `nil` if it is not a record: a header, or another empty line after an entry.
    ///
    /// - Parameter bytes: without the LF.
    private mutating func content(
        of bytes: UnsafeRawBufferPointer, _ range: Range<Int>, isTerminated: Bool
    ) -> Range<Int>? {
        switch self.format {
        case .lines: return 0..<bytes.count
        case .entries: return isTerminated && range.count == 1 ? nil : 0..<bytes.count
        case .rows:
            if range.lowerBound == 0 {
                self.header = bytes + (isTerminated ? [0x0A] : [])
                return nil
            }
            return 0..<(bytes.count - (bytes.last == 0x0D ? 1 : 0))
        case .elements:
            let start = bytes.first == UInt8(ascii: "[") ? 1 : 0
            let isFollowed = bytes.last == UInt8(ascii: ",") || bytes.last == UInt8(ascii: "]")
            return start..<max(start, bytes.count - (isFollowed ? 1 : 0))
        }
    }
}
