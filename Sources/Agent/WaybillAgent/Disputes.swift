internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// Which process of which receiver answers, at which address.
struct ReceiverTag: Hashable {
    let address: String
    let incarnation: Incarnation
    let start: UInt64
}

/// Files of which a receiver holds other bytes: when each is asked for again.
///
///     disputed ──▶ waits 1 min, 2 min … 1 h ──▶ asked again ──▶ settled, or disputed
///                  └─ another receiver, incarnation or start: at once, but at one address once a minute at most
struct Disputes {
    private struct Dispute {
        var attemptCount: Int
        var askedAt: MonotonicTime
        var receiver: ReceiverTag
    }

    private static let shortest = Duration.seconds(60)
    private static let longest = Duration.seconds(3600)

    private var disputes: [StreamKey: Dispute] = [:]

    var count: Int { self.disputes.count }

    func contains(_ stream: StreamKey) -> Bool { self.disputes[stream] != nil }

    /// - Returns: when to ask again.
    mutating func add(_ stream: StreamKey, by receiver: ReceiverTag, _ now: MonotonicTime) -> MonotonicTime {
        let attemptCount = (self.disputes[stream]?.attemptCount ?? 0) + 1
        self.disputes[stream] = Dispute(attemptCount: attemptCount, askedAt: now, receiver: receiver)
        return now + Self.delay(attemptCount)
    }

    /// Takes an answer whose proof agrees, for `offset` of a file's bytes.
    ///
    /// It settles nothing while the file is longer: the next message may say that the stream is sealed there.
    mutating func agreed(_ stream: StreamKey, at offset: Int, of byteCount: Int) {
        if offset >= byteCount { self.settle(stream) }
    }

    mutating func settle(_ stream: StreamKey) {
        if !self.disputes.isEmpty { self.disputes[stream] = nil }
    }

    /// When a stream may be asked for at this receiver; `nil` when it may be at once.
    func nextAsking(_ stream: StreamKey, of receiver: ReceiverTag, _ now: MonotonicTime) -> MonotonicTime? {
        guard let dispute = self.disputes[stream] else { return nil }
        let delay: Duration
        if dispute.receiver == receiver {
            delay = Self.delay(dispute.attemptCount)
        } else {
            delay = dispute.receiver.address == receiver.address ? Self.shortest : .zero
        }
        return dispute.askedAt + delay > now ? dispute.askedAt + delay : nil
    }

    private static func delay(_ attemptCount: Int) -> Duration {
        min(self.longest, self.shortest * (1 << min(attemptCount - 1, 6)))
    }
}
