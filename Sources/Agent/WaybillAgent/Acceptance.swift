internal import WaybillProtocol
internal import WaybillSystem

/// What the receiver of the present connection said, and since when none has accepted this agent.
///
///     READY ─▶ believed in its fleet, or doubted ─▶ accepted ─▶ WAIT: paused ─▶ ended: alone since then ─▶ READY …
struct Acceptance {
    private struct Present {
        let receiver: ReceiverTag
        let name: String
        let since: WallTime
    }

    private static let pauseMillisecondsMax: UInt64 = 600_000
    /// The reason to report when not even an attempt has failed.
    private static let silence = "no receiver answered"

    /// The receiver that accepted this agent on the present connection.
    private var present: Present?
    /// Whether that receiver says that it belongs to a fleet, and there is no reason to believe it.
    private(set) var isFleetDoubted = false
    /// How far this clock was ahead of the last receiver's, less the time that `READY` took.
    private var clockSkew: Duration?
    /// Until when no batch is sent.
    private(set) var pausedUntil: MonotonicTime?
    /// Since when no receiver has accepted this agent; `nil` while one has.
    private(set) var unreadySince: MonotonicTime?
    /// The last failure since a receiver accepted this agent.
    private var lastFailure: String?

    init(at now: MonotonicTime) {
        self.unreadySince = now
    }

    // MARK: What happened

    /// The fleet of the receiver that answers; `nil` if there is no reason to believe that it belongs to one.
    ///
    /// What it holds then counts as its own alone.
    mutating func believedFleet(
        of ready: Ready, at address: String, _ configuration: AgentConfiguration
    ) -> String? {
        guard let fleet = ready.fleet, let address = NetworkAddress(address) else { return nil }
        self.isFleetDoubted = !configuration.believes(fleet, of: address)
        return self.isFleetDoubted ? nil : fleet
    }

    mutating func accepted(_ ready: Ready, at address: String, _ now: WallTime) {
        let receiver = ReceiverTag(
            address: address, incarnation: ready.receiver.incarnation, start: ready.receiver.start)
        self.present = Present(receiver: receiver, name: ready.receiver.name, since: now)
        // A clock may claim anything.
        let (skew, isOverflow) = now.milliseconds.subtractingReportingOverflow(ready.milliseconds)
        self.clockSkew = isOverflow ? nil : .milliseconds(skew)
        self.unreadySince = nil
        self.lastFailure = nil
    }

    /// Something is not shipped, for this reason.
    mutating func failed(_ reason: String) {
        self.lastFailure = reason
    }

    /// The receiver wants no batch for a while.
    mutating func pause(milliseconds: UInt64, at now: MonotonicTime) {
        self.pausedUntil = now + .milliseconds(Int(min(milliseconds, Self.pauseMillisecondsMax)))
    }

    /// The connection has ended, or its attempt has.
    ///
    /// - Returns: how long no receiver has accepted this agent.
    mutating func ended(at now: MonotonicTime) -> Duration {
        self.present = nil
        self.isFleetDoubted = false
        self.pausedUntil = nil
        self.unreadySince = self.unreadySince ?? now
        return self.alone(at: now)
    }

    // MARK: What follows

    /// How long no receiver has accepted this agent.
    func alone(at now: MonotonicTime) -> Duration { self.unreadySince.map { now - $0 } ?? .zero }

    var receiver: ReceiverTag? { self.present?.receiver }

    /// Whether the receiver wants no batch yet; a pause that is over is forgotten.
    mutating func isPaused(at now: MonotonicTime) -> Bool {
        guard let pausedUntil, pausedUntil <= now else { return self.pausedUntil != nil }
        self.pausedUntil = nil
        return false
    }

    /// Why a run that is given up could not ship.
    var reason: String { self.lastFailure ?? Self.silence }

    /// Why the last attempt to ship failed; `nil` while a receiver accepts what it is sent.
    var failure: String? { self.lastFailure ?? (self.present == nil ? Self.silence : nil) }

    func describe(_ standing: inout AgentStanding) {
        standing.isConnected = self.present != nil
        standing.isFleetDoubted = self.isFleetDoubted
        standing.clockSkew = self.clockSkew
    }

    func describe(_ report: inout AgentReport) {
        report.connectedSince = self.present?.since
        report.receiver = self.present?.name
        report.address = self.present?.receiver.address
        report.lastFailure = self.lastFailure.map { String($0.prefix(AgentReport.errorCharacterCountMax)) }
    }
}
