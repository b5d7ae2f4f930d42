package import WaybillHost
internal import WaybillProtocol
package import WaybillSystem
package import WaybillTail

/// Files that an agent ships, and the description of their lines.
package struct AgentSource: Hashable, Sendable {
    package var files: SourceConfiguration.Kind
    /// `dev`, `internal` or `prod`; Waybill's own events carry it themselves.
    package var environment: String
    /// The app; Waybill's own events carry it themselves.
    package var bundle: String
    /// The member of a foreign line that holds its time.
    package var timeMember: String?
    /// The member of a foreign line that holds its name.
    package var nameMember: String?
    /// The member of a foreign line that holds its user.
    package var userMember: String?
    /// The member of a foreign line that holds its anonymous id.
    package var anonymousMember: String?
    /// Whether links to foreign files, and links to folders that a wildcard matches, are followed.
    package var followsLinks = false
    /// Patterns of files that are left out.
    package var excludes: [String] = []
    /// Whether changes are looked for as if the system reported none.
    package var isPolled = false
    /// The name of the group that shares the spool's folder; the agent creates a missing folder for it.
    package var group: String?

    package init(
        files: SourceConfiguration.Kind, environment: String, bundle: String, timeMember: String? = nil,
        nameMember: String? = nil, userMember: String? = nil, anonymousMember: String? = nil
    ) {
        self.files = files
        self.environment = environment
        self.bundle = bundle
        self.timeMember = timeMember
        self.nameMember = nameMember
        self.userMember = userMember
        self.anonymousMember = anonymousMember
    }
}

extension AgentSource {
    /// The spool's folder; `nil` for files that are not a spool.
    var spool: String? {
        switch self.files {
        case .spool(let directory): directory
        case .files: nil
        }
    }
}

/// When a run ends.
package enum AgentMode: Hashable, Sendable {
    /// Never: it ships until it is asked to stop.
    case continuous
    /// When everything present is durable; gives up when no receiver answers for `patience`.
    case once(patience: Duration)
    /// Like ``once(patience:)``, but without a connection when nothing waits for a receiver.
    case round(RoundExtent, patience: Duration)

    /// How long a run that ends on its own tries to reach a receiver; `nil` for one that does not end.
    var patience: Duration? {
        switch self {
        case .continuous: nil
        case .once(let patience), .round(_, let patience): patience
        }
    }
}

/// When an agent ships a segment under another id by itself, because receivers hold other bytes under its own.
package enum ReshipRule: Hashable, Sendable {
    /// Never: an operator decides, with `waybill reship`.
    case never
    /// As soon as a receiver disagrees.
    case atOnce
    /// When every configured receiver has disagreed for so long.
    case after(Duration)
}

/// What a round ships.
package enum RoundExtent: Hashable, Sendable {
    /// What its first scan found; whatever arrives meanwhile waits for the next round.
    case whatWasThere
    /// Also what arrives meanwhile, until nothing is left.
    case untilNothingIsLeft
}

/// Receivers behind doors, which are reached through tunnels.
package struct AgentDoors: Sendable {
    /// The doors among the addresses of receivers.
    package var addresses: [NetworkAddress: DoorAddress] = [:]
    /// The TLS settings for doors; unused where a system's own tunnel has its own.
    package var tls: TLSClientConfiguration?
    /// Opens a system's own tunnel; `nil`: the agent opens one.
    package var open: TunnelOpener?

    package init() {}
}

/// What the program demands of a run, which no file configures and no reload changes.
package struct AgentRun: Sendable {
    package var mode = AgentMode.continuous
    /// The program and its version, as receivers are told; `nil`: they are not.
    package var software: String?
    /// Whether a run counts the lines that became durable, and those in its spools that are not; this reads what is
    /// left.
    package var countsLines = false
    /// Called now and then, with `--once`, with the bytes sent and the total bytes.
    package var progress: (@Sendable (_ done: Int, _ total: Int) -> Void)?
}

/// How batches are compressed.
package struct AgentCompression: Hashable, Sendable {
    /// zlib's level, 0–9.
    package var level = 1
    /// Use more than one when a single agent must fill a fast network.
    package var threadCount = 1
}

/// An agent's configuration.
package struct AgentConfiguration: Sendable {
    package var naming: AgentNaming
    package var name: AgentName {
        get { self.naming.name }
        set { self.naming.name = newValue }
    }
    /// The folder of the registry and the quarantine.
    package var stateDirectory: String
    /// Tried in turn.
    package var receivers: [NetworkAddress]
    /// The id of the receivers' fleet, which makes it believed without TLS; `nil` if it is not known.
    package var fleet: String?
    /// The receivers that are behind a door.
    package var doors = AgentDoors()
    package var sources: [AgentSource]
    package var run = AgentRun()
    /// The token to show; ``tokenFile`` takes precedence.
    package var token: Secret?
    /// The file of the token, read at each connection.
    package var tokenFile: String?
    /// The TLS settings for receivers; `nil` without TLS.
    package var tls: TLSClientConfiguration?
    package var compression = AgentCompression()
    /// The most bytes of a source in one batch.
    package var batchByteCountMax = 256 << 10
    /// A line longer than a batch is a batch by itself.
    package var rawByteCountMax: Int { max(self.batchByteCountMax, self.tailLimits.lineByteCountMax) }
    /// How long new lines may gather before they are sent.
    package var linger = Duration.milliseconds(5)
    /// How long a connection to a receiver of a fleet lasts, more or less a fifth: then a receiver is chosen again.
    package var connectionAgeMax = Duration.seconds(3600)
    /// How long a stop may take to ship what is left.
    package var drainPatience = Duration.seconds(10)
    package var tailLimits = TailLimits()
    /// How many spools are claimed at once: each takes a descriptor.
    package var claimCountMax = Int.max
    /// How long shipped segments are kept; without any limit they are deleted.
    package var keep: FileLimit {
        get { self.tailLimits.keep ?? FileLimit() }
        set { self.tailLimits.keep = newValue.keepsAll ? nil : newValue }
    }
    package var reshipRule = ReshipRule.never
    package var status = StatusPlaces()
    /// For each key with a value from the environment, the text that the file contains.
    package var writtenTexts: [String: String] = [:]

    package init(name: AgentName, stateDirectory: String, receivers: [NetworkAddress], sources: [AgentSource]) {
        self.naming = AgentNaming(name)
        self.stateDirectory = stateDirectory
        self.receivers = receivers
        self.sources = sources
    }

    /// Whether there is a reason to believe a receiver that says which fleet it belongs to.
    ///
    /// The id is public. Who repeats it could take lines and say that the fleet has stored them: no other receiver would get
    /// them.
    func believes(_ fleet: String, of address: NetworkAddress) -> Bool {
        self.doors.addresses[address]?.isEncrypted ?? (self.tls != nil) || self.fleet == fleet
            || LocalRequest.isLoopbackName(address.host)
    }
}

extension AgentConfiguration {
    /// The token to show now; `nil` for none.
    package func presentToken(on files: some FileSystem) throws(TokenFile.Failure) -> Secret? {
        guard let tokenFile else { return self.token }
        return try TokenFile(path: tokenFile).read(on: files)
    }
}
