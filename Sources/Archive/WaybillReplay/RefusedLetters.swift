internal import WaybillData
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Dead letters of an export, by the places of their lines in the archive.
///
/// Memory: some 40 bytes for each letter. Of the archive only files with such a line are read.
struct RefusedLetters: ~Copyable {
    struct Letter: Hashable {
        /// Where the line begins in its stream.
        let offset: UInt64
        /// The day of the letter, in the export.
        let day: ExportDay
        /// That of the letter's line.
        let digest: Digest128
    }

    private var letters: [StreamName: [Letter]] = [:]
    private var tape = JSONTape()
    private(set) var count = 0

    /// Adds a letter, unless it does not say where its line is.
    mutating func add(_ letter: [UInt8], of day: ExportDay, _ digest: Digest128) -> Bool {
        let place = letter.withUnsafeBytes { bytes -> (name: StreamName, offset: UInt64)? in
            guard self.tape.accepts(bytes), let stream = self.tape.firstValue(of: "stream", in: 0),
                self.tape[stream].kind == .string,
                let id = StreamID(String(decoding: self.tape.bytes(of: stream), as: UTF8.self)),
                let number = self.tape.firstValue(of: "offset", in: 0), self.tape[number].kind == .number,
                let offset = UInt64(String(decoding: self.tape.bytes(of: number), as: UTF8.self))
            else { return nil }
            let owner = self.tape.firstValue(of: "principal", in: 0).map { JSONText.string(self.tape.bytes(of: $0)) }
            return (StreamName(principal: owner ?? "", id: id), offset)
        }
        guard let place else { return false }
        self.letters[place.name, default: []].append(Letter(offset: place.offset, day: day, digest: digest))
        self.count += 1
        return true
    }

    /// Calls `body` with each line that the archive has, without its line feed, valid during the call.
    mutating func visit<Files: FileSystem>(
        in data: DataDirectory<Files>,
        _ body: (_ line: UnsafeRawBufferPointer, _ letter: Letter, _ run: SourceRun) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        guard self.count > 0 else { return }
        for name in self.letters.keys { self.letters[name]?.sort { $0.offset < $1.offset } }
        let index = try ArchiveIndex(data: data)
        for part in index.parts {
            var isWanted = false
            try index.visitRuns(of: part) { run in
                if !isWanted { isWanted = !self.letters(in: run).isEmpty }
            }
            guard isWanted else { continue }
            _ = try part.visitRuns(in: data) { run, bytes throws(FileSystemError) in
                for letter in self.letters(in: run) {
                    let start = Int(letter.offset - run.offset.rawValue)
                    let end = bytes.firstNewline(from: start) ?? bytes.count
                    try body(UnsafeRawBufferPointer(rebasing: bytes[start..<end]), letter, run)
                }
                return true
            }
        }
    }

    /// The letters of lines in a run.
    private func letters(in run: SourceRun) -> ArraySlice<Letter> {
        guard let known = self.letters[run.description.name] else { return [] }
        let start = known.partitionIndex { $0.offset < run.offset.rawValue }
        // An added LF is part of the run, and of no stream.
        let end = known.partitionIndex { $0.offset < run.offset.rawValue + UInt64(run.range.count) }
        return known[start..<max(start, end)]
    }
}
