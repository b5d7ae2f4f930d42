package import WaybillData
internal import WaybillExport
package import WaybillProtocol
package import WaybillSystem

/// Keeps a program alive that reads a receiver's data directory next to it, as `live` and `replay` do.
///
///     state/readers.<program>           where its readers are (``ReadingPlaces``)
///     state/readers.<program>.lines     the lines that it does not read (``PoisonedLines``), for itself alone
///
///     lines ─▶ read ── fault ──▶ next start: each line alone ── fault ──▶ next start: that line is left out, the rest continues
///
/// What a receiver reads does not concern this program: nothing is in its quarantine because of it. Where the folder cannot
/// be written, nothing is remembered. One thread uses a reader.
package final class LoneReader<Files: FileSystem> {
    /// The lines that are not read: the receiver's, and the program's own.
    package private(set) var poison: PoisonedLines?

    /// Where a program remembers what it does not read, and for whom (``PoisonOffsets``).
    package struct Memory: Sendable {
        package let data: DataDirectory<Files>
        /// `nil`: nowhere, it decides nothing.
        fileprivate let file: String?
        fileprivate let reader: String

        /// For a reader of the program alone.
        package init(of program: String, in data: DataDirectory<Files>, for reader: String) {
            self.data = data
            self.file = LoneReader.linesPath(program)
            self.reader = reader
        }

        /// For a program that leaves decisions to the operator (`waybill set-aside`), and has its places in a directory.
        package init(undecidedIn data: DataDirectory<Files>, for reader: String) {
            self.data = data
            self.file = nil
            self.reader = reader
        }
    }

    private let place: ReadingPlace
    private let data: DataDirectory<Files>
    private let memory: Memory
    private let version: String
    private let tell: (String) -> Void

    /// - Parameters:
    ///   - number: of this reader among the program's.
    ///   - data: where a receiver's lines are.
    ///   - memory: where the program's own lines are.
    ///   - tell: hears what an operator should know.
    package init(
        of program: String, number: Int = 0, in data: DataDirectory<Files>, memory: Memory, places: ReadingPlaces,
        version: String, tell: @escaping (String) -> Void = { _ in }
    ) {
        self.data = data
        self.memory = memory
        self.version = version
        self.tell = tell
        self.place = places.place(of: "\(program)-\(number)")
    }

    /// Reads which lines are not read: before the first read, and when the receiver may have another one.
    @discardableResult
    package func reload() throws(FileSystemError) -> PoisonedLines? {
        self.poison = try PoisonedLines.read(in: self.data)
        if let file = self.memory.file {
            let own = try PoisonedLines.read(in: self.memory.data, file: file)
            self.poison = self.poison.adding(own?.lines ?? [])
        }
        return self.poison
    }

    private static func placesPath(_ program: String) -> String { "state/readers.\(program)" }

    /// Deletes the places of a program that came to its end.
    package static func removePlaces(of program: String, in memory: DataDirectory<Files>) throws(FileSystemError) {
        let path = Path.join(memory.root, Self.placesPath(program))
        guard try memory.files.status(at: path) != nil else { return }
        try memory.files.unlink(path)
        try memory.files.synchronizeDirectory(Path.parent(of: path))
    }

    private static func linesPath(_ program: String) -> String { Self.placesPath(program) + ".lines" }

    /// Reads adjacent lines of a stream: all of them at once, or each alone if they ended the program.
    ///
    /// - Parameters:
    ///   - offset: where the lines begin in their stream.
    ///   - position: where they are, the same at each start.
    ///   - use: takes the lines that are not read from now on.
    ///   - body: reads lines, and where they begin in their stream.
    package func read<Failure: Error>(
        _ lines: UnsafeRawBufferPointer, of stream: StreamName, from offset: UInt64, at position: Int,
        use: (PoisonedLines) -> Void, _ body: (UnsafeRawBufferPointer, UInt64) throws(Failure) -> Void
    ) throws(Failure) {
        let hash = FNV1a.hash(stream.id.text.utf8) &+ offset
        do throws(Failure) {
            let finding = self.place.finding(at: position, hash)
            if let poison = finding.flatMap({ self.take($0, stream) }) { use(poison) }
            if finding?.isToRehearse ?? false {
                try lines.forEachLine { (range) throws(Failure) in
                    let start = offset + UInt64(range.lowerBound)
                    self.place.enter(.line, position: position, hash, offset: Int(clamping: start))
                    let end = min(range.upperBound + 1, lines.count)
                    try body(UnsafeRawBufferPointer(rebasing: lines[range.lowerBound..<end]), start)
                }
            } else {
                self.place.enter(.batch, position: position, hash)
                try body(lines, offset)
            }
        } catch {
            self.place.leave(isRead: false)
            throw error
        }
        self.place.leave(isRead: true)
    }

    /// - Returns: the lines that are not read from now on, if there is another one.
    private func take(_ finding: ReadingPlace.Finding, _ stream: StreamName) -> PoisonedLines? {
        if let ends = finding.endsToTell {
            self.tell(
                "\(ends.count) starts in a row ended while the same lines of stream \(stream) were read"
                    + (ends.offset.map { ", the last one at \($0)" } ?? "")
                    + "; nothing is left out: look who ended them (dmesg, journalctl)")
        }
        guard let offset = finding.poisonOffset else { return nil }
        let line = PoisonedLine(
            reader: self.memory.reader, stream: stream, offset: UInt64(offset), byteCount: 0, signal: finding.signal,
            version: self.version, at: .unknown)
        self.tell(
            "the line at \(offset) of stream \(stream) ended the program twice (signal \(finding.signal)) and is left out; "
                + "send it with the version to the maintainers (SECURITY.md)")
        do throws(FileSystemError) {
            if let file = self.memory.file { _ = try PoisonedLines.add(line, in: self.memory.data, file: file) }
        } catch {
            self.tell("\(error): the line is left out until the program ends")
        }
        self.poison = self.poison.adding([line])
        return self.poison
    }
}

extension LoneReader where Files == POSIXFileSystem {
    /// The places of a program that runs on a real disk; for as long as it runs where it cannot write.
    package static func places(of program: String, in memory: DataDirectory<Files>) -> ReadingPlaces {
        ReadingPlaces(path: Path.join(memory.root, Self.placesPath(program))) ?? ReadingPlaces()
    }
}

extension PoisonedLines? {
    /// These lines and others.
    fileprivate func adding(_ others: [PoisonedLine]) -> PoisonedLines? {
        others.isEmpty ? self : PoisonedLines((self?.lines ?? []) + others)
    }
}
