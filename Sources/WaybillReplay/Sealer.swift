package import WaybillExport
package import WaybillProjection
package import WaybillSystem

internal import WaybillArchive
internal import WaybillJournal

/// Seals the days of a data directory whose receiver is stopped, with the code of the running one.
///
///     lock ─▶ each projection: recover ─▶ up to the journal's end ─▶ seal what is due, archive first
///
/// Whoever kills it in between finds its work finished by the next start, of a receiver or of this.
package struct Sealer<Files: FileSystem>: Sendable {
    /// Which days are sealed.
    package enum Scope: Hashable, Sendable {
        /// Those whose cut-off is past by the wall clock.
        case overDays
        /// Every day with something that no seal knows, also one that goes on.
        case all
    }

    private let data: DataDirectory<Files>
    private let cutOffSecond: Int
    private let options: [Destination: ExportOptions]
    private let scope: Scope

    /// Prepares a sealer.
    ///
    /// - Parameters:
    ///   - cutOffSecond: of the archive, in seconds after midnight of the next day.
    ///   - exports: what the receiver's configuration says of them; defaults for those that are not here.
    package init(
        dataDirectory: String, files: Files, scope: Scope, cutOffSecond: Int, exports: [ExportOptions]
    ) {
        self.data = DataDirectory(root: dataDirectory, files: files)
        self.scope = scope
        self.cutOffSecond = cutOffSecond
        self.options = Dictionary(exports.map { ($0.provider, $0) }) { first, _ in first }
    }

    /// Seals; `sealed` hears of each day with the name of its projection.
    package func run(
        now: WallTime, sealed: (_ projection: String, SealedDay) -> Void
    ) throws(Replay.Failure) {
        try self.data.requireArchive()
        let lock = try self.data.lockForReplay()
        defer { self.data.files.close(lock) }
        let archiveZone = try self.data.recordedZone(of: "archive")
        let exports = try self.exports()
        do throws(FileSystemError) {
            let end = try self.data.openJournal().end
            var archive = try ArchiveProjection(data: self.data, zone: archiveZone, cutOffSecond: self.cutOffSecond)
            try self.seal(&archive, upTo: end, now, sealed)
            for options in exports {
                var export = try ExportProjection.live(options, data: self.data)
                try self.seal(&export, upTo: end, now, sealed)
            }
        } catch {
            throw .disk(error)
        }
    }

    private func seal(
        _ projection: inout some Projection & ~Copyable, upTo end: JournalPosition, _ now: WallTime,
        _ sealed: (String, SealedDay) -> Void
    ) throws(FileSystemError) {
        var run = ProjectionRun(journalDirectory: self.data.journal, files: self.data.files)
        let position = try run.catchUp(&projection, to: end)
        let moment = self.scope == .all ? SealMoment.everything(now: now) : SealMoment(now: now, through: now)
        // A checkpoint begins so many seals at most.
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
            names = try self.data.files.list(self.data.state)
        } catch {
            throw .disk(error)
        }
        var exports: [ExportOptions] = []
        for name in names where name.hasPrefix("export-") && name.hasSuffix(".state") {
            guard let provider = Destination(recordedName: String(name.dropFirst(7).dropLast(6))) else { continue }
            let projection = "export-\(provider.rawValue)"
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
