package import WaybillSystem

/// Decides when to log that a receiver takes what is sent and acknowledges nothing: after a minute, then once a minute, and
/// once that it acknowledges again.
package struct SilenceWatch: Sendable {
    package enum Report: Equatable, Sendable {
        case silent(for: Duration)
        case resumed
    }

    /// How long a receiver may leave what was sent unanswered, and how long a report stands.
    package static let patience = Duration.seconds(60)

    private var toldAt: MonotonicTime?

    package init() {}

    /// - Parameter since: since when the receiver owes an acknowledgement; `nil` while it owes none.
    package mutating func look(_ since: MonotonicTime?, at now: MonotonicTime) -> Report? {
        guard let since, Self.isSilent(since, now) else {
            defer { self.toldAt = nil }
            return self.toldAt == nil ? nil : .resumed
        }
        guard self.toldAt.map({ now - $0 >= Self.patience }) ?? true else { return nil }
        self.toldAt = now
        return .silent(for: now - since)
    }

    /// The connection has ended: what comes next is another matter.
    package mutating func reset() {
        self.toldAt = nil
    }

    package static func isSilent(_ since: MonotonicTime, _ now: MonotonicTime) -> Bool {
        now - since > Self.patience
    }
}
