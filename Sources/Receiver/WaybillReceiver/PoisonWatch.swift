package import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem

/// What the readers of one data directory share: where they are, and the lines that are not read.
package final class PoisonWatch: Sendable {
    /// The file with the places of a program's readers, below `state`.
    private static let fileName = "readers"

    package let places: ReadingPlaces
    /// The build that reads.
    let version: String
    /// Whether a line that ended this program twice is set aside; a merger never decides alone.
    let decides: Bool
    private let record: @Sendable (PoisonedLine) throws(FileSystemError) -> PoisonedLines?
    private let settled: @Sendable () throws(FileSystemError) -> PoisonedLines?
    /// Held while their file is written: readers have threads of their own.
    private let writing = Lock(())

    /// - Parameter places: of the program; those in memory find nothing that a process before it left.
    package init(
        in data: DataDirectory<some FileSystem>, version: String = "", decides: Bool = true,
        places: ReadingPlaces = ReadingPlaces()
    ) {
        self.places = places
        self.version = version
        self.decides = decides
        self.record = { (line) throws(FileSystemError) in try PoisonedLines.add(line, in: data) }
        self.settled = { () throws(FileSystemError) in try PoisonedLines.settled(in: data) }
    }

    /// Of a program that runs on a real disk.
    ///
    /// Without the file, a record may end the program at each start; that is not a reason not to start.
    package static func watching(
        _ data: DataDirectory<POSIXFileSystem>, version: String, decides: Bool = true
    ) -> PoisonWatch {
        let places = ReadingPlaces(path: Path.join(data.state, Self.fileName)) ?? ReadingPlaces()
        return PoisonWatch(in: data, version: version, decides: decides, places: places)
    }

    /// Writes down, durably, that a line is not read from now on; `nil` if there are too many of them.
    func add(_ line: PoisonedLine) throws(FileSystemError) -> PoisonedLines? {
        try self.writing.withLock { (_) throws(FileSystemError) in try self.record(line) }
    }

    /// The lines that are not read, durably; `nil` if there are none.
    func settledLines() throws(FileSystemError) -> PoisonedLines? {
        try self.writing.withLock { (_) throws(FileSystemError) in try self.settled() }
    }
}

/// Keeps one reader alive: reads a batch that ended the program line by line, and sets the line aside that does it again.
///
///     batch ─▶ read ── fault ──▶ next start: each line alone ── fault ──▶ next start: set that line aside, continue
///                                        └─ no fault: the batch again ── fault ──▶ stands still, with an error
///
/// A line counts once it ended the program twice: with its batch and alone, or alone twice. Reading a line alone writes
/// nothing; the batch is projected as a whole afterwards, so that its output does not depend on what happened before.
struct PoisonGuard {
    /// What to do with a batch.
    enum Advice {
        /// Read it as a whole, in this phase.
        case read(ReadingPlace.Phase)
        /// Do not read it.
        case stop
    }

    let reader: String
    private let place: ReadingPlace
    private let watch: PoisonWatch
    private let clock: any SystemClock
    private let telemetry: HostTelemetry

    /// - Parameter place: the name of its place, if several share the reader's.
    init(
        reader: String, place: String? = nil, watch: PoisonWatch, clock: any SystemClock, telemetry: HostTelemetry
    ) {
        self.reader = reader
        self.place = watch.places.place(of: place ?? reader)
        self.watch = watch
        self.clock = clock
        self.telemetry = telemetry
    }

    /// Finds out how to read a batch, before it is read.
    ///
    /// - Parameters:
    ///   - known: the lines that are not read.
    ///   - rehearse: reads one line and writes nothing.
    ///   - use: takes the lines that are not read from now on.
    func advice(
        on batch: ProjectedBatch, known: PoisonedLines?, rehearse: (ProjectedBatch) throws(FileSystemError) -> Void,
        use: (PoisonedLines) -> Void
    ) throws(FileSystemError) -> Advice {
        let position = batch.position.rawValue
        let stream = Self.hash(batch)
        guard let finding = self.place.finding(at: position, stream) else { return .read(.batch) }
        var known = known
        switch finding.phase {
        case .batchAgain:
            self.telemetry.readerStopped(self.reader, batch, signal: finding.signal, offset: nil)
            return .stop
        case .line:
            guard let offset = finding.poisonOffset else { break }
            let isKnown = known?.readers(of: batch.description.name).has(UInt64(offset), for: self.reader) ?? false
            if !isKnown {
                guard let added = try self.setAside(offset, signal: finding.signal, of: batch) else { return .stop }
                known = added
                use(added)
            }
        case .batch: self.telemetry.readerSuspects(self.reader, batch, signal: finding.signal)
        case nil: break
        }
        if let ends = finding.endsToTell { self.telemetry.readerEnded(self.reader, batch, ends) }
        guard finding.isToRehearse else { return .read(.batch) }
        let poison = known?.readers(of: batch.description.name)
        try batch.raw.forEachLine { (range) throws(FileSystemError) in
            let offset = batch.offset.advanced(by: range.lowerBound)
            guard !(poison?.has(offset.rawValue, for: self.reader) ?? false) else { return }
            self.place.enter(.line, position: position, stream, offset: Int(offset.rawValue))
            try rehearse(
                ProjectedBatch(
                    position: batch.position, description: batch.description, offset: offset,
                    receivedAt: batch.receivedAt, lineCount: 1, raw: UnsafeRawBufferPointer(rebasing: batch.raw[range]))
            )
        }
        self.place.leave(isRead: false)
        return .read(.batchAgain)
    }

    func enter(_ phase: ReadingPlace.Phase, _ batch: ProjectedBatch) {
        self.place.enter(phase, position: batch.position.rawValue, Self.hash(batch))
    }

    func leave(isRead: Bool) {
        if self.place.leave(isRead: isRead) { self.telemetry.readerGoesOn(self.reader) }
    }

    private static func hash(_ batch: ProjectedBatch) -> UInt64 {
        FNV1a.hash(batch.description.id.text.utf8) &+ batch.offset.rawValue
    }

    /// - Returns: `nil` if it must not be decided here, or there are too many.
    private func setAside(
        _ offset: Int, signal: Int, of batch: ProjectedBatch
    ) throws(FileSystemError) -> PoisonedLines? {
        let start = offset - Int(batch.offset.rawValue)
        guard (0..<batch.raw.count).contains(start), self.watch.decides else {
            self.telemetry.readerStopped(self.reader, batch, signal: signal, offset: offset)
            return nil
        }
        let line = PoisonedLine(
            reader: self.reader, stream: batch.description.name, offset: UInt64(offset),
            byteCount: (batch.raw.firstNewline(from: start) ?? batch.raw.count) - start, signal: signal,
            version: self.watch.version, at: self.clock.wallTime())
        guard let added = try self.watch.add(line) else {
            self.telemetry.readerStopped(self.reader, batch, signal: signal, offset: offset)
            return nil
        }
        self.telemetry.poisonSetAside(line, source: batch.description.source)
        return added
    }
}
