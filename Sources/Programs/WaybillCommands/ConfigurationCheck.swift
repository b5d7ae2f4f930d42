import WaybillAgent
import WaybillIngest
import WaybillHost
import WaybillMerger
import WaybillReceiver
import WaybillSystem
import WaybillTail

/// What `waybill check` finds in a readable file: problems at startup, and problems that would appear later.
struct ConfigurationCheck {
    private typealias Problem = ConfigurationFile.Problem

    private let file: ConfigurationFile
    private(set) var problems: [ConfigurationFile.Problem] = []
    /// The fleets that the receivers in `to:` name, in the order in which they were found.
    private(set) var fleets: [String] = []

    /// - Parameter probes: whether directories, addresses and receivers are tested.
    init(_ file: ConfigurationFile, probes: Bool) {
        self.file = file
        self.checkCertificates()
        self.checkTokens()
        self.checkAddresses()
        self.checkDoor()
        self.checkPatterns()
        if let receiver = self.file.receiver, let merger = self.file.merger,
            receiver.dataDirectory == merger.dataDirectory
        {
            self.add("merger.data", "is the receiver's as well; give the merger a directory of its own")
        }
        if let insecurity = self.file.receiver?.insecurity { self.add("receiver.listen", insecurity) }
        if probes, !self.problems.contains(where: { $0.severity == .error }) { self.probe() }
    }

    private mutating func add(_ key: String, _ text: String, severity: Problem.Severity = .error) {
        self.problems.append(Problem(severity: severity, line: self.file.line(of: key), key: key, text: text))
    }

    // MARK: Certificates

    private mutating func checkCertificates() {
        if let tls = self.file.receiver?.tls {
            self.checkCertificate("receiver.tls") { () throws(TLSSetupError) in
                try tls.validity(isSigned: RevocationSignature.isValid)
            }
        }
        if let tls = self.file.agent?.tls {
            self.checkCertificate("agent.tls") { () throws(TLSSetupError) in try tls.validity() }
        }
        if let certificate = self.file.ingest?.certificate, let key = self.file.ingest?.privateKey {
            let tls = TLSServerConfiguration(identity: CertificateFiles(chain: certificate, key: key), of: .door)
            self.checkCertificate("ingest.tls") { () throws(TLSSetupError) in
                try tls.validity(isSigned: RevocationSignature.isValid)
            }
        }
    }

    /// Agents and receivers refuse a certificate outside its validity period; its last two weeks are a warning.
    private mutating func checkCertificate(
        _ key: String, _ validity: () throws(TLSSetupError) -> ClosedRange<WallTime>?
    ) {
        do throws(TLSSetupError) {
            guard let validity = try validity() else { return }
            let now = POSIXClock().wallTime()
            let key = "\(key).certificate"
            if now < validity.lowerBound {
                self.add(key, "is not valid before \(validity.lowerBound.text); set this host's clock, or renew it")
            } else if now > validity.upperBound {
                self.add(key, "expired at \(validity.upperBound.text); renew it")
            } else if validity.upperBound.milliseconds - now.milliseconds < 14 * 86_400_000 {
                self.add(key, "expires at \(validity.upperBound.text); renew it", severity: .warning)
            }
        } catch {
            self.add(key, error.description)
        }
    }

    // MARK: Tokens

    /// A program does not start without the token of its status; an agent does, and says at each connection why not.
    private mutating func checkTokens() {
        for (key, path, severity) in [
            ("receiver.status_token_file", self.file.receiver?.status.tokenFile, Problem.Severity.error),
            ("merger.status_token_file", self.file.merger?.status.tokenFile, .error),
            ("agent.status_token_file", self.file.agent?.status.tokenFile, .error),
            ("agent.token_file", self.file.agent?.tokenFile, .warning),
            ("ingest.status_token_file", self.file.ingest?.status.tokenFile, .error),
        ] {
            guard let path else { continue }
            do throws(TokenFile.Failure) {
                _ = try TokenFile(path: path).read(on: POSIXFileSystem())
            } catch {
                self.add(key, "\(error)", severity: severity)
            }
        }
    }

