package import WaybillMetrics
package import WaybillSystem
package import WaybillTLS
package import WaybillTail

/// Files that an agent ships, and what is said of their lines.
package struct AgentSource: Hashable, Sendable {
    package var files: SourceConfiguration.Kind
    /// `dev`, `internal` or `prod`; Waybill's own events say it themselves.
    package var environment: String
    /// The app; Waybill's own events say it themselves.
    package var bundle: String
    /// The member of a foreign line that holds its time.
    package var timeMember: String?
    /// The member of a foreign line that holds its name.
    package var nameMember: String?

    package init(
        files: SourceConfiguration.Kind, environment: String, bundle: String, timeMember: String? = nil,
        nameMember: String? = nil
    ) {
        self.files = files
        self.environment = environment
        self.bundle = bundle
        self.timeMember = timeMember
        self.nameMember = nameMember
    }
}

extension AgentSource {
    /// The spool that it is; `nil` for files of others.
    var spool: String? {
        switch self.files {
        case .spool(let directory): directory
        case .files: nil
        }
    }
}

/// When an agent is done.
package enum AgentMode: Hashable, Sendable {
    /// Never: it ships what comes until it is told to stop.
    case continuous
    /// When everything there is has become durable; gives up when no receiver answers for so long.
    case once(patience: Duration)
    /// As with ``once(patience:)``, and without any connection where nothing waits for a receiver.
    case round(RoundExtent, patience: Duration)

    /// How long a run that ends by itself looks for a receiver; `nil` for one that does not end.
    var patience: Duration? {
        switch self {
        case .continuous: nil
        case .once(let patience), .round(_, let patience): patience
        }
    }
}

/// What a round ships.
package enum RoundExtent: Hashable, Sendable {
    /// What its first scan found; what comes meanwhile waits for the next round, however fast it comes.
    case whatWasThere
    /// Also what comes meanwhile, until nothing is left.
    case untilNothingIsLeft
}

/// What an agent is told.
package struct AgentConfiguration: Sendable {
    /// Tells this agent from others; must not change, foreign streams are named by it.
    package var name: AgentName
    /// Registry and quarantine.
    package var stateDirectory: String
    /// Tried in turn.
    package var receivers: [NetworkAddress]
    package var sources: [AgentSource]
    package var mode = AgentMode.continuous
    package var token: Secret?
    /// How receivers are spoken to by TLS; `nil`: they are not.
    package var tls: TLSClientConfiguration?
    /// zlib's level, 0–9.
    package var compressionLevel = 1
    /// Threads that compress; more than one where a single agent must fill a fast network.
    package var compressionThreadCount = 1
    /// Bytes of a source in one batch.
    package var batchByteCountMax = 256 << 10
    /// A line longer than a batch is a batch.
    package var rawByteCountMax: Int { max(self.batchByteCountMax, self.tailLimits.lineByteCountMax) }
    /// How long new lines may gather before they are sent.
    package var linger = Duration.milliseconds(5)
    /// How long a stop may take to ship what is there.
    package var drainPatience = Duration.seconds(10)
    package var tailLimits = TailLimits()
    /// Where `GET /metrics` is answered; `nil`: nowhere.
    package var metrics: NetworkAddress?
    /// Whether a run says how many lines became durable, and how many of its spools are not; that reads what is left.
    package var countsLines = false
    /// Is told now and then, with `--once`, how many bytes were sent and how many there are.
    package var progress: (@Sendable (_ done: Int, _ total: Int) -> Void)?

    package init(name: AgentName, stateDirectory: String, receivers: [NetworkAddress], sources: [AgentSource]) {
        self.name = name
        self.stateDirectory = stateDirectory
        self.receivers = receivers
        self.sources = sources
    }
}

/// What a run did; `--once` prints it.
package struct AgentSummary: Hashable, Sendable {
    package var streamCount = 0
    package var rawByteCount = 0
    package var lineCount = 0
    package var batchCount = 0
    package var wireByteCount = 0
    package var skippedByteCount = 0
    package var sealedStreamCount = 0
    /// Bytes that receivers said they hold, given up ones among them, and that this run did not know they held.
    package var ackedByteCount = 0
    /// Lines that became durable, where they are counted.
    package var ackedLineCount = 0
    /// Whole lines that are not durable, where they are counted.
    package var remainingLineCount = 0
    package var connectionCount = 0
    /// Bytes of last lines without LF that wait for their end.
    package var heldByteCount = 0
    /// Bytes that had been seen and were cut away or deleted before they could be shipped.
    package var lostByteCount = 0
    package var duration = Duration.zero
    /// Why the last attempt to ship came to nothing; `nil` while a receiver takes what it is given.
    package var lastFailure: String?

    package init() {}

    /// One line of JSON.
    package var json: String {
        let milliseconds = self.duration.nanoseconds / 1_000_000
        let fraction = String(milliseconds % 1000 + 1000).dropFirst()
        return "{\"streams\":\(self.streamCount),\"bytes\":\(self.rawByteCount),\"lines\":\(self.lineCount),"
            + "\"batches\":\(self.batchCount),\"wire_bytes\":\(self.wireByteCount),"
            + "\"skipped_bytes\":\(self.skippedByteCount),\"sealed\":\(self.sealedStreamCount),"
            + "\"held_bytes\":\(self.heldByteCount),\"lost_bytes\":\(self.lostByteCount),"
            + "\"seconds\":\(milliseconds / 1000).\(fraction)}"
    }
}

/// Where a run stands.
package struct AgentStanding: Hashable, Sendable {
    package var summary = AgentSummary()
    package var isConnected = false
    /// Files that are followed.
    package var streamCount = 0
    /// Bytes that were seen in files and are not acknowledged, those in flight among them.
    package var pendingByteCount = 0
    package var inFlightByteCount = 0
}

/// How a run ended.
package enum AgentOutcome: Hashable, Sendable {
    /// Everything there was is durable.
    case drained(AgentSummary)
    /// Stopped with bytes that are not acknowledged; they are still on disk.
    case stopped(AgentSummary)
    /// No receiver could be reached, or none took this agent.
    case unreachable(String, AgentSummary)
    /// The state directory, the registry or a spool cannot be used.
    case failed(FileSystemError)
    /// The files for TLS cannot be used.
    case unsecurable(TLSSetupError)
    /// The address for metrics cannot be used.
    case unmeasurable(MetricsServer.Failure)
}
