import ArgumentParser
import WaybillAgent
import WaybillReceiver
import WaybillSystem
import WaybillHost
import WaybillYAML

/// How a receiver uses TLS.
struct ReceiverTLSOptions: ParsableArguments {
    @Option(help: .key("receiver.tls.certificate"))
    var tlsCertificate: String?

    @Option(help: .key("receiver.tls.key"))
    var tlsKey: String?

    @Option(help: .key("receiver.tls.client_ca"))
    var tlsClientCa: String?

    /// Applies the given options, which take precedence over the configuration file.
    func apply(to tls: inout TLSServerConfiguration?) throws {
        if let identity = try OptionReader.certificateFiles(self.tlsCertificate, self.tlsKey) {
            tls = TLSServerConfiguration(
                identity: identity, clientAuthorities: tls?.clientAuthorities, revocations: tls?.revocations)
        }
        if let tlsClientCa {
            guard tls != nil else {
                throw ValidationError("--tls-client-ca needs TLS: give --tls-certificate and --tls-key as well")
            }
            tls?.clientAuthorities = tlsClientCa
        }
    }
}

/// How an agent uses TLS.
struct AgentTLSOptions: ParsableArguments {
    @Flag(help: .key("agent.tls", " Any other --tls option turns TLS on as well."))
    var tls = false

    @Option(help: .key("agent.tls.ca"))
    var tlsCa: String?

    @Option(help: .key("agent.tls.pinned"))
    var tlsPinned: [String] = []

    @Option(help: .key("agent.tls.certificate"))
    var tlsCertificate: String?

    @Option(help: .key("agent.tls.key"))
    var tlsKey: String?

    @Option(help: .key("agent.tls.server_name"))
    var tlsServerName: String?

    /// Applies the given options, which take precedence over the configuration file.
    func apply(to tls: inout TLSClientConfiguration?) throws {
        let identity = try OptionReader.certificateFiles(self.tlsCertificate, self.tlsKey)
        let isOn =
            self.tls || self.tlsCa != nil || !self.tlsPinned.isEmpty || identity != nil || self.tlsServerName != nil
        guard isOn else { return }
        var configuration = tls ?? TLSClientConfiguration()
        if let tlsCa { configuration.authorities = tlsCa }
        if !self.tlsPinned.isEmpty { configuration.pins = try self.tlsPinned.map(Self.pin) }
        guard configuration.authorities == nil || configuration.pins.isEmpty else {
            throw ValidationError("with --tls-pinned no authority is asked: leave out --tls-ca (or the key `ca`)")
        }
        if let identity { configuration.identity = identity }
        if let tlsServerName {
            guard TLSClientConfiguration.isServerName(tlsServerName) else {
                throw ValidationError("--tls-server-name must be a host name, e.g. collect.example.com")
            }
            configuration.serverName = tlsServerName
        }
        tls = configuration
    }

    private static func pin(_ text: String) throws -> CertificatePin {
        guard let pin = CertificatePin(text) else {
            throw ValidationError("--tls-pinned must be \(CertificatePin.rule)")
        }
        return pin
    }
}

extension ValueType<[CertificatePin]> {
    /// Pins of certificates.
    static var pins: ValueType {
        ValueType.list(of: "fingerprints", rule: CertificatePin.rule) {
            $0.description
        } read: {
            $0.string.flatMap(CertificatePin.init)
        }
    }
}

extension OptionReader {
    /// Both or neither.
    fileprivate static func certificateFiles(_ certificate: String?, _ key: String?) throws -> CertificateFiles? {
        switch (certificate, key) {
        case (let certificate?, let key?): return CertificateFiles(chain: certificate, key: key)
        case (nil, nil): return nil
        case (_?, nil): throw ValidationError("--tls-certificate needs its private key: give --tls-key FILE as well")
        case (nil, _?): throw ValidationError("--tls-key needs its certificate: give --tls-certificate FILE as well")
        }
    }
}
