internal import WaybillAgent
internal import WaybillSystem
internal import WaybillHost
internal import WaybillTail

@available(watchOS, unavailable, message: "watchOS gives apps no sockets; hand the events to the app on the iPhone")
extension Dispatcher {
    /// When a dispatcher starts rounds automatically.
    public enum Mode: Hashable, Sendable {
        /// Dispatches at the start and then once per interval; an interval of 0 or less means ``manual``.
        case every(Duration)
        /// Dispatches only when asked.
        case manual

        var interval: Duration? {
            switch self {
            case .every(let interval): interval > .zero ? interval : nil
            case .manual: nil
            }
        }
    }

    /// Whether connections to receivers use TLS.
    ///
    /// With TLS, the receiver's certificate and name are always verified, or the certificate is a pinned one.
    public struct Security: Hashable, Sendable {
        enum Kind: Hashable {
            case plain
            case systemAuthorities
            case authorities(String)
            case pinned([String])
        }

        let kind: Kind

        /// No TLS: for a receiver on the same machine, or at the end of a tunnel.
        public static let plain = Security(kind: .plain)
        /// TLS with a certificate that the system trusts.
        public static let tls = Security(kind: .systemAuthorities)

        /// TLS with a certificate issued by the authorities in a PEM file, and by no others.
        public static func tls(authorities file: String) -> Security {
            Security(kind: .authorities(file))
        }

        /// TLS with exactly these certificates: for a receiver that made its own.
        ///
        /// A fingerprint is the SHA-256 of the certificate in DER: 64 hexadecimal digits, with or without colons, as
        /// `openssl x509 -in receiver.pem -noout -fingerprint -sha256` prints them. It names the certificate itself, so
        /// who issued it, for which name and for how long is not verified: an expired certificate that is pinned is
        /// accepted. A renewed certificate has another fingerprint; name the next one as well before it changes.
        public static func pinned(sha256 fingerprint: String, _ others: String...) -> Security {
            Security(kind: .pinned([fingerprint] + others))
        }
    }

    /// Whether a door can stand with authorities of an app's own: on Apple's systems the system's authorities decide.
    static var doorsTakeAuthorities: Bool {
        #if canImport(Network)
            false
        #else
            true
        #endif
    }

    /// The configuration of a dispatcher.
    public struct Configuration: Sendable {
        /// The path of the spool that the app's `WaybillClient` writes.
        public var spool: String
        /// The `HOST:PORT` of each receiver, or the `https://HOST/` of the door before one; they are tried in turn.
        public var receivers: [String]
        /// When it goes to work by itself.
        public var mode: Mode
        /// Whether connections to receivers use TLS.
        public var security: Security
        /// The secret that the receiver requires; it is never printed.
        private let token: Secret?
        private let isTokenEmpty: Bool
        /// How long a round tries to reach a receiver; 30 seconds by default.
        ///
        /// A round without events to send does not connect.
        public var patience = Duration.seconds(30)
        /// Called with the result of each automatic round.
        public var finished: (@Sendable (DispatchResult) -> Void)?

        /// Creates a configuration; by default it dispatches every two minutes over TLS.
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

        /// Creates a configuration for the receiver of `waybill live --dev`, for development and tests.
        ///
        ///     let configuration = try Dispatcher.Configuration(
        ///         spool: spool, address: "waybill://192.168.0.12:4390#TOKEN,SHA256")
        ///
        /// The address has the receiver's host and port, the token, and the SHA-256 of its certificate, which is then
        /// the only one that is accepted. Everything in it is for one test set-up: keep it out of what you ship. By
        /// default it dispatches every five seconds, so that events show soon.
        ///
        /// - Parameter address: the whole line that the command prints.
        /// - Throws: ``DispatchFailure`` with code "configuration" if it is not such an address.
        public init(spool: String, address: String, mode: Mode = .every(.seconds(5))) throws(DispatchFailure) {
            let receiver: ReceiverAddress
            do throws(ReceiverAddress.Failure) {
                receiver = try ReceiverAddress(address)
            } catch {
                throw Self.wrong(error.description)
            }
            self.init(
                spool: spool, receivers: ["\(receiver.address)"], mode: mode,
                security: .pinned(sha256: receiver.pin.digits), token: receiver.token.revealed)
        }

