package import WaybillProtocol
package import WaybillSystem

/// What a connection hands to the committer.
package enum Work: Sendable {
    case open(ConnectionPort, StreamNumber, StreamDescription)
    case batch(ConnectionPort, StreamNumber, StreamDescription, BatchHeader, wire: SharedBytes, raw: SharedBytes)
    case skip(ConnectionPort, StreamNumber, StreamDescription, StreamOffset, byteCount: UInt64, SkipReason)
    case seal(ConnectionPort, StreamNumber, StreamDescription, length: StreamOffset)
    case closed(ConnectionPort)
}

extension Work {
    /// What it holds of the admission budget from before it is read until it is answered.
    var admissionByteCount: Int {
        switch self {
        case .open, .skip, .seal: AdmissionBudget.messageByteCount
        case .batch(_, _, _, let header, _, _): header.admissionByteCount
        case .closed: 0
        }
    }
}

extension BatchHeader {
    /// See ``Work/admissionByteCount``.
    var admissionByteCount: Int { AdmissionBudget.messageByteCount + self.rawByteCount + self.wireByteCount }
}

/// What the committer answers.
enum Reply: Sendable {
    case opened(StreamNumber, at: StreamOffset, isSealed: Bool)
    case durable(StreamNumber, upTo: StreamOffset)
    case sealed(StreamNumber)
    case openRefused(StreamNumber, at: StreamOffset, ErrorCode, text: String)
    case refused(StreamNumber, at: StreamOffset, ErrorCode, text: String)
}

/// The thread that writes the journal, and the queue before it.
///
/// Groups form by themselves: while one sync runs, the next group gathers.
package final class Committer: Sendable {
    private struct Inbox {
        var works: [Work] = []
        var isClosed = false
    }

    private let inbox = Monitor(Inbox())

    package init() {}

    func submit(_ works: [Work]) {
        self.inbox.update { $0.works.append(contentsOf: works) }
    }

    /// Lets ``run(_:)`` return once everything submitted before is durable, or cannot be.
    func close() {
        self.inbox.update { $0.isClosed = true }
    }

    /// What was submitted since the last call; for whoever has no thread to run.
    package func takeSubmitted() -> [Work] {
        self.inbox.update { inbox in
            defer { inbox.works = [] }
            return inbox.works
        }
    }

    /// The thread's body.
    func run(_ loop: consuming CommitLoop<some FileSystem>) {
        while true {
            let works: [Work]? = self.inbox.wait { inbox in
                if inbox.works.isEmpty { return inbox.isClosed ? [] : nil }
                defer { inbox.works = [] }
                return inbox.works
            }
            guard let works, !works.isEmpty else { return }
            var retryAt = loop.step(works)
            while let at = retryAt {
                let isStopping = self.inbox.wait(until: at) { $0.isClosed ? true : nil }
                if isStopping == true { return }
                retryAt = loop.step([])
            }
        }
    }
}
