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
    private let options: [ProviderID: ExportOptions]
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
        do throws(FileSystemError) {
            guard try self.data.files.status(at: self.data.archive) != nil else {
                throw FileSystemError("open", path: self.data.archive, errno: SystemErrorText.noEntry)
            }
        } catch {
            throw error.errno == SystemErrorText.noEntry ? .noArchive(self.data.root) : .disk(error)
        }
        let lock: FileID
        do throws(DataDirectoryError) {
            lock = try self.data.lock(processID: ProcessID.current)
        } catch {
            throw .data(error)
        }
        defer { self.data.files.close(lock) }
        let archiveZone = try self.zone(try self.recordedEntries(of: "archive")["zone"])
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
        var position = try projection.recover().position
        while position < end { position = try run.advance(&projection, from: position, upTo: end) }
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
            guard let provider = ProviderID(recordedName: String(name.dropFirst(7).dropLast(6))) else { continue }
            let recorded = try self.recordedEntries(of: "export-\(provider.rawValue)")
            var options = self.options[provider] ?? ExportOptions(provider: provider)
            if self.options[provider] == nil { options.zone = try self.zone(recorded["zone"]) }
            if let fingerprint = recorded["options"], fingerprint != options.fingerprint {
                throw .otherOptions(provider.rawValue)
            }
            exports.append(options)
        }
        return exports
    }

    /// What a projection's checkpoint says.
    private func recordedEntries(of projection: String) throws(Replay.Failure) -> [String: String] {
        do throws(FileSystemError) {
            let bytes = try self.data.files.contents(of: self.data.statePath(projection), byteCountMax: 1 << 30)
            return bytes.flatMap { StateImage(bytes: $0) }?.entries ?? [:]
        } catch {
            throw .disk(error)
        }
    }

    /// A zone that a projection last ran with; UTC when it never did.
    private func zone(_ name: String?) throws(Replay.Failure) -> TimeZoneRules {
        guard let name else { return .utc }
        do throws(TimeZoneError) {
            return try TimeZoneRules(named: name, from: self.data.files)
        } catch {
            throw .zone(error)
        }
    }
}
