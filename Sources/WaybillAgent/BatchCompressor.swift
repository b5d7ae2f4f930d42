internal import NIOCore
internal import WaybillProtocol
internal import WaybillSystem

/// Threads that compress, so that reading, compressing and sending go on at the same time.
///
///     Pump ─ buffer with lines ─▶ Link ─ job ─▶ thread ─ header + payload ─▶ Link, in the order of the batches ─▶ socket
///       ▲                                         │
///       └──────────────── buffer ─────────────────┘
///
/// Two buffers more than threads: one is filled while one waits. Who finds none hears when one is back. A short batch
/// that has nobody before it is compressed where it was read: that takes less than waking a thread for it.
///
/// Memory: each buffer and each encoder's room for the wire are as long as the longest batch; pages that no batch has
/// needed are not in memory. Budget per batch: two hops between threads, one copy of the compressed bytes.
final class BatchCompressor: BatchBuffers {
    private struct Job {
        let batch: RawBatch
        let link: Link
        let ticket: Int
    }

    /// `@unchecked Sendable`: one thread at a time has it, and takes it under the lock of `state`.
    private final class Coder: @unchecked Sendable {
        var encoder: BatchEncoder

        init(level: Int, rawByteCountMax: Int) {
            self.encoder = BatchEncoder(level: level, rawByteCountMax: rawByteCountMax)
        }
    }

    private struct State {
        var jobs = CircularBuffer<Job>()
        /// Those that nobody compresses with.
        var coders: [Coder]
        var free: [BatchBuffer] = []
        var bufferCount = 0
        var isAwaited = false
        var wireByteCount = 0
        var isClosed = false
    }

    /// Raw bytes that a batch may have to be compressed where it was read: a tenth of a millisecond's work.
    private static let shortByteCountMax = 32 << 10

    private let state: Monitor<State>
    private let threadCount: Int
    private let rawByteCountMax: Int
    private let onBufferFreed: @Sendable () -> Void

    /// - Parameter onBufferFreed: is called when a buffer is back after ``take()`` had none.
    init(threadCount: Int, level: Int, rawByteCountMax: Int, onBufferFreed: @escaping @Sendable () -> Void) {
        let coders = (0..<threadCount).map { _ in Coder(level: level, rawByteCountMax: rawByteCountMax) }
        self.state = Monitor(State(coders: coders))
        self.threadCount = threadCount
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
        let job = Job(batch: batch, link: link, ticket: ticket)
        let isShort = batch.header.rawByteCount <= Self.shortByteCountMax
        let coder = isShort ? self.state.withLock { $0.jobs.isEmpty ? $0.coders.popLast() : nil } : nil
        if let coder { self.perform(job, with: coder) } else { self.state.update { $0.jobs.append(job) } }
    }

    private func work() {
        while let (job, coder) = self.nextJob() { self.perform(job, with: coder) }
    }

    private func perform(_ job: Job, with coder: Coder) {
        let (header, payload) = coder.encoder.encode(job.batch)
        job.link.compressed(header, payload, ticket: job.ticket)
        let isAwaited = self.state.withLock { state in
            state.wireByteCount += payload.count
            state.free.append(job.batch.buffer)
            state.coders.append(coder)
            defer { state.isAwaited = false }
            return state.isAwaited
        }
        if isAwaited { self.onBufferFreed() }
    }

    /// `nil` at the end.
    private func nextJob() -> (Job, Coder)? {
        self.state.wait { state -> (Job, Coder)?? in
            if state.jobs.isEmpty, state.isClosed { return .some(nil) }
            // Nothing wakes a thread whose coder is lent to a short batch: whoever lends it has no other job meanwhile.
            guard !state.jobs.isEmpty, let coder = state.coders.popLast() else { return nil }
            return .some((state.jobs.removeFirst(), coder))
        } ?? nil
    }
}
