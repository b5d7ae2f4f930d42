package import WaybillExport
package import WaybillProjection
package import WaybillSystem

internal import WaybillData

/// Seals the days in the data directory of a stopped receiver, with the code of a running one.
///
///     lock ─▶ each projection: recover ─▶ up to the journal's end ─▶ seal what is due, archive first
///
/// If it is killed, the next start of a receiver or a sealer finishes its work.
package struct Sealer<Files: FileSystem>: Sendable {
    /// Which days to seal.
    package enum Scope: Hashable, Sendable {
        /// Days whose cut-off has passed by the wall clock.
        case overDays
        /// Every day with unsealed lines, including days that are not over.
        case all
    }

    private let data: DataDirectory<Files>
    private let cutOffSecond: Int
    private let options: [Destination: ExportOptions]
    private let scope: Scope

    /// Prepares a sealer.
    ///
    /// - Parameters:
    ///   - cutOffSecond: the archive's cut-off, in seconds after midnight of the next day.
    ///   - exports: the exports' options in the receiver's configuration; defaults for those that are missing.
    package init(
        dataDirectory: String, files: Files, scope: Scope, cutOffSecond: Int, exports: [ExportOptions]
    ) {
        self.data = DataDirectory(root: dataDirectory, files: files)
        self.scope = scope
        self.cutOffSecond = cutOffSecond
        self.options = Dictionary(exports.map { ($0.provider, $0) }) { first, _ in first }
    }

    /// Seals the days; calls `sealed` with each day and the name of its projection.
    ///
    /// - Parameter noticed: takes a sentence about each part that could not be closed. If it belongs to one of the days,
    ///   the run fails at its end.
    package func run(
        now: WallTime, sealed: (_ projection: String, SealedDay) -> Void, noticed: (String) -> Void = { _ in }
    ) throws(Replay.Failure) {
        try self.data.requireArchive()
        let lock = try self.data.lockForReplay()
        defer { self.data.files.close(lock) }
        let archiveZone = try self.data.recordedZone(of: "archive")
        let exports = try self.exports()
        var damagedDays: Set<String> = []
        do throws(FileSystemError) {
            let end = try self.data.openJournal().end
            var archive = try ArchiveProjection(data: self.data, zone: archiveZone, cutOffSecond: self.cutOffSecond)
            try self.seal(&archive, upTo: end, now, sealed)
            for options in exports {
                var export = try ExportProjection.live(options, data: self.data)
                var days = Set<String>()
                try self.seal(&export, upTo: end, now) { projection, day in
                    days.insert(day.path)
                    sealed(projection, day)
                }
                days.formUnion(export.owedDays)
                damagedDays.formUnion(export.owedDays)
                for failure in export.takeFailures() {
                    noticed(failure.description)
                    if days.contains(failure.folder) { damagedDays.insert(failure.folder) }
                }
            }
        } catch {
            throw .disk(error)
        }
        guard damagedDays.isEmpty else { throw .damagedDays(damagedDays.sorted()) }
    }

    private func seal(
        _ projection: inout some Projection & ~Copyable, upTo end: JournalPosition, _ now: WallTime,
        _ sealed: (String, SealedDay) -> Void
    ) throws(FileSystemError) {
        var run = ProjectionRun(journalDirectory: self.data.journal, files: self.data.files)
        let position = try run.catchUp(&projection, to: end)
        let moment = self.scope == .all ? SealMoment.everything(now: now) : SealMoment(now: now, through: now)
        // A checkpoint starts only a limited number of seals.
        repeat {
            try projection.checkpoint(at: max(position, end), sealing: moment)
            while projection.isSealing { try projection.continueSealing() }
            for day in projection.takeSealed() { sealed(projection.name, day) }
        } while projection.nextDue.map { $0 <= moment.through } ?? false
    }

    /// The exports that a receiver has written.
    private func exports() throws(Replay.Failure) -> [ExportOptions] {
        let names: [String]
        do throws(FileSystemError) {
            names = try self.data.stateNames()
        } catch {
            throw .disk(error)
        }
        var exports: [ExportOptions] = []
        for projection in names where projection.hasPrefix("export-") {
            guard let provider = Destination(recordedName: String(projection.dropFirst("export-".utf8.count))) else {
                continue
            }
            var options = self.options[provider] ?? ExportOptions(provider: provider)
            if self.options[provider] == nil { options.zone = try self.data.recordedZone(of: projection) }
            let fingerprint = try self.data.recordedEntries(of: projection)["options"]
            if let fingerprint, fingerprint != options.fingerprint {
                throw .otherOptions(provider.rawValue)
            }
            exports.append(options)
        }
        return exports
    }
}
