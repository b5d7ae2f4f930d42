import ArgumentParser
import WaybillAgent
import WaybillReceiver
import WaybillSystem
import WaybillTLS

/// How a receiver speaks TLS.
struct ReceiverTLSOptions: ParsableArguments {
    @Option(help: "Speak TLS: the receiver's certificate and what leads to its authority (PEM); with --tls-key.")
    var tlsCertificate: String?

    @Option(help: "The private key of --tls-certificate (PEM, no passphrase).")
    var tlsKey: String?

    @Option(help: "Take only agents with a certificate of these authorities (PEM).")
    var tlsClientCa: String?

    /// Lets what is given win over the configuration file.
    func apply(to tls: inout TLSServerConfiguration?) throws {
        if let identity = try OptionReader.certificateFiles(self.tlsCertificate, self.tlsKey) {
            tls = TLSServerConfiguration(identity: identity, clientAuthorities: tls?.clientAuthorities)
        }
        if let tlsClientCa {
            guard tls != nil else {
                throw ValidationError("--tls-client-ca needs TLS: give --tls-certificate and --tls-key as well")
            }
            tls?.clientAuthorities = tlsClientCa
        }
    }
}

/// How an agent speaks TLS.
struct AgentTLSOptions: ParsableArguments {
    @Flag(help: "Speak TLS and trust the system's authorities; any other --tls option turns TLS on as well.")
    var tls = false

    @Option(help: "Trust these authorities and no others (PEM).")
    var tlsCa: String?

    @Option(help: "The agent's certificate, for receivers that ask for one (PEM); with --tls-key.")
    var tlsCertificate: String?

    @Option(help: "The private key of --tls-certificate (PEM, no passphrase).")
    var tlsKey: String?

    @Option(help: "The name that the receiver's certificate must have. (default: the host in --to)")
    var tlsServerName: String?

    /// Lets what is given win over the configuration file.
    func apply(to tls: inout TLSClientConfiguration?) throws {
        let identity = try OptionReader.certificateFiles(self.tlsCertificate, self.tlsKey)
        let isOn = self.tls || self.tlsCa != nil || identity != nil || self.tlsServerName != nil
        guard isOn else { return }
        var configuration = tls ?? TLSClientConfiguration()
        if let tlsCa { configuration.authorities = tlsCa }
        if let identity { configuration.identity = identity }
        if let tlsServerName {
            guard TLSClientConfiguration.isServerName(tlsServerName) else {
                throw ValidationError("--tls-server-name is a host's name, e.g. collect.example.com")
            }
            configuration.serverName = tlsServerName
        }
        tls = configuration
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

/// TLS in the configuration file.
///
///     receiver:                                                agent:
///       tls: {certificate: receiver.pem, key: receiver.key}      tls: on, or {ca: ca.pem, server_name: collect.example.com}
///
/// Paths of files are relative to the folder of the configuration file.
extension ConfigurationFile {
    static func receiverTLS(_ section: inout ConfigurationSection, directory: String) -> TLSServerConfiguration? {
        guard var tls = section.section("tls") else { return nil }
        let identity = Self.certificateFiles(&tls, directory: directory)
        let authorities = tls.text("client_ca").map { Self.path($0, in: directory) }
        if identity == nil, tls.problems.isEmpty {
            tls.complain("certificate", "is missing: certificate: FILE, key: FILE")
        }
        section.take(&tls)
        return identity.map { TLSServerConfiguration(identity: $0, clientAuthorities: authorities) }
    }

    static func agentTLS(_ section: inout ConfigurationSection, directory: String) -> TLSClientConfiguration? {
        if section.isScalar("tls") { return section.flag("tls") == true ? TLSClientConfiguration() : nil }
        guard var tls = section.section("tls") else { return nil }
        var configuration = TLSClientConfiguration()
        configuration.authorities = tls.text("ca").map { Self.path($0, in: directory) }
        configuration.identity = Self.certificateFiles(&tls, directory: directory)
        configuration.serverName = tls.text("server_name")
        if let name = configuration.serverName, !TLSClientConfiguration.isServerName(name) {
            tls.complain("server_name", "is a host's name, e.g. collect.example.com")
        }
        section.take(&tls)
        return configuration
    }

    /// Both or neither.
    private static func certificateFiles(
        _ section: inout ConfigurationSection, directory: String
    ) -> CertificateFiles? {
        switch (section.text("certificate"), section.text("key")) {
        case (let certificate?, let key?):
            return CertificateFiles(chain: Self.path(certificate, in: directory), key: Self.path(key, in: directory))
        case (_?, nil): section.complain("certificate", "needs its private key; add key: FILE")
        case (nil, _?): section.complain("key", "needs its certificate; add certificate: FILE")
        case (nil, nil): break
        }
        return nil
    }
}
