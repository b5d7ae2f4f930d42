internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// Makes the archive's checkpoint again from its files, if it is lost or the journal no longer reaches back to it.
///
/// The `.sources` list the runs in each file. The position is that of the first batch that the files lack; what they have of
/// it and of later batches is cut and projected again, so no bytes of other runs are lost and nothing is projected twice.
struct LostCheckpoint<Files: FileSystem> {
    /// The checkpoint's new entries, and a description for logs.
    struct Rebuilt {
        var changes: [String: String?]
        let note: String
    }

    let data: DataDirectory<Files>
    /// Of the checkpoint as it was found.
    let entries: [String: String]
    /// Those in progress, by folder.
    let seals: [String: Seal]
    let journal: RoutedJournal<Files>

    /// Finds the checkpoint that fits the files and makes their bytes durable; `nil` if the one that was found is usable.
    func rebuilt() throws(FileSystemError) -> Rebuilt? {
        let coverage = JournalCoverage(directory: self.data.journal, files: self.data.files)
        let first = try coverage.first()
        let old = JournalPosition(Int(self.entries["position"] ?? "0") ?? 0)
        if self.entries["position"] != nil {
            guard let first, first > old else { return nil }
        } else if try coverage.isWhole(from: old) {
            // Never committed, or lost while the journal has everything: projecting it again restores all.
            return nil
        }
        let stems = try ArchivePair.openStems(in: self.data)
        guard !stems.isEmpty || first ?? old > old else { return nil }
        let lengths = FileSet<Files>.lengths(in: self.entries)
        let found = try RunsOnDisk(of: stems, in: self.data, lengths: lengths)
        let aside = try found.setAsideRest()
        let (position, cuts) = try self.firstUnarchived(found, from: first ?? old, upTo: try coverage.end())
        var changes: [String: String?] = ["position": String(position.rawValue)]
        for path in lengths.keys { changes.updateValue(nil, forKey: FileSet<Files>.keyPrefix + path) }
        for (stem, end) in found.ends.merging(cuts, uniquingKeysWith: { _, cut in cut }) {
            changes[FileSet<Files>.keyPrefix + stem + ".ndjson"] = String(end.lines)
            changes[FileSet<Files>.keyPrefix + stem + ".sources"] = String(end.sources)
        }
        try self.secure(stems, lengths)
        let why =
            old == JournalPosition(0)
            ? "the archive's checkpoint was lost" : "the journal no longer reaches back to the checkpoint at \(old)"
        return Rebuilt(
            changes: changes,
            note: "\(why); it was rebuilt at \(position) from the .sources of \(stems.count) files"
                + aside.map { ", set aside \($0)" }.joined())
    }

    /// The first batch of the journal that is not completely in the files, or the end of the last batch, and where to cut
    /// the files before it.
    ///
    /// What follows the last batch may not be durable: a journal that lost it would end before the checkpoint.
    private func firstUnarchived(
        _ found: RunsOnDisk<Files>, from first: JournalPosition, upTo end: JournalPosition
    ) throws(FileSystemError) -> (position: JournalPosition, cuts: [String: RunsOnDisk<Files>.Place]) {
        var reader = try self.journal.reader(from: first)
        var sealedBefore: [String: JournalPosition] = [:]
        var position: JournalPosition?
        var cuts: [String: RunsOnDisk<Files>.Place] = [:]
        var batchEnd = first
        while let batch = try reader.next(upTo: end) {
            batchEnd = reader.position
            if position == nil {
                try reader.visitRoutes(of: batch) { (route) throws(FileSystemError) in
                    guard position == nil, try !self.isSealed(route, batch, &sealedBefore) else { return }
                    if try !found.has(route, of: batch) { position = batch.position }
                }
            }
            guard position != nil else { continue }
            for run in found.runs(of: batch) where run.start.sources < cuts[run.stem]?.sources ?? .max {
                cuts[run.stem] = run.start
            }
        }
        return (position ?? batchEnd, cuts)
    }

    /// Whether a batch's lines for a day are in the day's sealed files.
    private func isSealed(
        _ route: ArchiveRouter.Route, _ batch: ProjectedBatch, _ sealedBefore: inout [String: JournalPosition]
    ) throws(FileSystemError) -> Bool {
        guard route.isDay else { return false }
        if let known = sealedBefore[route.place] { return batch.position < known }
        let standing = try DayStanding(of: route.place, in: self.data, seal: self.seals[route.place])
        sealedBefore[route.place] = standing.sealedBefore
        return batch.position < standing.sealedBefore
    }

    /// Makes the bytes durable of which the last checkpoint does not speak.
    ///
    /// The process that wrote them died before its checkpoint, perhaps because their sync had failed.
    private func secure(_ stems: [String], _ lengths: [String: Int]) throws(FileSystemError) {
        var uncommitted: [String] = []
        for path in stems.flatMap({ stem in ArchivePair.suffixes.map { stem + $0 } }) {
            let byteCount = try self.data.files.status(at: Path.join(self.data.root, path))?.byteCount ?? 0
            if byteCount > lengths[path] ?? -1 { uncommitted.append(path) }
        }
        try self.data.rewrite(uncommitted)
    }
}
