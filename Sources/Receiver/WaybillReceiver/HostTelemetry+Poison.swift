internal import Logging
internal import WaybillData
internal import WaybillHost
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Lines that ended the program.
extension HostTelemetry {
    /// The program died while it read this batch; now its lines are read one by one.
    func readerSuspects(_ reader: String, _ batch: ProjectedBatch, signal: Int) {
        self.logger.warning(
            .readerDied, "the program died while it read a batch; its lines are now read one by one",
            metadata: Self.place(reader, batch, signal: signal))
    }

    /// A line ended the program twice, and is not read any more.
    func poisonSetAside(_ line: PoisonedLine, source: String) {
        self.logger.error(
            .poisonSetAside, "a line that ended the program twice was set aside; everything after it continues",
            metadata: [
                "reader": "\(line.reader)", "stream": "\(line.stream)", "source": "\(source)",
                "offset": "\(line.offset)", "bytes": .number(line.byteCount), "signal": .number(line.signal),
                "version": "\(line.version)",
            ])
    }

    /// Reading a batch ends the program, and nothing can be set aside here.
    ///
    /// - Parameter offset: of the line that does it, if it is known.
    func readerStopped(_ reader: String, _ batch: ProjectedBatch, signal: Int, offset: Int?) {
        guard self.stoppedReaders.withLock({ $0.insert(reader).inserted }) else { return }
        var metadata = Self.place(reader, batch, signal: signal)
        if let offset { metadata["offset"] = .number(offset) }
        self.logger.error(
            .readerStopped, "reading a batch ends the program: this reader stands still before it", metadata: metadata)
    }

    /// The batch that ended the program is read.
    func readerGoesOn(_ reader: String) {
        _ = self.stoppedReaders.withLock { $0.remove(reader) }
    }

    /// Starts in a row ended at this batch, without a fault of the program.
    func readerEnded(_ reader: String, _ batch: ProjectedBatch, _ ends: ReadingPlace.UnexplainedEnds) {
        var metadata = Self.place(reader, batch, signal: 0)
        metadata["starts"] = .number(ends.count)
        metadata["offset"] = .number(ends.offset ?? Int(batch.offset.rawValue))
        self.logger.error(
            .readerEnded, "several starts in a row ended while the same batch was read; nothing was set aside",
            metadata: metadata)
    }

    private static func place(_ reader: String, _ batch: ProjectedBatch, signal: Int) -> Logger.Metadata {
        [
            "reader": "\(reader)", "stream": "\(batch.description.name)", "source": "\(batch.description.source)",
            "first_byte": "\(batch.offset.rawValue)", "bytes": .number(batch.raw.count),
            "lines": .number(batch.lineCount),
            "position": .number(batch.position.rawValue), "signal": .number(signal),
        ]
    }
}
