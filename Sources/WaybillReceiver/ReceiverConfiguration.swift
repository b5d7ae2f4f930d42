package import WaybillExport
package import WaybillProjection
package import WaybillProtocol
package import WaybillSystem
package import WaybillTLS

/// A receiver's configuration.
package struct ReceiverConfiguration: Sendable {
    package var dataDirectory: String
    package var host = "127.0.0.1"
    package var port = 4390
    /// The address that serves `GET /metrics`; `nil` for none.
    package var metrics: NetworkAddress?
    /// Its name in `READY`; agents that find another name ask for their streams' positions again.
    package var name = ProcessID.hostName
    /// The token that agents must send; `nil` admits every agent.
    package var token: Secret?
    /// The TLS settings for agents; `nil` without TLS.
    package var tls: TLSServerConfiguration?
    /// The time zone that defines the days of the archive's folders.
    package var archiveZone = TimeZoneRules.utc
    /// When the archive's days end, in seconds after midnight of the next day.
    package var archiveCutOffSecond = CutOff.usualSecondOfDay
    /// How long no day is sealed after a start or a clock jump.
    package var sealPatience = Duration.seconds(600)
    /// How long sealed days are kept.
    package var retention = RetentionPolicy()
    /// The exports to write, each with its own options.
    package var exports: [ExportOptions] = []
    package var limits = ProtocolLimits()
    /// Bytes of payloads, compressed and inflated, that may wait for the disk.
    package var admissionByteCount = 16 << 20
    /// Bytes of the descriptions of open streams.
    package var descriptionByteCount = 112 << 20
    /// What one account may take.
    package var quotas = AccountQuotas()
    /// What one account may create in the archive.
    package var partitionQuotas = PartitionQuotas()
    /// How long a stop waits for archive and exports to read what was received.
    package var stopPatience = Duration.seconds(3)
    /// Bytes of inflated batches kept for projections that keep up.
    package var feedByteCount = 8 << 20
    /// How long the journal is kept after every projection has passed it.
    package var journalRetention = Duration.seconds(24 * 3600)
    /// A projection makes its output durable after this many bytes.
    package var checkpointByteCount = 64 << 20
    /// A projection makes its output durable this long after the first byte that is not durable.
    package var checkpointInterval = Duration.seconds(5)
    package var connectionCountMax = 10_000
    /// By a key's path: the text in the file when it names environment variables, shown instead of the value.
    package var writtenTexts: [String: String] = [:]

    package init(dataDirectory: String) {
        self.dataDirectory = dataDirectory
    }
}

/// A configuration key whose value a reload found changed.
package struct ConfigurationChange: Hashable, Sendable, CustomStringConvertible {
    package let key: String
    package let old: String
    package let new: String
    /// Whether the new value needs a restart.
    package let needsRestart: Bool

    package init(key: String, old: String, new: String, needsRestart: Bool) {
        self.key = key
        self.old = old
        self.new = new
        self.needsRestart = needsRestart
    }

    package var description: String { "\(self.key): \(self.old) -> \(self.new)" }
}