    // MARK: The door

    private mutating func checkDoor() {
        guard let ingest = self.file.ingest else { return }
        let host = ingest.listen.host
        let isLoopback = host == "localhost" || host == "::1" || host.hasPrefix("127.")
        if ingest.certificate == nil, ingest.trustedProxies.isEmpty, !isLoopback {
            self.add(
                "ingest.listen",
                "\(ingest.listen) is reached from other machines without TLS; set tls:, or name the proxy in front of it in "
                    + "trusted_proxies", severity: .warning)
        }
    }

    // MARK: Patterns

    private mutating func checkPatterns() {
        for (index, source) in (self.file.agent?.sources ?? []).enumerated() {
            guard case .files(let patterns) = source.files else { continue }
            for doubt in FilePatterns(patterns, without: source.excludes).doubts {
                let key = "agent.sources[\(index)].\(doubt.isExclusion ? "exclude" : "files")"
                self.add(key, "\(doubt.pattern) \(doubt.text)", severity: .warning)
            }
        }
    }

    // MARK: Addresses

    /// The addresses to listen on.
    private var listening: [(key: String, address: NetworkAddress)] {
        let places: [(String, NetworkAddress?)] = [
            ("receiver.listen", self.file.receiver?.listen),
            ("receiver.proxied.listen", self.file.receiver?.proxied.address),
            ("receiver.metrics", self.file.receiver?.status.metrics),
            ("merger.metrics", self.file.merger?.status.metrics),
            ("agent.metrics", self.file.agent?.status.metrics), ("deliver.metrics", self.file.deliver?.status.metrics),
            ("ingest.listen", self.file.ingest?.listen), ("ingest.metrics", self.file.ingest?.status.metrics),
        ]
        return places.compactMap { key, address in address.map { (key, $0) } }
    }

    private mutating func checkAddresses() {
        let listening = self.listening
        for (index, (key, address)) in listening.enumerated() {
            guard let (other, _) = listening[..<index].first(where: { Self.meet($0.address, address) }) else {
                continue
            }
            self.add(key, "\(address) is also the address of \(other); choose another port")
        }
        var receivers: Set<NetworkAddress> = []
        for address in self.file.agent?.receivers ?? [] where !receivers.insert(address).inserted {
            self.add("agent.to", "\(address) appears twice; remove one", severity: .warning)
        }
    }

    /// Whether listening on one address prevents listening on the other.
    private static func meet(_ a: NetworkAddress, _ b: NetworkAddress) -> Bool {
        let wildcards = ["0.0.0.0", "::"]
        return a.port == b.port && a.port != 0
            && (a.host == b.host || wildcards.contains(a.host) || wildcards.contains(b.host))
    }

    // MARK: Probing

