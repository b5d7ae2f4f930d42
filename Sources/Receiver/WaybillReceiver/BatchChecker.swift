package import NIOCore
internal import WaybillCompression
package import WaybillProtocol
package import WaybillSystem

/// Why a batch was refused.
package struct BatchRefusal: Error, Hashable, Sendable {
    package let code: ErrorCode
    package let text: String
}

/// Checks a whole batch before any of it is stored: long ones on separate threads, short ones at once, because that is
/// cheaper than two hops between threads.
package final class BatchChecker: Sendable {
    /// zlib's state cannot be shared: one per running check, kept for the next.
    private final class Worker {
        var inflater = Inflater()
    }

    private let submit: Submit
    private let idle = Lock<[IdleWorker]>([])
    private let lineByteCountMax: Int
    private let shortByteCountMax: Int

    /// `@unchecked Sendable`: a worker is held by one thread at a time, handed over under the lock of `idle`.
    private struct IdleWorker: @unchecked Sendable {
        let worker: Worker
    }

    /// Runs a check on any thread, now or later.
    package typealias Submit = @Sendable (_ check: @escaping @Sendable () -> Void) -> Void

    /// - Parameter shortByteCountMax: batches of at most so many raw bytes are checked on their event loop: 32 KiB take
    ///   about 50 µs.
    package init(lineByteCountMax: Int, shortByteCountMax: Int = 32 << 10, submit: @escaping Submit) {
        self.submit = submit
        self.lineByteCountMax = lineByteCountMax
        self.shortByteCountMax = shortByteCountMax
    }

    /// Checks one batch and calls `done` on `eventLoop`, which must also be the caller's; for a short batch before it
    /// returns.
    package func check(
        _ header: BatchHeader, of id: StreamID, wire: SharedBytes, on eventLoop: any EventLoop,
        done: @escaping @Sendable (Result<SharedBytes, BatchRefusal>) -> Void
    ) {
        if header.rawByteCount <= self.shortByteCountMax { return done(self.check(header, of: id, wire: wire)) }
        self.submit {
            let result = self.check(header, of: id, wire: wire)
            eventLoop.execute { done(result) }
        }
    }

    private func check(_ header: BatchHeader, of id: StreamID, wire: SharedBytes) -> Result<SharedBytes, BatchRefusal> {
        let worker = self.idle.withLock { $0.popLast() } ?? IdleWorker(worker: Worker())
        defer { self.idle.withLock { $0.append(worker) } }
        return Result { () throws(BatchRefusal) in
            try self.check(header, of: id, wire: wire, with: worker.worker)
        }
    }

    private func check(
        _ header: BatchHeader, of id: StreamID, wire: SharedBytes, with worker: Worker
    ) throws(BatchRefusal) -> SharedBytes {
        let checksum = FrameChecksum.checksum(of: header.checksummedText(id: id), wire.bytes)
        guard checksum == header.checksum else {
            throw BatchRefusal(code: .corrupt, text: "the checksum does not hold")
        }
        guard header.isPossible else {
            throw BatchRefusal(code: .corrupt, text: "the payload cannot hold so many bytes")
        }
        let raw: SharedBytes
        do throws(InflateError) {
            raw = try SharedBytes(capacity: header.rawByteCount) { (output) throws(InflateError) in
                try worker.inflater.inflate(wire.bytes, into: output)
                return output.count
            }
        } catch {
            throw BatchRefusal(code: .corrupt, text: "\(error.code): the payload is not what the header says")
        }
        try self.checkLines(of: raw.bytes, header)
        return raw
    }

    private func checkLines(of raw: UnsafeRawBufferPointer, _ header: BatchHeader) throws(BatchRefusal) {
        var lineCount = 0
        var position = 0
        while position < raw.count {
            let end = raw.firstNewline(from: position) ?? raw.count
            guard end - position < self.lineByteCountMax else {
                throw BatchRefusal(
                    code: .tooLarge, text: "a line has at most \(self.lineByteCountMax) bytes with its LF")
            }
            lineCount += 1
            // The header is false: the rest need not be counted.
            if lineCount > header.lineCount { break }
            position = end + 1
        }
        guard lineCount == header.lineCount else {
            throw BatchRefusal(code: .corrupt, text: "the payload does not have \(header.lineCount) lines")
        }
    }
}
