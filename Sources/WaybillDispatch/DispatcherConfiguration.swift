internal import WaybillAgent
internal import WaybillSystem
internal import WaybillTLS
internal import WaybillTail

@available(watchOS, unavailable, message: "watchOS gives apps no sockets; hand the events to the app on the iPhone")
extension Dispatcher {
    /// When a dispatcher goes to work by itself.
    public enum Mode: Hashable, Sendable {
        /// Once in an interval, from its start on; an interval of 0 or less is ``manual``.
        case every(Duration)
        /// When it is told to.
        case manual

        var interval: Duration? {
            switch self {
            case .every(let interval): interval > .zero ? interval : nil
            case .manual: nil
            }
        }
    }

    /// Whether receivers are spoken to by TLS.
    ///
    /// The receiver's certificate and name are always verified.
    public struct Security: Hashable, Sendable {
        enum Kind: Hashable {
            case plain
            case systemAuthorities
            case authorities(String)
        }

        let kind: Kind

        /// Not: for a receiver on the same machine, or behind a tunnel.
        public static let plain = Security(kind: .plain)
        /// With a certificate that the system trusts.
        public static let tls = Security(kind: .systemAuthorities)

        /// With a certificate of the authorities in a PEM file, and of no others.
        public static func tls(authorities file: String) -> Security {
            Security(kind: .authorities(file))
        }
    }

    /// What a dispatcher is told.
    public struct Configuration: Sendable {
        /// The spool that the app's `WaybillClient` writes.
        public var spool: String
        /// `HOST:PORT` of each receiver; tried in turn.
        public var receivers: [String]
        /// When it goes to work by itself.
        public var mode: Mode
        /// Whether receivers are spoken to by TLS.
        public var security: Security
        /// What the receiver knows the app by; it never prints.
        private let token: Secret?
        private let isTokenEmpty: Bool
        /// How long a round looks for a receiver; one that has nothing to send looks for none.
        public var patience = Duration.seconds(30)
        /// Told of each round that the dispatcher began by itself.
        public var finished: (@Sendable (DispatchResult) -> Void)?

        /// Every two minutes by TLS, unless said otherwise.
        public init(
            spool: String, receivers: [String], mode: Mode = .every(.seconds(120)), security: Security = .tls,
            token: String? = nil
        ) {
            self.spool = spool
            self.receivers = receivers
            self.mode = mode
            self.security = security
            self.token = token.flatMap(Secret.init)
            self.isTokenEmpty = token?.isEmpty == true
        }

        /// What a round is run with.
        func agent() throws(DispatchFailure) -> AgentConfiguration {
            guard !self.spool.isEmpty else { throw Self.wrong("`spool` is empty; name the app's spool") }
            guard !self.isTokenEmpty else { throw Self.wrong("`token` is empty; leave it out, or name the receiver's") }
            guard !self.receivers.isEmpty else { throw Self.wrong("`receivers` is empty; name one, as in host:4390") }
            var addresses: [NetworkAddress] = []
            for receiver in self.receivers {
                guard let address = NetworkAddress(receiver) else {
                    throw Self.wrong("\(receiver) is no receiver; name a host and a port, as in host:4390")
                }
                addresses.append(address)
            }
            // A spool's streams are named by their writers; the name tells apps from agents in a receiver's log.
            guard let name = AgentName("app") else { preconditionFailure("app is a name") }
            var agent = AgentConfiguration(
                name: name, stateDirectory: Path.join(self.spool, "dispatch"), receivers: addresses,
                sources: [
                    AgentSource(
                        files: .spool(directory: GlobPattern.quoted(self.spool)), environment: "prod", bundle: "app")
                ])
            agent.token = self.token
            agent.countsLines = true
            agent.drainPatience = .zero
            switch self.security.kind {
            case .plain: break
            case .systemAuthorities: agent.tls = TLSClientConfiguration(audience: .app)
            case .authorities(let file): agent.tls = TLSClientConfiguration(authorities: file, audience: .app)
            }
            return agent
        }

        private static func wrong(_ message: String) -> DispatchFailure {
            DispatchFailure(code: .configuration, message: message)
        }
    }
}
