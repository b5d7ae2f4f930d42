package import WaybillHost
package import WaybillProtocol
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

/// An agent's configuration.
package struct AgentConfiguration: Sendable {
    /// Identifies this agent; it must not change, because foreign streams are named after it.
    package var name: AgentName { didSet { self.isNameDerived = false } }
    /// Whether the name is not a configured one: then the name in the state directory holds.
    package var isNameDerived = false
    /// The name in the state directory that may be replaced by another one.
    package var formerName: AgentName?
    /// Proves the name of an app's install; `nil` for other agents, and until ``usesDeviceKey`` has found it.
    package private(set) var deviceKey: DeviceKey?
    /// Whether the name is that of a key in the state directory, which the first run makes.
    package var usesDeviceKey = false
    /// The folder of the registry and the quarantine.
    package var stateDirectory: String
    /// Tried in turn.
    package var receivers: [NetworkAddress]
    /// The id of the receivers' fleet, which makes it believed without TLS; `nil` if it is not known.
    package var fleet: String?
    /// The receivers that are behind a door.
    package var doors = AgentDoors()
    package var sources: [AgentSource]
    package var mode = AgentMode.continuous
    /// The token to show; ``tokenFile`` takes precedence.
    package var token: Secret?
    /// The file of the token, read at each connection.
    package var tokenFile: String?
    /// The TLS settings for receivers; `nil` without TLS.
    package var tls: TLSClientConfiguration?
    /// zlib's level, 0–9.
    package var compressionLevel = 1
    /// Threads that compress; use more than one when a single agent must fill a fast network.
    package var compressionThreadCount = 1
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
    /// The program and its version, as receivers are told; `nil`: they are not.
    package var software: String?
    /// Whether a run counts the lines that became durable, and those in its spools that are not; this reads what is
    /// left.
    package var countsLines = false
    /// For each key with a value from the environment, the text that the file contains.
    package var writtenTexts: [String: String] = [:]
    /// Called now and then, with `--once`, with the bytes sent and the total bytes.
    package var progress: (@Sendable (_ done: Int, _ total: Int) -> Void)?

    package init(name: AgentName, stateDirectory: String, receivers: [NetworkAddress], sources: [AgentSource]) {
        self.name = name
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

    /// Takes the name of another configuration, and its key.
    mutating func keepIdentity(of other: AgentConfiguration) {
        self.name = other.name
        self.deviceKey = other.deviceKey
        self.usesDeviceKey = other.usesDeviceKey
    }

    /// Takes the name that a key proves.
    package mutating func identify(with key: DeviceKey) {
        guard let name = AgentName(key.agentName) else { preconditionFailure("32 hexadecimal digits are a name") }
        self.name = name
        self.deviceKey = key
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
    /// NULs that were skipped before lines; no one wrote them.
    package var holeByteCount = 0
    package var sealedStreamCount = 0
    /// Bytes, skipped ones included, that receivers reported to hold and that this run did not know they held.
    package var ackedByteCount = 0
    /// Bytes of files that a fleet's bucket was said to have.
    package var storedByteCount = 0
    /// Lines that became durable, when lines are counted.
    package var ackedLineCount = 0
    /// Whole lines that are not durable, when lines are counted.
    package var remainingLineCount = 0
    package var connectionCount = 0
    /// Bytes of unfinished last lines, which wait for their LF.
    package var heldByteCount = 0
    /// Bytes that were seen, but truncated or deleted before they could be shipped.
    package var lostByteCount = 0
    /// Files that were not found again at a start, and may have had more lines.
    package var unseenEndCount = 0
    /// Bytes shipped again, and files that continue, after they were replaced or became shorter.
    package var successions = SuccessionCounts()
    /// Receivers that were met for the first time, and those that came back older.
    package var unknownReceiverCount = 0
    package var olderReceiverCount = 0
    /// Streams of which a receiver held other bytes, less than it had acknowledged, or more than is left of a segment.
    package var differingStreamCount = 0
    package var forgottenStreamCount = 0
    /// Segments of which a receiver held other bytes when the run ended, and those shipped under another id.
    package var disputedStreamCount = 0
    package var reshippedSegmentCount = 0
    package var shortenedStreamCount = 0
    /// Segments that were delivered and deleted, and that a receiver of the same address does not hold.
    package var missingSegmentCount = 0
    /// Kept segments that were shipped again, and those that were deleted for their age or size.
    package var returnedSegmentCount = 0
    package var expiredSegmentCount = 0
    /// Lines deleted from the quarantine for their age or size.
    package var expiredQuarantineCount = 0
    /// Files and folders that could not be read at the last attempt.
    package var unreadableFileCount = 0
    /// Files and folders that are not followed.
    package var refusedFileCount = 0
    /// Lines that the receiver reported to have put into its quarantine.
    package var quarantinedLineCount = 0
    /// Events that the receiver's exports refused, as it reported; one may be refused by several.
    package var refusedEventCount = 0
    package var duration = Duration.zero
    /// Why the last attempt to ship failed; `nil` while a receiver accepts what it is sent.
    package var lastFailure: String?

    package init() {}

    mutating func count(_ meeting: ReceiverMeeting) {
        switch meeting {
        case .known: break
        case .unknown: self.unknownReceiverCount += 1
        case .older: self.olderReceiverCount += 1
        }
    }

    mutating func count(_ counts: [QuarantineCount]) {
        for count in counts {
            let path: WritableKeyPath<Self, Int> = count.export == nil ? \.quarantinedLineCount : \.refusedEventCount
            let (sum, isOverflow) = self[keyPath: path].addingReportingOverflow(count.count)
            self[keyPath: path] = isOverflow ? .max : sum
        }
    }

    mutating func count(_ notice: TailNotice) {
        switch notice {
        case .receiverDiffers, .segmentDisputed: self.differingStreamCount += 1
        case .receiverForgot: self.forgottenStreamCount += 1
        case .segmentShortened: self.shortenedStreamCount += 1
        case .segmentsMissing(let missing): self.missingSegmentCount += missing.count
        case .segmentsReturned(let count, _): self.returnedSegmentCount += count
        case .keptSegmentDeleted: self.expiredSegmentCount += 1
        case .quarantineDeleted: self.expiredQuarantineCount += 1
        default: break
        }
    }

    /// One line of JSON.
    package var json: String {
        let milliseconds = self.duration.nanoseconds / 1_000_000
        let fraction = String(milliseconds % 1000 + 1000).dropFirst()
        return "{\"streams\":\(self.streamCount),\"bytes\":\(self.rawByteCount),\"lines\":\(self.lineCount),"
            + "\"batches\":\(self.batchCount),\"wire_bytes\":\(self.wireByteCount),"
            + "\"skipped_bytes\":\(self.skippedByteCount),\"sealed\":\(self.sealedStreamCount),"
            + "\"held_bytes\":\(self.heldByteCount),\"lost_bytes\":\(self.lostByteCount),"
            + "\"unreadable_files\":\(self.unreadableFileCount),\"refused_files\":\(self.refusedFileCount),"
            + "\"quarantined_lines\":\(self.quarantinedLineCount),\"refused_events\":\(self.refusedEventCount),"
            + "\"seconds\":\(milliseconds / 1000).\(fraction)}"
    }
}

/// A run's current state.
package struct AgentStanding: Hashable, Sendable {
    package var summary = AgentSummary()
    package var isConnected = false
    /// Whether the receiver has acknowledged nothing for a minute of what is in flight.
    package var isStalled = false
    /// Whether the receiver says that it belongs to a fleet, and there is no reason to believe it.
    package var isFleetDoubted = false
    /// The number of followed files.
    package var streamCount = 0
    /// Bytes that were seen in files and are not acknowledged, including those in flight.
    package var pendingByteCount = 0
    package var inFlightByteCount = 0
    /// Files of which the receiver holds other bytes.
    package var disputedStreamCount = 0
    /// What is kept of what was shipped, and in the quarantine, as of the last look.
    package var kept = KeptFiles()
    /// How long the oldest whole line that is not acknowledged has waited, at most.
    package var oldestUnacked = Duration.zero
    /// How long ago every file that was written to within the last minutes was looked at.
    package var lookLag = Duration.zero
    /// The mounts that do not answer.
    package var hanging: [HangingWait] = []
    /// How far this machine's clock was ahead of the receiver's at the last connection; `nil` before the first.
    package var clockSkew: Duration?
    /// How many paths were refused since the start, by reason.
    package var refusals: [FileRefusal: Int] = [:]
    /// Foreign files that are shipped although they are probably no NDJSON, since the start.
    package var formats: [ForeignFormat: Int] = [:]
}

/// How a run ended.
package enum AgentOutcome: Hashable, Sendable {
    /// Everything present is durable.
    case drained(AgentSummary)
    /// Stopped with bytes that are not acknowledged; they are still on disk.
    case stopped(AgentSummary)
    /// No receiver could be reached, or none accepted this agent.
    case unreachable(String, AgentSummary)
    /// The state directory, the registry or a spool cannot be used.
    case failed(FileSystemError)
    /// The files for TLS cannot be used.
    case unsecurable(TLSSetupError)
    /// The address for metrics cannot be used.
    case unmeasurable(MetricsServer.Failure)
    /// The state has logs of an agent with another name.
    case misnamed(AgentNameChange)

    /// What the run did; `nil` for one that did nothing.
    package var summary: AgentSummary? {
        switch self {
        case .drained(let summary), .stopped(let summary), .unreachable(_, let summary): summary
        case .failed, .unsecurable, .unmeasurable, .misnamed: nil
        }
    }
}

extension AgentConfiguration {
    /// The token to show now; `nil` for none.
    package func presentToken(on files: some FileSystem) throws(TokenFile.Failure) -> Secret? {
        guard let tokenFile else { return self.token }
        return try TokenFile(path: tokenFile).read(on: files)
    }
}
