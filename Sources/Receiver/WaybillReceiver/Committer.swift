internal import WaybillData
package import WaybillProtocol
package import WaybillSystem

/// What a connection hands to the committer.
package enum CommitRequest: Sendable {
    case open(ConnectionHandle, StreamNumber, StreamDescription, StreamTenancy)
    case batch(ConnectionHandle, StreamNumber, StreamDescription, BatchHeader, wire: SharedBytes, raw: SharedBytes)
    case skip(ConnectionHandle, StreamNumber, StreamDescription, SkippedRange)
    case seal(ConnectionHandle, StreamNumber, StreamDescription, length: StreamOffset)
    case closed(ConnectionHandle)
}

extension CommitRequest {
    /// The connection that waits for its answer.
    var waiting: ConnectionHandle? {
        switch self {
        case .open(let connection, _, _, _), .batch(let connection, _, _, _, _, _), .skip(let connection, _, _, _),
            .seal(let connection, _, _, _):
            connection
        case .closed: nil
        }
    }

    /// What it holds of the admission budget, from before it is read until it is answered.
    var charge: AdmissionCharge {
        switch self {
        case .open, .skip, .seal: .message
        case .batch(_, _, _, let header, _, _): header.charge
        case .closed: AdmissionCharge()
        }
    }
}

/// What the committer answers.
enum Reply: Sendable {
    /// Whether this process has changed the stream: if not, what it has is as old as the process before.
    case opened(StreamNumber, at: StreamOffset, StreamProof, isSealed: Bool, isChanged: Bool)
    case durable(StreamNumber, upTo: StreamOffset)
    case sealed(StreamNumber, at: StreamOffset, StreamProof)
    case openRefused(StreamNumber, at: StreamOffset, ErrorCode, text: String)
    case refused(StreamNumber, at: StreamOffset, ErrorCode, text: String)
}

/// The thread that writes the journal, and the queue in front of it.
///
/// Groups form on their own: the next group gathers while a sync runs.
package final class Committer: Sendable {
    private struct Inbox {
        var requests: [CommitRequest] = []
        var isClosed = false
    }

    private let inbox = Monitor(Inbox())

    package init() {}

    func submit(_ requests: [CommitRequest]) {
        self.inbox.update { $0.requests.append(contentsOf: requests) }
    }

    /// Lets ``run(_:)`` return once everything submitted so far is durable, or cannot become durable.
    func close() {
        self.inbox.update { $0.isClosed = true }
    }

    /// What was submitted since the last call; for callers that run no thread.
    package func takeSubmitted() -> [CommitRequest] {
        self.inbox.update { inbox in
            defer { inbox.requests = [] }
            return inbox.requests
        }
    }

    /// The thread's body.
    ///
    /// The manager hears from this thread that the receiver continues, also while the disk refuses: it tries again.
    ///
    /// - Returns: the loss that ended it; `nil` after ``close()``.
    func run(_ loop: consuming CommitLoop<some FileSystem>, _ manager: ServiceManager = .none) -> JournalLoss? {
        let clock = POSIXClock()
        var heartbeat = Heartbeat(manager, clock: clock)
        while true {
            let requests: [CommitRequest]? = self.inbox.wait(until: heartbeat.wake(before: loop.nextMark)) { inbox in
                if inbox.requests.isEmpty { return inbox.isClosed ? [] : nil }
                defer { inbox.requests = [] }
                return inbox.requests
            }
            heartbeat.beat()
            if let requests, requests.isEmpty { return nil }
            var retryAt: MonotonicTime?
            if let requests {
                retryAt = loop.step(requests)
            } else if let mark = loop.nextMark, mark <= clock.monotonicTime() {
                retryAt = loop.mark()
            }
            while let at = retryAt {
                let isStopping = self.inbox.wait(until: heartbeat.wake(before: at)) { $0.isClosed ? true : nil }
                if isStopping == true { return nil }
                heartbeat.beat()
                if at <= clock.monotonicTime() { retryAt = loop.step([]) }
            }
            if let loss = loop.loss { return loss }
        }
    }
}
