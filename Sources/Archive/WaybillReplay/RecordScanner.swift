internal import WaybillSystem

/// Finds the records of a part in the pieces in which it is read, and where each begins.
///
///     .ndjson .log   a line           .csv   a line, where line feeds in quotes end none; the first is the header
///     .json          a line without the punctuation of the array           .export   fields up to an empty line
///
/// Memory is one record.
struct RecordScanner {
    private enum Format {
        case lines
        case rows
        case elements
        case entries
    }

    /// A record without its terminator, and its range in the part's bytes, with the terminator.
    typealias Visit = (_ record: UnsafeRawBufferPointer, _ range: Range<Int>) -> Void

    private let format: Format
    private var entries = JournalEntryScanner()
    /// The bytes of the record that has not ended yet.
    private var rest: [UInt8] = []
    /// Where the record that has not ended yet begins.
    private var start = 0
    private var isQuoted = false
    private var isAtHeader: Bool
    /// A CSV part's first row.
    private(set) var header: [UInt8] = []
    private(set) var recordCount = 0
    /// Whether the last record has no terminator.
    private(set) var isCut = false

    init(fileExtension: String) {
        self.format =
            switch fileExtension {
            case "csv": .rows
            case "json": .elements
            case "export": .entries
            default: .lines
            }
        self.isAtHeader = fileExtension == "csv"
    }

    /// Takes the next piece.
    mutating func take(_ piece: UnsafeRawBufferPointer, _ visit: Visit) {
        var begin = 0
        while let end = self.end(in: piece, from: begin) {
            let bytes = UnsafeRawBufferPointer(rebasing: piece[begin..<end])
            if self.rest.isEmpty {
                self.finish(bytes, visit)
            } else {
                self.rest.append(contentsOf: bytes)
                let whole = self.rest
                self.rest.removeAll(keepingCapacity: true)
                whole.withUnsafeBytes { self.finish($0, visit) }
            }
            begin = end
        }
        self.rest.append(contentsOf: piece[begin...])
    }

    /// Takes what follows the last terminator.
    ///
    /// - Parameter isOpen: whether the part may still grow; only then an array's last record has no line feed.
    mutating func finish(isOpen: Bool, _ visit: Visit) {
        guard !self.rest.isEmpty else { return }
        if self.format != .elements || !isOpen { self.isCut = true }
        let whole = self.rest
        self.rest = []
        whole.withUnsafeBytes { self.finish($0, visit) }
    }

    /// Where the record that continues at `begin` ends.
    private mutating func end(in piece: UnsafeRawBufferPointer, from begin: Int) -> Int? {
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
            for index in begin..<piece.count where self.entries.take(piece[index]) != nil { return index + 1 }
            return nil
        }
    }

    private mutating func finish(_ bytes: UnsafeRawBufferPointer, _ visit: Visit) {
        let range = self.start..<(self.start + bytes.count)
        self.start = range.upperBound
        var record = ContentHash.content(bytes)
        if self.isAtHeader {
            self.isAtHeader = false
            self.header = Array(bytes)
            return
        }
        if self.format == .elements {
            if record.first == UInt8(ascii: "[") { record = UnsafeRawBufferPointer(rebasing: record.dropFirst()) }
            if let last = record.last, last == UInt8(ascii: ",") || last == UInt8(ascii: "]") {
                record = UnsafeRawBufferPointer(rebasing: record.dropLast())
            }
        }
        self.recordCount += 1
        visit(record, range)
    }
}
