internal import WaybillData
internal import WaybillJSON
internal import WaybillProtocol
internal import WaybillSystem

/// The lines to which dead letters point: each by its stream and its offset there.
///
/// Found through the runs of the archive, of which only files with such a line are read. Memory: 8 bytes for each line,
/// and one run.
struct PointedLines {
    /// A line of a stream.
    struct Place: Hashable {
        let name: StreamName
        let offset: UInt64

        /// Reads the place in a dead letter; `nil` if it has none.
        init?(_ tape: borrowing JSONTape) {
            guard let stream = tape.firstValue(of: "stream", in: 0), tape[stream].kind == .string,
                let id = StreamID(String(decoding: tape.bytes(of: stream), as: UTF8.self)),
                let number = tape.firstValue(of: "offset", in: 0), tape[number].kind == .number,
                let offset = UInt64(String(decoding: tape.bytes(of: number), as: UTF8.self))
            else { return nil }
            let owner = tape.firstValue(of: "principal", in: 0).map { JSONText.string(tape.bytes(of: $0)) }
            self.name = StreamName(principal: owner ?? "", id: id)
            self.offset = offset
        }

        fileprivate init(_ name: StreamName, _ offset: UInt64) {
            self.name = name
            self.offset = offset
        }

        /// Identifies the line among those that a provider refused.
        func digest(for provider: String) -> Digest128 {
            var text = "\(provider)\u{0}\(self.name.principal)\u{0}\(self.name.id.text)\u{0}\(self.offset)"
            return text.withUTF8 { Digest128([UnsafeRawBufferPointer($0)]) }
        }
    }

    private var offsets: [StreamName: [UInt64]] = [:]
    /// How far the archive has each stream.
    private var ends: [StreamName: UInt64] = [:]
    private(set) var count = 0

    /// Where the archive's last line of a stream ends, after ``visit(in:_:)``; 0 if there is none.
    func end(of name: StreamName) -> UInt64 {
        self.ends[name] ?? 0
    }

    mutating func add(_ place: Place) {
        self.offsets[place.name, default: []].append(place.offset)
        self.count += 1
    }

    /// Calls `body` with each line that the archive has, without its LF, valid during the call.
    mutating func visit<Files: FileSystem>(
        in data: DataDirectory<Files>,
        _ body: (_ line: UnsafeRawBufferPointer, _ place: Place, _ stream: StreamDescription) throws(FileSystemError) ->
            Void
    ) throws(FileSystemError) {
        guard self.count > 0 else { return }
        for name in self.offsets.keys { self.offsets[name]?.sort() }
        let index = try ArchiveIndex(data: data)
        for part in index.parts {
            var isWanted = false
            try index.visitRuns(of: part) { run in
                let name = run.description.name
                if self.offsets[name] != nil { self.ends[name] = max(self.end(of: name), run.end.rawValue) }
                if !isWanted { isWanted = !self.offsets(in: run).isEmpty }
            }
            guard isWanted else { continue }
            _ = try part.visitRuns(in: data) { run, bytes throws(FileSystemError) in
                for offset in self.offsets(in: run) {
                    let start = Int(offset - run.offset.rawValue)
                    let end = bytes.firstNewline(from: start) ?? bytes.count
                    try body(
                        UnsafeRawBufferPointer(rebasing: bytes[start..<end]), Place(run.description.name, offset),
                        run.description)
                }
                return true
            }
        }
    }

    /// The offsets of lines in a run.
    private func offsets(in run: SourceRun) -> ArraySlice<UInt64> {
        guard let known = self.offsets[run.description.name] else { return [] }
        let start = Self.index(of: run.offset.rawValue, in: known)
        // An added LF is part of the run, and of no stream.
        let end = Self.index(of: run.offset.rawValue + UInt64(run.range.count), in: known)
        return known[start..<max(start, end)]
    }

    /// The index of the first offset that is not below `offset`.
    private static func index(of offset: UInt64, in offsets: [UInt64]) -> Int {
        var low = 0
        var high = offsets.count
        while low < high {
            let middle = (low + high) / 2
            if offsets[middle] < offset { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