        /// The agent's configuration for a round.
        func agent() throws(DispatchFailure) -> AgentConfiguration {
            guard !self.spool.isEmpty else { throw Self.wrong("`spool` is empty; name the app's spool") }
            guard !self.isTokenEmpty else { throw Self.wrong("`token` is empty; leave it out, or set the receiver's") }
            guard !self.receivers.isEmpty else { throw Self.wrong("`receivers` is empty; name one, as in host:4390") }
            var addresses: [NetworkAddress] = []
            var doors = AgentDoors()
            for receiver in self.receivers {
                if DoorAddress.isDoor(receiver) {
                    do throws(DoorAddress.Failure) {
                        let door = try DoorAddress(receiver)
                        doors.addresses[door.address] = door
                        doors.tls = try self.security.tlsOfDoors()
                        addresses.append(door.address)
                    } catch {
                        throw Self.wrong("\(receiver) \(error.text)")
                    }
                    continue
                }
                guard let address = NetworkAddress(receiver) else {
                    throw Self.wrong(
                        "\(receiver) is not a receiver; name a host and a port, as in host:4390, or https://host/")
                }
                addresses.append(address)
            }
            // Until the first round has read the install's key, which gives it another name.
            guard let name = AgentName("app") else { preconditionFailure("app is a name") }
            var agent = AgentConfiguration(
                name: name, stateDirectory: Path.join(self.spool, "dispatch"), receivers: addresses,
                sources: [
                    AgentSource(
                        files: .spool(directory: GlobPattern.quoted(self.spool)), environment: "prod", bundle: "app")
                ])
            #if canImport(Network)
                doors.open = URLSessionTunnel.open
            #endif
            agent.doors = doors
            agent.token = self.token
            agent.naming.usesDeviceKey = true
            agent.reshipRule = .after(Dispatcher.disputePatience)
            agent.run.countsLines = true
            agent.drainPatience = .zero
            switch self.security.kind {
            case .plain: break
            case .systemAuthorities: agent.tls = TLSClientConfiguration(audience: .app)
            case .authorities(let file): agent.tls = TLSClientConfiguration(authorities: file, audience: .app)
            case .pinned(let fingerprints):
                agent.tls = TLSClientConfiguration(pins: try Self.pins(fingerprints), audience: .app)
            }
            return agent
        }

        private static func pins(_ fingerprints: [String]) throws(DispatchFailure) -> [CertificatePin] {
            var pins: [CertificatePin] = []
            for fingerprint in fingerprints {
                guard let pin = CertificatePin(fingerprint) else {
                    throw Self.wrong("\(fingerprint) is not a fingerprint; name \(CertificatePin.rule)")
                }
                pins.append(pin)
            }
            return pins
        }

        private static func wrong(_ message: String) -> DispatchFailure {
            DispatchFailure(code: .configuration, message: message)
        }
    }
}

extension Dispatcher.Security {
    /// The TLS of doors whose address begins with `https:`.
    fileprivate func tlsOfDoors() throws(DoorAddress.Failure) -> TLSClientConfiguration {
        switch self.kind {
        case .plain, .systemAuthorities: return TLSClientConfiguration(audience: .app)
        case .authorities(let file):
            guard Dispatcher.doorsTakeAuthorities else {
                throw DoorAddress.Failure(
                    text: "cannot stand with authorities of its own here; the system's are asked")
            }
            return TLSClientConfiguration(authorities: file, audience: .app)
        case .pinned:
            throw DoorAddress.Failure(
                text: "cannot stand with pinned certificates; use `.tls`, or HOST:PORT of a receiver")
        }
    }
}
