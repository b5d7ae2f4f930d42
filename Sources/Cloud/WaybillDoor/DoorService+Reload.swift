package import WaybillIngest
package import WaybillHost
internal import WaybillSystem

/// What changes while the door is open.
extension DoorService: ReloadableService {
    /// Applies what can change while the door is open; all or nothing.
    ///
    /// No connection ends: requests whose head comes from now on are judged by it, and new connections get the certificate.
    package func apply(_ new: DoorConfiguration, _ changes: inout [ConfigurationChange]) throws {
        changes += self.reloader.taken.status.tokenChanges(to: new.status, in: "ingest")
        try self.renew(new, &changes)
        self.door.use(new)
    }

    package func reloaded() {
        self.telemetry.limited(self.door.settings)
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
        guard let server = try Self.server(configuration), let former = self.tls.withLock({ $0 }) else { return }
        let change = try server.change(from: former, chain: configuration.certificate ?? "", in: "ingest")
        self.tls.withLock { $0 = server }
        guard let change else { return }
        changes.append(change)
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
                try self.renew(self.reloader.taken, &changes)
                if !changes.isEmpty { self.telemetry.certificateRenewed(changes) }
            } catch {
                self.refuseReload(error)
            }
        }
    }

    private func certificateStamps(on files: POSIXFileSystem) -> [FileStamp] {
        let configuration = self.reloader.taken
        return [configuration.certificate, configuration.privateKey].compactMap(\.self).map { FileStamp($0, on: files) }
    }
}