    private mutating func probe() {
        if let receiver = self.file.receiver { self.probe("receiver.data", receiver.dataDirectory) }
        if let merger = self.file.merger { self.probe("merger.data", merger.dataDirectory) }
        if let agent = self.file.agent { self.probe("agent.state", agent.stateDirectory) }
        if let ingest = self.file.ingest {
            self.probe("ingest.spool", ingest.spool)
            self.probe("ingest.quarantine", ingest.quarantine)
            if let group = ingest.group, UserGroup(named: group) == nil {
                self.add("ingest.group", "\(group) is not a group of this machine; run groupadd \(group)")
            }
        }
        for (index, source) in (self.file.agent?.sources ?? []).enumerated() {
            guard let group = source.group, UserGroup(named: group) == nil else { continue }
            self.add("agent.sources[\(index)].group", "\(group) is not a group of this machine; run groupadd \(group)")
        }
        for (key, address) in self.listening {
            // A door locks nothing: one that runs is in the way of its own address.
            let role: String? =
                switch key.prefix(while: { $0 != "." }) {
                case "receiver": self.file.receiver?.dataDirectory
                case "merger": self.file.merger?.dataDirectory
                case "ingest": nil
                default: self.file.agent?.stateDirectory
                }
            if let directory = role, Self.isInUse(directory) {
                self.add(key, "is not tested: a running process uses \(directory)", severity: .warning)
                continue
            }
            do throws(ConfigurationProbe.Failure) {
                try ConfigurationProbe.bind(address)
            } catch {
                self.add(key, "cannot listen on \(address): \(error); stop what uses it, or choose another address")
            }
        }
        self.probeLine()
        guard var agent = self.file.agent else { return }
        agent.token = OptionReader.token
        for address in agent.receivers {
            do throws(ConfigurationProbe.Failure) {
                self.greeted(address, try ConfigurationProbe.greet(address, for: agent), by: agent)
            } catch {
                self.add("agent.to", "\(address): \(error)")
            }
        }
    }

    private mutating func greeted(
        _ address: NetworkAddress, _ greeting: ConfigurationProbe.Greeting, by agent: AgentConfiguration
    ) {
        if let expected = agent.fleet, expected != greeting.fleet {
            let found = greeting.fleet.map { "the fleet \($0)" } ?? "no fleet"
            self.add("agent.fleet", "\(address) belongs to \(found); correct one of the two", severity: .warning)
        }
        guard let fleet = greeting.fleet else { return }
        if !self.fleets.contains(fleet) { self.fleets.append(fleet) }
        if !greeting.isBelieved {
            self.add(
                "agent.to",
                "\(address): nothing shows that it belongs to the fleet that it names; use TLS, or add fleet: \(fleet) if "
                    + "waybill store list shows this id", severity: .warning)
        }
    }

    /// Connects to the receiver of tunnels, and leaves as a proxy does that checks it.
    private mutating func probeLine() {
        guard let place = self.file.ingest?.line.receiver else { return }
        do throws(ConfigurationProbe.Failure) {
            try ConfigurationProbe.reach(place)
        } catch {
            self.add("ingest.line.receiver", "\(place): \(error)")
        }
    }

    /// Says it where a folder lies on a mount that does not answer.
    private static let files = GuardedFiles(POSIXFileSystem(), RemoteMounts())

    /// Whether a running receiver or agent, which already listens on the addresses, has locked its directory.
    private static func isInUse(_ directory: String) -> Bool {
        return ["lock", "state/lock"].contains { name in
            do throws(FileSystemError) {
                let file = try Self.files.open(Path.join(directory, name), .read)
                defer { Self.files.close(file) }
                return try !Self.files.lock(file, .shared)
            } catch {
                // If the lock cannot be read, no process of this user is running there.
                return false
            }
        }
    }

    /// Writes a file into a directory, then removes it and the folders that it created.
    private mutating func probe(_ key: String, _ directory: String) {
        let path = Path.join(directory, ".waybill-check-\(ProcessID.current)")
        var missing: [String] = []
        do throws(FileSystemError) {
            var folder = directory
            while try Self.files.status(at: folder) == nil {
                missing.append(folder)
                folder = Path.parent(of: folder)
            }
            try Self.files.createDirectories(directory)
            try Self.files.replace(path, with: Array("waybill check --probe\n".utf8))
        } catch {
            self.add(key, "cannot be written: \(error)")
        }
        for left in [path, path + ".tmp"] { Self.remove { () throws(FileSystemError) in try Self.files.unlink(left) } }
        for folder in missing { Self.remove { () throws(FileSystemError) in try Self.files.removeDirectory(folder) } }
    }

    /// Removes what a probe made; what does not exist, or is not empty, stays as it is.
    private static func remove(_ body: () throws(FileSystemError) -> Void) {
        do throws(FileSystemError) { try body() } catch {}
    }
}
