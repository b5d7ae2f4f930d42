internal import WaybillData
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillSystem

/// Verifies each export against the archive, and its manifests against its files.
///
/// The archive is read once for all exports: each line is parsed once and mapped for each of them. Of each day only sums
/// are kept; a day whose sums differ is read again, and then its events are compared one by one.
extension DataVerifier {
    mutating func verifyExports(
        _ checkpoints: [(name: String, checkpoint: ProjectionCheckpoint)], archive: ProjectionCheckpoint?
    ) {
        var checks: [ExportCheck] = []
        for (name, checkpoint) in checkpoints {
            guard let check = self.check(name, checkpoint, archive) else { continue }
            do throws(FileSystemError) {
                try self.readFiles(of: check)
                checks.append(check)
            } catch {
                self.unreadable(error)
            }
            let totals = check.found.values
            self.report.total("\(name)_events", totals.reduce(0) { $0 + $1.exported })
            self.report.total("\(name)_refused", totals.reduce(0) { $0 + $1.refused })
        }
        self.verifyDeliveries(of: checks)
        let compared = checks.filter(\.isCompared)
        guard let archive, !compared.isEmpty else { return }
        do throws(FileSystemError) {
            try self.map(archive, into: compared)
            for check in compared {
                self.report.total("\(check.name)_skipped", check.sink.skippedCount)
                try self.judge(check, archive)
            }
        } catch {
            self.unreadable(error)
        }
    }

    /// Prepares an export's verification; `nil` if nothing can be said about it.
    private mutating func check(
        _ name: String, _ checkpoint: ProjectionCheckpoint, _ archive: ProjectionCheckpoint?
    ) -> ExportCheck? {
        guard var options = self.options(ofExport: name) else {
            self.report.note(
                "\(checkpoint.path) belongs to a provider that this version does not know; name custom ones with --config"
            )
            return nil
        }
        let folder = "exports/\(name)/"
        if let alien = checkpoint.lengths.keys.sorted().first(where: { !$0.hasPrefix(folder) }) {
            self.report.add(
                Problem(.disagreement, checkpoint.path, "it is the checkpoint of another export: it lists \(alien)"))
            return nil
        }
        let zone = checkpoint.zone(self.data.files)
        if let zone { options.zone = zone }
        let check = ExportCheck(
            name: name, options: options, checkpointPath: checkpoint.path, position: checkpoint.position.rawValue,
            entries: checkpoint.entries, lengths: checkpoint.lengths)
        if archive == nil {
            self.report.note("\(name) is not compared with the archive, whose checkpoint is missing")
        } else if zone == nil {
            self.report.add(
                Problem(.unreadable, checkpoint.path, "its zone is unknown: no event is compared with the archive"))
        } else if let written = checkpoint.entries["options"], written != options.fingerprint {
            self.report.note(
                "\(name) is not compared with the archive: it was written with other options; name them with --config")
        } else if checkpoint.entries["changed"] != nil {
            self.report.note(
                "\(name) is not compared with the archive: its options changed while it ran; waybill replay regenerates it"
            )
        } else {
            check.isCompared = true
        }
        return check
    }

    private func options(ofExport name: String) -> ExportOptions? {
        if let options = self.exports.first(where: { $0.provider.rawValue == name }) { return options }
        return self.providers.destinations.first { $0.rawValue == name }.map { ExportOptions(provider: $0) }
    }

    // MARK: The files

    private mutating func readFiles(of check: ExportCheck) throws(FileSystemError) {
        for (path, byteCount) in check.lengths.sorted(by: { $0.key < $1.key }) {
            _ = try self.checkedLength(path, byteCount)
            try self.lookPastEnd(of: path, byteCount, check.position)
        }
        guard try self.data.files.status(at: self.absolute(check.folder)) != nil else { return }
        for env in try self.data.files.list(self.absolute(check.folder)) {
            let envPath = Path.join(check.folder, env)
            guard try self.data.files.status(at: self.absolute(envPath))?.kind == .directory else {
                self.report.add(Problem(.stray, envPath, "an export has only folders of environments here"))
                continue
            }
            for date in try self.data.files.list(self.absolute(envPath)) {
                let path = Path.join(envPath, date)
                guard let day = ExportDay(partition: path),
                    try self.data.files.status(at: self.absolute(path))?.kind == .directory
                else {
                    self.report.add(Problem(.stray, path, "an export has only folders of days here"))
                    continue
                }
                try self.readFiles(of: check, day)
            }
        }
    }

