internal import WaybillData
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

extension ArchiveIndex.Part {
    /// Calls `body` with each run of the part, in order, until it returns `false`: the only place that reads the
    /// archive.
    ///
    /// Bytes that can no longer be decompressed are unexplained, like lines without a run.
    ///
    /// - Parameter body: the bytes are valid during the call.
    /// - Returns: the number of bytes in the visited runs.
    func visitRuns(
        in data: DataDirectory<Files>,
        _ body: (_ run: SourceRun, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Bool
    ) throws(FileSystemError) -> Int {
        var reader = try PartReader(self, data: data)
        while true {
            let next: (run: SourceRun, bytes: UnsafeRawBufferPointer)?
            do throws(PartReadError) {
                next = try reader.next()
            } catch {
                guard case .disk(let cause) = error else { break }
                throw cause
            }
            guard let (run, bytes) = next, try body(run, bytes) else { break }
        }
        return reader.explainedByteCount
    }
}

extension LoneReader {
    /// The lines that are left out now and were not when these were.
    func leftOut(since known: PoisonedLines?) -> [PoisonedLine] {
        Array((self.poison?.lines ?? []).dropFirst(known?.lines.count ?? 0))
    }

    /// Throws if lines are left out that were not when a reading began: what it has read of them before counted.
    func requireNoMore(than known: PoisonedLines?) throws(Replay.Failure) {
        let lines = self.leftOut(since: known)
        if !lines.isEmpty { throw .leavesOut(lines, told: []) }
    }

    /// Reads a run of the archive, whose position is told by the file and the place in it.
    ///
    /// - Parameters:
    ///   - reading: what the run is read for: what ends one reading may not end another.
    ///   - body: reads lines; where they begin in their stream, and in the file.
    func read<Failure: Error>(
        _ bytes: UnsafeRawBufferPointer, of run: SourceRun, in part: ArchiveIndex<Files>.Part, for reading: String,
        use: (PoisonedLines) -> Void,
        _ body: (UnsafeRawBufferPointer, StreamOffset, Int) throws(Failure) -> Void
    ) throws(Failure) {
        let file = Int(truncatingIfNeeded: FNV1a.hash("\(reading) \(part.path)".utf8))
        try self.read(
            bytes, of: run.description.name, from: run.offset.rawValue, at: file &+ run.range.lowerBound, use: use
        ) { lines, offset throws(Failure) in
            let start = run.range.lowerBound + Int(offset - run.offset.rawValue)
            try body(lines, StreamOffset(offset), start)
        }
    }

    /// Reads a batch of the journal.
    ///
    /// - Parameters:
    ///   - reading: what the batch is read for.
    ///   - body: reads lines; where they begin in their stream, and in the batch.
    func read<Failure: Error>(
        _ batch: ProjectedBatch, for reading: String, use: (PoisonedLines) -> Void,
        _ body: (UnsafeRawBufferPointer, StreamOffset, Int) throws(Failure) -> Void
    ) throws(Failure) {
        try self.read(
            batch.raw, of: batch.description.name, from: batch.offset.rawValue,
            at: Int(truncatingIfNeeded: FNV1a.hash(reading.utf8)) &+ batch.position.rawValue, use: use
        ) { lines, offset throws(Failure) in
            try body(lines, StreamOffset(offset), Int(offset - batch.offset.rawValue))
        }
    }
}
