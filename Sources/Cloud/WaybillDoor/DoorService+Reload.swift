package import WaybillIngest
internal import WaybillHost
package import WaybillSystem

/// What changes while the door is open.
extension DoorService {
    /// Applies what can change while the door is open; all or nothing.
    ///
    /// No connection ends: requests whose head comes from now on are judged by it, and new connections get the certificate.
    ///
    /// - Parameter changes: compares the new configuration with the one at the start and the one applied last.
    package func reload(
        _ configuration: DoorConfiguration,
        changes: (_ started: DoorConfiguration, _ taken: DoorConfiguration) -> [ConfigurationChange]
    ) {
        let taken = self.taken.withLock { $0 }
        let new = self.configuration.taking(configuration)
        var changed = changes(self.configuration, taken)
        if configuration.status.tokenFile == taken.status.tokenFile, configuration.status.token != taken.status.token {
            changed.append(
                ConfigurationChange(
                    key: "ingest.status_token_file (token)", old: "former", new: "another one", needsRestart: false))
        }
        do throws(TLSSetupError) {
            try self.renew(new, &changed)
        } catch {
            return self.telemetry.reloadRefused([error.description])
        }
        self.statusToken.current = new.status.token
        self.taken.withLock { $0 = new }
        self.door.use(new)
        self.telemetry.reloaded(changed)
        self.telemetry.limited(self.door.settings)
    }

    /// Counts a configuration that could not be read, and logs why.
    package func refuseReload(_ problems: [String]) {
        self.telemetry.reloadRefused(problems)
    }

    static func server(_ configuration: DoorConfiguration) throws(TLSSetupError) -> TLSServer? {
        guard let certificate = configuration.certificate, let key = configuration.privateKey else { return nil }
        // Senders have no certificates, and so no authorities.
        return try TLSServer(
            TLSServerConfiguration(identity: CertificateFiles(chain: certificate, key: key), of: .door),
            isSigned: { _, _ in false })
    }

    /// Takes another certificate, which new connections get, and adds a change.
    private func renew(
        _ configuration: DoorConfiguration, _ changes: inout [ConfigurationChange]
    ) throws(TLSSetupError) {
        guard let server = try Self.server(configuration), let old = self.tls.withLock({ $0 }) else { return }
        guard !server.hasCertificate(of: old) else { return self.tls.withLock { $0 = server } }
        let (now, path) = (POSIXClock().wallTime(), configuration.certificate ?? "")
        guard server.start <= now else {
            throw TLSSetupError(
                "TLS: the new certificate in \(path) is not valid before \(server.start.text); set this host's clock, or "
                    + "renew it")
        }
        guard server.expiry > now else {
            throw TLSSetupError("TLS: the new certificate in \(path) expired at \(server.expiry.text); renew it")
        }
        changes.append(
            ConfigurationChange(
                key: "ingest.tls (certificate)", old: "valid until \(old.expiry.text)",
                new: "valid until \(server.expiry.text)", needsRestart: false))
        self.tls.withLock { $0 = server }
        self.telemetry.certificateUsed(until: server.expiry)
    }

    /// Watches the files of the certificate: what renews it need not tell the door.
    func watchCertificate(until isStopping: Monitor<Bool>) {
        let (clock, files) = (POSIXClock(), POSIXFileSystem())
        var stamps = self.certificateStamps(on: files)
        while isStopping.wait(until: clock.monotonicTime() + .seconds(2), { $0 ? true : nil }) == nil {
            let found = self.certificateStamps(on: files)
            guard found != stamps else { continue }
            stamps = found
            var changes: [ConfigurationChange] = []
            do throws(TLSSetupError) {
                try self.renew(self.taken.withLock { $0 }, &changes)
                if !changes.isEmpty { self.telemetry.certificateRenewed(changes) }
            } catch {
                self.telemetry.reloadRefused([error.description])
            }
        }
    }

    private func certificateStamps(on files: POSIXFileSystem) -> [FileStamp] {
        let configuration = self.taken.withLock { $0 }
        return [configuration.certificate, configuration.privateKey].compactMap(\.self).map { FileStamp($0, on: files) }
    }
}
