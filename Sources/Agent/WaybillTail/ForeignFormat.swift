internal import WaybillSystem

/// What a file's first bytes show it to be, when its lines are not events or not what its owner expects.
package enum ForeignFormat: String, Hashable, Sendable, CaseIterable {
    /// Compressed: its bytes are no lines, and it is not shipped.
    case compressed
    case utf16 = "utf-16"
    /// A container's log as Kubernetes writes it: `2026-11-22T09:00:00.1Z stdout F text`.
    case cri
    /// A container's log as Docker writes it: `{"log":"text\n","stream":"stdout","time":"…"}`.
    case docker
    /// Objects or a list that take several lines.
    case prettyJSON = "pretty-json"
    case csv
    case text

    /// Recognises a file by its head; `nil` if its lines may be events, or too few bytes are there.
    package init?(head: UnsafeRawBufferPointer) {
        if let format = Self.binary(head) {
            self = format
            return
        }
        var lines = head.split(separator: LineScanner.lineFeed, omittingEmptySubsequences: true)
        // The last one may continue.
        if head.last != LineScanner.lineFeed, !lines.isEmpty { lines.removeLast() }
        let texts = lines.map { Self.trimmed($0) }.filter { !$0.isEmpty }
        guard let first = texts.first else { return nil }
        if Self.isCRI(first) {
            self = .cri
        } else if first.starts(with: Array("{\"log\":\"".utf8)), Self.contains(first, "\"stream\":\"") {
            self = .docker
        } else if first.first == UInt8(ascii: "[") || first.elementsEqual(Array("{".utf8)) {
            self = .prettyJSON
        } else if first.first != UInt8(ascii: "{"), texts.count > 1, texts[1].first != UInt8(ascii: "{") {
            self = Self.isCSV(texts) ? .csv : .text
        } else {
            return nil
        }
    }

    /// Whether a name says that the file is compressed, as those of rotated logs do.
    static func isNameOfCompressed(_ name: String) -> Bool {
        [".gz", ".tgz", ".zst", ".xz", ".bz2", ".lz4", ".zip", ".Z", ".7z"].contains { name.hasSuffix($0) }
    }

    private static func binary(_ head: UnsafeRawBufferPointer) -> ForeignFormat? {
        // gzip, Zstandard, xz, bzip2, zip, LZ4, compress, 7z.
        let magics: [[UInt8]] = [
            [0x1F, 0x8B, 0x08], [0x28, 0xB5, 0x2F, 0xFD], [0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00], Array("BZh".utf8),
            [0x50, 0x4B, 0x03, 0x04], [0x04, 0x22, 0x4D, 0x18], [0x1F, 0x9D], [0x37, 0x7A, 0xBC, 0xAF, 0x27, 0x1C],
        ]
        if magics.contains(where: { head.starts(with: $0) }) { return .compressed }
        if head.starts(with: [0xFF, 0xFE]) || head.starts(with: [0xFE, 0xFF]) { return .utf16 }
        let pairs = head.prefix(16)
        guard pairs.count >= 8 else { return nil }
        let zeros = pairs.enumerated().filter { $1 == 0 }.map(\.offset)
        guard zeros.count == pairs.count / 2, let parity = zeros.first.map({ $0 % 2 }) else { return nil }
        return zeros.allSatisfy { $0 % 2 == parity } ? .utf16 : nil
    }

    /// Without a byte order mark, and without spaces and CR around it.
    private static func trimmed(_ line: Slice<UnsafeRawBufferPointer>) -> Slice<UnsafeRawBufferPointer> {
        var line = line
        if line.starts(with: [0xEF, 0xBB, 0xBF]) { line = line.dropFirst(3) }
        let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 || byte == 0x0D }
        line = line.drop(while: isSpace)
        while let last = line.last, isSpace(last) { line.removeLast() }
        return line
    }

    private static func contains(_ line: Slice<UnsafeRawBufferPointer>, _ text: String) -> Bool {
        line.firstRange(of: Array(text.utf8)) != nil
    }

    private static func isCRI(_ line: Slice<UnsafeRawBufferPointer>) -> Bool {
        let fields = line.split(separator: 0x20, maxSplits: 3, omittingEmptySubsequences: false)
        guard fields.count >= 3, fields[0].count >= 20, fields[0].first.map({ 0x30...0x39 ~= $0 }) ?? false,
            fields[0].contains(UInt8(ascii: "T")), fields[0].contains(UInt8(ascii: ":"))
        else { return false }
        let isStream = [Array("stdout".utf8), Array("stderr".utf8)].contains { fields[1].elementsEqual($0) }
        return isStream && (fields[2].elementsEqual([0x46]) || fields[2].elementsEqual([0x50]))
    }

    /// Whether the first line names columns, and the second has as many.
    private static func isCSV(_ lines: [Slice<UnsafeRawBufferPointer>]) -> Bool {
        for separator in [UInt8(ascii: ","), UInt8(ascii: ";"), 0x09] {
            let columnCount = Self.columnCount(lines[0], separator)
            if columnCount > 1, columnCount == Self.columnCount(lines[1], separator) { return true }
        }
        return false
    }

    /// Fields of a line; separators in quotes are text.
    private static func columnCount(_ line: Slice<UnsafeRawBufferPointer>, _ separator: UInt8) -> Int {
        var isQuoted = false
        var count = 1
        for byte in line {
            if byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            if byte == separator, !isQuoted { count += 1 }
        }
        return count
    }

    /// For people.
    package var name: String {
        switch self {
        case .compressed: "a compressed file"
        case .utf16: "UTF-16 text"
        case .cri: "a container's log (CRI)"
        case .docker: "a container's log (Docker json-file)"
        case .prettyJSON: "JSON that takes several lines"
        case .csv: "CSV"
        case .text: "plain text"
        }
    }

    /// What happens to it, and what the operator can do.
    package var remedy: String {
        let object = "its lines are not JSON objects, and the receiver puts them into its quarantine"
        switch self {
        case .compressed:
            return "its bytes are no lines, so it is not followed: ship the file before it is compressed, or leave it "
                + "out with exclude, e.g. '*.gz'"
        case .utf16:
            return "the receiver puts its lines into its quarantine (nul, not-json): let the program write UTF-8"
        case .cri:
            return "\(object): let the app write its JSON lines to a file on a volume, or unwrap the log before"
        case .docker:
            return "each line is stored as an event named log, and the text in its member log is not read: let the app "
                + "write its JSON lines to a file on a volume"
        case .prettyJSON:
            return "\(object) (not-json, not-object): let the program write each object in one line"
        case .csv, .text: return "\(object) (not-json): let the program log JSON, one object a line"
        }
    }
}
