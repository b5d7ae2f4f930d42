internal import WaybillProjection
internal import WaybillSystem

/// Bytes a second, of principals and of single agents, where ``PrincipalQuotas`` bounds them.
///
/// Each is a token bucket with two seconds of room. A batch takes its bytes when it is announced, also those that are not
/// there yet, and is read once the bucket has made up for them. A connection announces one batch at a time, so agents of
/// one principal wait in turn, and other principals never do.
struct ByteRates {
    private enum Key: Hashable {
        case principal(String)
        case agent(Account)
    }

    private struct Bucket {
        /// Bytes that may be sent; negative while a batch waits.
        var level: Double
        var time: MonotonicTime

        mutating func fill(_ rate: Double, at now: MonotonicTime) {
            let seconds = Double((now - self.time).nanoseconds) / 1e9
            self.level = min(self.level + seconds * rate, rate * ByteRates.burstSeconds)
            self.time = now
        }
    }

    private static let burstSeconds = 2.0
    private static let bucketCountMax = 10_000

    private var buckets: [Key: Bucket] = [:]

    /// Whether an agent's bytes a second are bounded.
    static func bounds(_ agent: AdmittedAgent) -> Bool {
        let quotas = agent.principal.quotas
        return quotas.byteRateMax != nil || quotas.agentByteRateMax != nil
    }

    private static func rates(of agent: AdmittedAgent) -> [(key: Key, rate: Double)] {
        let quotas = agent.principal.quotas
        let all = quotas.byteRateMax.map { (Key.principal(agent.principal.name), Double($0)) }
        let own = quotas.agentByteRateMax.map { (Key.agent(agent.account), Double($0)) }
        return [all, own].compactMap(\.self)
    }

    /// Takes a batch's bytes.
    ///
    /// - Returns: how long the batch must wait.
    mutating func take(_ byteCount: Int, for agent: AdmittedAgent, at now: MonotonicTime) -> Duration {
        if self.buckets.count >= Self.bucketCountMax { self.forget(at: now) }
        var seconds = 0.0
        for (key, rate) in Self.rates(of: agent) {
            var bucket = self.buckets[key] ?? Bucket(level: rate * Self.burstSeconds, time: now)
            bucket.fill(rate, at: now)
            bucket.level -= Double(byteCount)
            self.buckets[key] = bucket
            seconds = max(seconds, -bucket.level / rate)
        }
        return .nanoseconds(Int64((seconds * 1e9).rounded(.up)))
    }

    /// Gives back the bytes of a batch that will not be read.
    mutating func giveBack(_ byteCount: Int, of agent: AdmittedAgent, at now: MonotonicTime) {
        for (key, rate) in Self.rates(of: agent) {
            self.buckets[key]?.level += Double(byteCount)
            self.buckets[key]?.fill(rate, at: now)
        }
    }

    /// Forgets agents that have sent nothing for a while; all agents if that is not enough.
    private mutating func forget(at now: MonotonicTime) {
        self.buckets = self.buckets.filter { key, bucket in
            if case .principal = key { true } else { bucket.level < 0 || now - bucket.time < .seconds(2) }
        }
        guard self.buckets.count >= Self.bucketCountMax / 2 else { return }
        self.buckets = self.buckets.filter { if case .principal = $0.key { true } else { false } }
    }
}
