package import WaybillData
package import WaybillExport
package import WaybillProtocol
package import WaybillSystem

/// A line that ended the program of a reader twice, or that an operator set aside, and for whom.
///
///     reader=archive length=529 signal=11 version=0.1.0 at=1795165200000 offset=48 principal=shop stream=8f14e45f…
package struct PoisonedLine: Hashable, Sendable {
    /// Who does not read it (``PoisonOffsets``).
    package let reader: String
    package let stream: StreamName
    /// Where it begins in its stream.
    package let offset: UInt64
    /// Without its LF; 0 if it is not known.
    package let byteCount: Int
    /// The signal of the last fault; 0: an operator set it aside.
    package let signal: Int
    /// The build that died, or that the operator had.
    package let version: String
    package let at: WallTime

    package init(
        reader: String, stream: StreamName, offset: UInt64, byteCount: Int, signal: Int, version: String, at: WallTime
    ) {
        self.reader = reader
        self.stream = stream
        self.offset = offset
        self.byteCount = byteCount
        self.signal = signal
        self.version = version
        self.at = at
    }

    /// One line without an LF; the stream, which may hold any text, is last.
    package var text: String {
        "reader=\(PercentText.encode(self.reader)) length=\(self.byteCount) signal=\(self.signal) "
            + "version=\(PercentText.encode(self.version)) at=\(self.at.milliseconds) offset=\(self.offset) "
            + "principal=\(PercentText.encode(self.stream.principal)) stream=\(PercentText.encode(self.stream.id.text))"
    }

    /// Parses ``text``.
    package init?(text: String) {
        var fields: [Substring: String] = [:]
        for field in text.split(separator: " ") {
            let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { fields[parts[0]] = PercentText.decode(parts[1]) }
        }
        guard let reader = fields["reader"], let principal = fields["principal"],
            let stream = fields["stream"].flatMap({ StreamID($0) }),
            let offset = fields["offset"].flatMap({ UInt64($0) })
        else { return nil }
        func number(_ name: Substring) -> Int { fields[name].flatMap { Int($0) } ?? 0 }
        self.init(
            reader: reader, stream: StreamName(principal: principal, id: stream), offset: offset,
            byteCount: number("length"), signal: number("signal"), version: fields["version"] ?? "",
            at: WallTime(milliseconds: Int64(number("at"))))
    }
}

/// The lines of a data directory that are not read, in `quarantine/_poison`.
///
///     line:<n>     one ``PoisonedLine``
///
/// Written before anything is read with it, so that a restart, a replay, a verification and a restored backup
/// decide alike. The archive does not read a line of its own: it goes to `quarantine/…/poison.ndjson`, byte for byte. An
/// export does not read those, nor its own: they are its dead letters, and the archive has them.
///
/// - SeeAlso: `Protocol/formats/archive.md`, section 4.
package struct PoisonedLines: Hashable, Sendable {
    private var readers: [StreamName: [UInt64: Set<String>]] = [:]
    package let lines: [PoisonedLine]

    private static let linePrefix = "line:"
    /// More than this many are a fault of the program, which its operator must see.
    package static let countMax = 10_000

    package init(_ lines: [PoisonedLine]) {
        self.lines = lines
        for line in lines { self.readers[line.stream, default: [:]][line.offset, default: []].insert(line.reader) }
    }

    /// Reads those of a data directory; `nil` if there are none.
    ///
    /// - Parameter file: below the data directory.
    package static func read(
        in data: DataDirectory<some FileSystem>, file: String = Self.file
    ) throws(FileSystemError) -> PoisonedLines? {
        guard let image = try StateImage.read(Path.join(data.root, file), files: data.files) else { return nil }
        let lines = Self.lines(in: image.entries)
        return lines.isEmpty ? nil : PoisonedLines(lines)
    }

    /// Reads those of a data directory once they are durable: a process that died, or a disk that failed, may have left
    /// some that a loss of power would take back.
    package static func settled(
        in data: DataDirectory<some FileSystem>
    ) throws(FileSystemError) -> PoisonedLines? {
        guard let lines = try Self.read(in: data) else { return nil }
        var state = try StateStore(path: Path.join(data.root, Self.file), files: data.files)
        try state.settle()
        return lines
    }

    /// What the receiver does not read.
    package static var file: String { "quarantine/_poison" }

    private static func lines(in entries: [String: String]) -> [PoisonedLine] {
        entries.filter { $0.key.hasPrefix(Self.linePrefix) }.sorted { $0.key < $1.key }
            .compactMap { PoisonedLine(text: $0.value) }
    }

    /// Adds a line, durably, unless it is there for the same reader.
    ///
    /// - Returns: all lines then; `nil` if there are too many.
    package static func add(
        _ line: PoisonedLine, in data: DataDirectory<some FileSystem>, file: String = Self.file
    ) throws(FileSystemError) -> PoisonedLines? {
        let path = Path.join(data.root, file)
        try data.files.createDirectories(Path.parent(of: path))
        try data.files.synchronizeDirectory(data.root)
        var state = try StateStore(path: path, files: data.files)
        try state.settle()
        let known = Self.lines(in: state.entries)
        let isKnown = known.contains {
            ($0.reader, $0.stream, $0.offset) == (line.reader, line.stream, line.offset)
        }
        guard !isKnown else { return PoisonedLines(known) }
        guard known.count < Self.countMax else { return nil }
        let number = Self.linePrefix + Hexadecimal.text(UInt32(known.count), digitCount: 8)
        try state.commit([number: .some(line.text)])
        return PoisonedLines(known + [line])
    }

    /// How many lines one of these readers does not read.
    package func count(unreadBy readers: Set<String>) -> Int {
        self.readers.values.reduce(0) { count, places in
            count + places.values.count { !$0.isDisjoint(with: readers) }
        }
    }

    /// Who does not read the lines of a stream, by their offsets.
    package func readers(of stream: StreamName) -> PoisonOffsets {
        PoisonOffsets(self.readers[stream] ?? [:])
    }
}
