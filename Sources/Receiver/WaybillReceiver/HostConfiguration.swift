package import WaybillData
package import WaybillExport
package import WaybillProjection
package import WaybillSystem

/// What a host of archive and exports is told: where its data is, what is written there, and for how long it is kept.
package struct HostConfiguration: Sendable {
    package var dataDirectory: String
    /// Its name, for people and for the fleet; agents know a receiver by its incarnation.
    package var name = ProcessID.hostName
    package var status = StatusPlaces()
    /// The program and its version.
    package var software = "waybill"
    /// The date of the program: a clock that shows an earlier time is wrong.
    package var programDate = WallTime.unknown
    /// The version of the program, which lines that end it are recorded with.
    package var programVersion = ""
    /// The time zone that defines the days of the archive's folders.
    package var archiveZone = TimeZoneRules.utc
    /// When the archive's days end, in seconds after midnight of the next day.
    package var archiveCutOffSecond = CutOff.usualSecondOfDay
    /// What one account may create in the archive.
    package var partitionQuotas = PartitionQuotas()
    /// The exports to write, each with its own options.
    package var exports: [ExportOptions] = []
    /// How long no day is sealed after a start or a clock jump.
    package var sealPatience = Duration.seconds(600)
    /// How long what is in the data directory is kept.
    package var retention = RetentionPolicy()
    /// How long the journal is kept after every projection has passed it.
    package var journalRetention = Duration.seconds(24 * 3600)
    /// The most of the journal, and the longest time, that is kept for exports that have not read it.
    package var unreadJournal = UnreadJournalLimit()
    /// A projection makes its output durable after this many bytes.
    package var checkpointByteCount = 64 << 20
    /// A projection makes its output durable this long after the first byte that is not durable.
    package var checkpointInterval = Duration.seconds(5)
    /// Disk space that archive and exports leave to the journal; see ``DiskReserve``.
    package var reserveByteCount = 256 << 20
    /// By a key's path: the text in the file when it names environment variables, shown instead of the value.
    package var writtenTexts: [String: String] = [:]

    package init(dataDirectory: String) {
        self.dataDirectory = dataDirectory
    }
}
