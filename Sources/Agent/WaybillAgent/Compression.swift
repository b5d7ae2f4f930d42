internal import WaybillSystem

/// The threads that compress for one configuration.
final class Compression: Sendable {
    let compressor: BatchCompressor
    private let workers: [Worker]

    /// Starts the threads, which end with ``end()``.
    init(_ configuration: AgentConfiguration, _ inbox: PumpInbox) {
        self.compressor = BatchCompressor(
            threadCount: configuration.compression.threadCount, level: configuration.compression.level,
            rawByteCountMax: configuration.rawByteCountMax
        ) { inbox.post(.bufferFreed, generation: 0) }
        self.workers = self.compressor.start()
    }

    /// Returns once what was begun is compressed.
    func end() {
        self.compressor.close()
        for worker in self.workers { worker.join() }
    }
}