    private mutating func readFiles(of check: ExportCheck, _ day: ExportDay) throws(FileSystemError) {
        let folder = Path.join(check.folder, day.description)
        let suffix = "." + check.description.fileExtension
        var tally = ExportTally()
        var stems: Set<String> = []
        let names = try self.data.files.list(self.absolute(folder))
        for name in names {
            switch name {
            case "dead": try self.readDeadLetters(of: check, folder, into: &tally)
            case HeldRecord.fileName: try self.readHeld(of: check, folder, into: &tally)
            case ".generation": check.replayed.insert(day)
            case ".standing": break
            case DayFolder.manifestName, DayFolder.successName: break
            // A crash before the rename leaves it, and the next seal or close overwrites it.
            case _ where name.hasSuffix(DayFolder.manifestName + ".tmp") || name.hasSuffix(suffix + ".gz.tmp"): break
            // Drafts of schemas, which an operator may change and remove.
            case "schemas" where check.options.provider.type.hasSchemas: break
            case _ where PartitionPath.partNumber(of: name) != nil:
                // A part may end in ".json" too.
                let known = [".manifest.json", ".ids", ".delivered", suffix, suffix + ".gz"].first(
                    where: name.hasSuffix)
                if let known {
                    stems.insert(String(name.dropLast(known.utf8.count)))
                } else {
                    self.report.add(Problem(.stray, "\(folder)/\(name)", "exports have no file with this name"))
                }
            default:
                self.report.add(Problem(.stray, "\(folder)/\(name)", "exports have no file with this name"))
            }
        }
        for stem in stems.sorted() { try self.verifyPart("\(folder)/\(stem)", check, into: &tally) }
        try self.verifySeal(of: check, folder, names)
        try self.compareStanding(of: folder, check)
        check.found[day] = tally
    }

    private mutating func verifyPart(
        _ stem: String, _ check: ExportCheck, into tally: inout ExportTally
    ) throws(FileSystemError) {
        let folder = Path.parent(of: stem)
        let path = "\(stem).\(check.description.fileExtension)"
        let standing: PartCheck<Files>.Standing? = check.standing(ofPart: stem, path)
        guard let standing else { return self.unknown(path, check.position) }
        let part = PartCheck(stem, standing, check.description, root: self.data.root, files: self.data.files)
        let (manifest, problems) = try part.verifyManifest()
        self.report.add(problems)
        if manifest?.gzipSHA256 != nil, case .closed = standing,
            try self.data.files.status(at: self.absolute(path)) != nil
        {
            self.unknown(path, .max)
        }
        var sum = ExportTally()
        let contents = try part.verifyContents(manifest, header: check.isCompared ? check.description.header : nil) {
            record, id in
            sum.exported += 1
            sum.records &+= EventContent(record, id: id).whole
        }
        self.report.add(contents.problems)
        if contents.isReadable { tally = tally.adding(sum) } else { check.unreadable.insert(folder) }
        guard let manifest else { return }
        check.closed[folder, default: []].append(stem)
        let mark = stem + ".delivered"
        if let bytes = try self.data.files.contents(of: self.absolute(mark)),
            let problem = manifest.verify(mark: bytes, at: mark)
        {
            self.report.add(problem)
        }
    }

    /// Verifies the checkpoint's count of an open part against its `.ids`.
    private mutating func compareStanding(of folder: String, _ check: ExportCheck) throws(FileSystemError) {
        guard let text = check.entries[PartStanding.keyPrefix + folder] else { return }
        let problems = try PartStanding.verify(
            text, of: folder, fileExtension: check.description.fileExtension, at: check.checkpointPath
        ) {
            check.lengths[$0] ?? 0
        } lineCount: { path throws(FileSystemError) in
            var count = 0
            try self.visitLines(of: path, check.lengths[path] ?? 0) { _, _ in count += 1 }
            return count
        }
        self.report.add(problems)
    }
}
