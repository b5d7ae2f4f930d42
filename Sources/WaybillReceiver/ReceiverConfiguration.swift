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
    /// Its name in `READY`; agents that find another name ask again where their streams stand.
    package var name = ProcessID.hostName
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
    /// By the path of a key: what the file says where it names environment variables, to be shown in place of the value.
    package var writtenTexts: [String: String] = [:]

    package init(dataDirectory: String) {
        self.dataDirectory = dataDirectory
    }
}

/// A key of the configuration file that a reload found changed.
package struct ConfigurationChange: Hashable, Sendable, CustomStringConvertible {
    package let key: String
    package let old: String
    package let new: String
    /// Whether the new value has to wait for a restart.
    package let needsRestart: Bool

    package init(key: String, old: String, new: String, needsRestart: Bool) {
        self.key = key
        self.old = old
        self.new = new
        self.needsRestart = needsRestart
    }

    package var description: String { "\(self.key): \(self.old) -> \(self.new)" }
}
