internal import NIOCore
internal import Synchronization
internal import WaybillCompression
internal import WaybillProtocol
internal import WaybillSystem

/// Why a batch was not taken.
struct BatchRefusal: Error, Hashable, Sendable {
    let code: ErrorCode
    let text: String
}

/// Checks batches whole, on threads of their own, before anything of them is stored.
package final class BatchChecker: Sendable {
    /// zlib's state may not be shared; one per running check, kept for the next.
    private final class Worker {
        var inflater = Inflater()
    }

    private let submit: Submit
    private let idle = Mutex<[IdleWorker]>([])
    private let lineByteCountMax: Int

    /// `@unchecked Sendable`: a worker is held by one thread at a time, handed over under the lock of `idle`.
    private struct IdleWorker: @unchecked Sendable {
        let worker: Worker
    }

    /// Runs a check, somewhere, some time.
    package typealias Submit = @Sendable (_ check: @escaping @Sendable () -> Void) -> Void

    package init(lineByteCountMax: Int, submit: @escaping Submit) {
        self.submit = submit
        self.lineByteCountMax = lineByteCountMax
    }

    /// Has one batch checked and calls `done` on `eventLoop`.
    func check(
        _ header: BatchHeader, of id: StreamID, wire: SharedBytes, on eventLoop: any EventLoop,
        done: @escaping @Sendable (Result<SharedBytes, BatchRefusal>) -> Void
    ) {
        self.submit {
            let worker = self.idle.withLock { $0.popLast() } ?? IdleWorker(worker: Worker())
            let result = Result<SharedBytes, BatchRefusal> { () throws(BatchRefusal) in
                try self.check(header, of: id, wire: wire, with: worker.worker)
            }
            self.idle.withLock { $0.append(worker) }
            eventLoop.execute { done(result) }
        }
    }

    private func check(
        _ header: BatchHeader, of id: StreamID, wire: SharedBytes, with worker: Worker
    ) throws(BatchRefusal) -> SharedBytes {
        let checksum = FrameChecksum.checksum(of: header.checksummedText(id: id), wire.bytes)
        guard checksum == header.checksum else {
            throw BatchRefusal(code: .corrupt, text: "the checksum does not hold")
        }
        // zlib cannot do better than 1032 : 1; whoever declares more lies.
        guard header.rawByteCount <= header.wireByteCount * 1032 + 1032 else {
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
            position = end + 1
        }
        guard lineCount == header.lineCount else {
            throw BatchRefusal(code: .corrupt, text: "the payload has \(lineCount) lines")
        }
    }
}
