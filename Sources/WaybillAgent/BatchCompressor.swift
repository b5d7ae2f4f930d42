internal import NIOCore
internal import WaybillProtocol
internal import WaybillSystem

/// Threads that compress, so that reading, compressing and sending go on at the same time.
///
///     Pump ─ buffer with lines ─▶ Link ─ job ─▶ thread ─ header + payload ─▶ Link, in the order of the batches ─▶ socket
///       ▲                                         │
///       └──────────────── buffer ─────────────────┘
///
/// Two buffers more than threads: one is filled while one waits. Who finds none hears when one is back.
///
/// Memory: each buffer and each thread's room for the wire are as long as the longest batch; pages that no batch has
/// needed are not in memory. Budget per batch: two hops between threads, one copy of the compressed bytes.
final class BatchCompressor: BatchBuffers {
    private struct Job {
        let batch: RawBatch
        let link: Link
        let ticket: Int
    }

    private struct State {
        var jobs = CircularBuffer<Job>()
        var free: [BatchBuffer] = []
        var bufferCount = 0
        var isAwaited = false
        var wireByteCount = 0
        var isClosed = false
    }

    private let state = Monitor(State())
    private let threadCount: Int
    private let level: Int
    private let rawByteCountMax: Int
    private let onBufferFreed: @Sendable () -> Void

    /// - Parameter onBufferFreed: is called when a buffer is back after ``take()`` had none.
    init(threadCount: Int, level: Int, rawByteCountMax: Int, onBufferFreed: @escaping @Sendable () -> Void) {
        self.threadCount = threadCount
        self.level = level
        self.rawByteCountMax = rawByteCountMax
        self.onBufferFreed = onBufferFreed
    }

    /// Starts the threads, which end after ``close()``.
    func start() -> [Worker] {
        (0..<self.threadCount).map { index in
            Worker(name: "waybill-zip-\(index)") { self.work() }
        }
    }

    func close() {
        self.state.update { $0.isClosed = true }
    }

    var wireByteCount: Int {
        self.state.withLock { $0.wireByteCount }
    }

    func take() -> BatchBuffer? {
        self.state.withLock { state in
            if let buffer = state.free.popLast() { return buffer }
            guard state.bufferCount < self.threadCount + 2 else {
                state.isAwaited = true
                return nil
            }
            state.bufferCount += 1
            return BatchBuffer(byteCount: self.rawByteCountMax)
        }
    }

    /// Compresses a batch and gives it back to the link under its ticket.
    func compress(_ batch: RawBatch, for link: Link, ticket: Int) {
        self.state.update { $0.jobs.append(Job(batch: batch, link: link, ticket: ticket)) }
    }

    private func work() {
        var encoder = BatchEncoder(level: self.level, rawByteCountMax: self.rawByteCountMax)
        while let job = self.nextJob() {
            let (header, payload) = encoder.encode(job.batch)
            job.link.compressed(header, payload, ticket: job.ticket)
            let isAwaited = self.state.withLock { state in
                state.wireByteCount += payload.count
                state.free.append(job.batch.buffer)
                defer { state.isAwaited = false }
                return state.isAwaited
            }
            if isAwaited { self.onBufferFreed() }
        }
    }

    /// `nil` at the end.
    private func nextJob() -> Job? {
        self.state.wait { state -> Job?? in
            if let job = state.jobs.popFirst() { return .some(job) }
            return state.isClosed ? .some(nil) : nil
        } ?? nil
    }
}
