/// Mistakes that collectors have made, planted where the shipped code meets the disk: a simulation is worth something
/// only as long as it catches them.
package enum PlantedBug: String, CaseIterable, Hashable, Sendable {
    /// The journal answers before its bytes are durable.
    case skipJournalSync
    /// A new or renamed file's name is never made durable.
    case skipDirectorySync
    /// A checkpoint is durable before the files that it speaks of.
    case checkpointBeforeData
    /// A failed sync is taken for a good one.
    case trustFailedSync
    /// A failed write is taken for a good one.
    case trustFailedWrites
    /// A write that stored a part only is taken for a whole one.
    case trustShortWrites
    /// What lies behind a checkpoint is not cut off.
    case keepTails
}
