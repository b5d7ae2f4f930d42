internal import NIOCore
internal import WaybillProtocol
internal import WaybillSystem

/// Takes compressed batches, by the tickets of their places.
protocol CompressedBatches: Sendable {
    /// - Parameter payload: valid until it returns.
    func compressed(_ header: BatchHeader, _ payload: UnsafeRawBufferPointer, ticket: Int)
}

/// Threads that compress, so that reading, compressing and sending overlap.
///
///     Pump ─ buffer with lines ─▶ Link ─ job ─▶ thread ─ header + payload ─▶ Link, in the order of the batches ─▶ socket
///       ▲                                         │
///       └──────────────── buffer ─────────────────┘
///
/// There are two buffers more than threads: one is filled while one waits. A caller that finds none free is notified
/// when one returns. A short batch with no other batch before it is compressed on the reading thread, because that is
/// cheaper than waking another one.
///
/// Memory: each buffer, and each encoder's output, has room for the longest batch; pages that no batch has touched take
/// no memory. Budget per batch: two hops between threads, one copy of the compressed bytes.
final class BatchCompressor: BatchBuffers {
    private struct Job {
        let batch: RawBatch
        let link: any CompressedBatches
        let ticket: Int
    }

    /// `@unchecked Sendable`: one thread at a time owns it, and takes it under the lock of `state`.
    private final class Coder: @unchecked Sendable {
        var encoder: BatchEncoder

        init(level: Int, rawByteCountMax: Int) {
            self.encoder = BatchEncoder(level: level, rawByteCountMax: rawByteCountMax)
        }
    }

    private struct State {
        var jobs = CircularBuffer<Job>()
        /// Coders that are idle.
        var coders: [Coder]
        var free: [BatchBuffer] = []
        var bufferCount = 0
        var isAwaited = false
        var wireByteCount = 0
        var isClosed = false
    }

    /// The most raw bytes of a batch that is compressed on the reading thread: a tenth of a millisecond's work.
    private static let shortByteCountMax = 32 << 10

    private let state: Monitor<State>
    private let threadCount: Int
    private let rawByteCountMax: Int
    private let onBufferFreed: @Sendable () -> Void

    /// - Parameter onBufferFreed: called when a buffer returns after ``take()`` found none.
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

    /// Compresses a batch and returns it to the link under its ticket.
    func compress(_ batch: RawBatch, for link: any CompressedBatches, ticket: Int) {
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

    /// Waits for the next job; `nil` after ``close()``.
    private func nextJob() -> (Job, Coder)? {
        self.state.wait { state -> (Job, Coder)?? in
            if state.jobs.isEmpty, state.isClosed { return .some(nil) }
            // A coder lent to a short batch wakes no thread on return: the borrower adds no other job meanwhile.
            guard !state.jobs.isEmpty, let coder = state.coders.popLast() else { return nil }
            return .some((state.jobs.removeFirst(), coder))
        } ?? nil
    }
}
