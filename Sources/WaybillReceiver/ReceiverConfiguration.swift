package import WaybillExport
package import WaybillProjection
package import WaybillProtocol
package import WaybillSystem
package import WaybillTLS

/// What a receiver is told.
package struct ReceiverConfiguration: Sendable {
    package var dataDirectory: String
    package var host = "127.0.0.1"
    package var port = 4390
    /// Where `GET /metrics` is answered; `nil`: nowhere.
    package var metrics: NetworkAddress?
    /// Its name in `READY`.
    package var name = "waybill"
    /// What agents must show; `nil` lets every agent in.
    package var token: Secret?
    /// How agents are spoken to by TLS; `nil`: they are not.
    package var tls: TLSServerConfiguration?
    /// The zone whose days the archive's folders are.
    package var archiveZone = TimeZoneRules.utc
    /// When its days are over, in seconds after midnight of the next day.
    package var archiveCutOffSecond = CutOff.usualSecondOfDay
    /// How long after a start or a jump of the clock no day is sealed.
    package var sealPatience = Duration.seconds(600)
    /// How long sealed days are kept.
    package var retention = RetentionPolicy()
    /// The exports to write, each with its own options.
    package var exports: [ExportOptions] = []
    package var limits = ProtocolLimits()
    /// Bytes of payloads, compressed and inflated, that may wait for the disk.
    package var admissionByteCount = 16 << 20
    /// Bytes of inflated batches kept for projections that keep up.
    package var feedByteCount = 8 << 20
    /// How long the journal stays after every projection is past it.
    package var journalRetention = Duration.seconds(24 * 3600)
    /// A projection makes its output durable after so many bytes.
    package var checkpointByteCount = 64 << 20
    /// A projection makes its output durable so long after the first byte that is not.
    package var checkpointInterval = Duration.seconds(5)
    package var connectionCountMax = 10_000

    package init(dataDirectory: String) {
        self.dataDirectory = dataDirectory
    }

    /// What differs in `other` and holds only from the next start on, as keys of the configuration file.
    func keysThatNeedRestart(for other: ReceiverConfiguration) -> [String] {
        var keys: [String] = []
        if self.dataDirectory != other.dataDirectory { keys.append("data") }
        if self.host != other.host || self.port != other.port { keys.append("listen") }
        if self.tls != other.tls { keys.append("tls") }
        if self.metrics != other.metrics { keys.append("metrics") }
        if self.name != other.name { keys.append("name") }
        if self.archiveZone.name != other.archiveZone.name { keys.append("archive.zone") }
        if self.admissionByteCount != other.admissionByteCount { keys.append("memory.admission_mib") }
        if self.feedByteCount != other.feedByteCount { keys.append("memory.feed_mib") }
        if self.journalRetention != other.journalRetention { keys.append("journal.retention_hours") }
        if self.connectionCountMax != other.connectionCountMax { keys.append("connections") }
        let own = Set(self.exports.map(\.provider.rawValue))
        let others = Set(other.exports.map(\.provider.rawValue))
        keys += others.subtracting(own).sorted().map { "exports (\($0) is new)" }
        keys += own.subtracting(others).sorted().map { "exports (\($0) is gone)" }
        return keys
    }
}
