package import WaybillSystem
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

/// `host:port`.
package struct NetworkAddress: Hashable, Sendable, CustomStringConvertible {
    package var host: String
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port` or `[v6]:port`; `nil` for anything else.
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (0...65535).contains(port)
        else { return nil }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty else { return nil }
        self.init(host: String(host), port: port)
    }

    package var description: String {
        self.host.contains(":") ? "[\(self.host)]:\(self.port)" : "\(self.host):\(self.port)"
    }
}

/// When an agent is done.
package enum AgentMode: Hashable, Sendable {
    /// Never: it ships what comes until it is told to stop.
    case continuous
    /// When everything there is has become durable; gives up when no receiver answers for so long.
    case once(patience: Duration)
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
    /// zlib's level, 0–9.
    package var compressionLevel = 1
    /// Bytes of a source in one batch.
    package var batchByteCountMax = 256 << 10
    /// How long new lines may gather before they are sent.
    package var linger = Duration.milliseconds(5)
    /// How long a stop may take to ship what is there.
    package var drainPatience = Duration.seconds(10)
    package var tailLimits = TailLimits()
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
    /// Bytes of last lines without LF that wait for their end.
    package var heldByteCount = 0
    /// Bytes that had been seen and were cut away or deleted before they could be shipped.
    package var lostByteCount = 0
    package var duration = Duration.zero

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

/// How a run ended.
package enum AgentOutcome: Hashable, Sendable {
    /// Everything there was is durable.
    case drained(AgentSummary)
    /// Stopped with bytes that are not acknowledged; they are still on disk.
    case stopped(AgentSummary)
    /// No receiver could be reached, or none took this agent.
    case unreachable(String, AgentSummary)
    /// The state directory or the registry cannot be used.
    case failed(FileSystemError)
}
