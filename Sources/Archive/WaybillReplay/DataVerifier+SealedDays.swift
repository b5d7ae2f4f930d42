internal import WaybillData
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Verifies what says that a day is finished: the manifests of the archive's days and of an export's, and `_SUCCESS`.
extension DataVerifier {
    mutating func readSealedDays(
        _ checkpoint: ProjectionCheckpoint, into archived: inout Archived
    ) throws(FileSystemError) {
        var folders: [DayFolder] = []
        try self.data.visitDays { folders.append($0) }
        var count = 0
        for folder in folders {
            let path = Path.join(folder.path, DayFolder.manifestName)
            let directory = self.absolute(folder.path)
            let isUnderWay = checkpoint.entries["seal:" + folder.path] != nil
            let names = try self.data.files.list(directory)
            let isSealed = names.contains(DayFolder.manifestName)
            try self.verifySuccess(in: folder.path, isSealed: isSealed, isUnderWay: isUnderWay)
            guard isSealed, let bytes = try self.data.files.contents(of: self.absolute(path)) else {
                if !isUnderWay, names.contains(where: { $0.hasSuffix(".ndjson.gz") }) {
                    self.report.add(Problem(.missing, path, "the day has sealed files, which no manifest lists"))
                }
                continue
            }
            let (manifest, problems) = DayManifest.verify(bytes, at: path, in: folder)
            self.report.add(problems)
            guard let manifest else { continue }
            count += 1
            for file in manifest.files { try self.readSealed(file, folder, into: &archived) }
        }
        self.report.total("sealed_days", count)
    }

    private mutating func readSealed(
        _ file: DayManifest.File, _ folder: DayFolder, into archived: inout Archived
    ) throws(FileSystemError) {
        let stem = Path.join(folder.path, file.stem)
        let check = SealedFileCheck(file, in: folder.path, root: self.data.root, files: self.data.files)
        self.sealedFiles[stem + ".ndjson"] = file
        if let problem = try check.verifyStored() {
            self.report.add(problem)
            if problem.code == .missing { return }
        }
        archived.stems.append(stem)
        _ = try self.checkedLength(check.sourcesPath, file.sourcesByteCount)
        try self.lookPastEnd(of: check.sourcesPath, file.sourcesByteCount, .max)
        if let problem = try check.verifySources() { self.report.add(problem) }
        let (contents, problems) = try check.verifyLines { run, lineCount, checksum in
            self.note(run, lineCount: lineCount, checksum: checksum, in: &archived)
        }
        self.report.add(problems)
        archived.lineCount += contents.lineCount
        archived.byteCount += contents.byteCount
    }

    /// Verifies `_SUCCESS` and the manifest of an export's day, which exist together.
    mutating func verifySeal(of check: ExportCheck, _ folder: String, _ names: [String]) throws(FileSystemError) {
        let path = Path.join(folder, DayFolder.manifestName)
        // A seal under way writes both, one after the other; without a later checkpoint the day is sealed again.
        let isUnderWay = ["seal:", "unmarked:"].contains { check.entries[$0 + folder] != nil }
        let isSealed = names.contains(DayFolder.manifestName)
        try self.verifySuccess(in: folder, isSealed: isSealed, isUnderWay: isUnderWay)
        guard isSealed, let bytes = try self.data.files.contents(of: self.absolute(path)) else {
            let isLate = check.entries[PartStanding.keyPrefix + folder].map(PartStanding.isLate) ?? false
            if isLate, !isSealed, !isUnderWay {
                self.report.add(Problem(.missing, path, "the day is sealed, but its manifest does not exist"))
            }
            return
        }
        self.report.add(
            try ExportDayManifest.verify(bytes, in: folder, root: self.data.root, files: self.data.files))
    }

    /// `_SUCCESS` exists where a manifest does, and is empty.
    mutating func verifySuccess(
        in folder: String, isSealed: Bool, isUnderWay: Bool
    ) throws(FileSystemError) {
        let status = try self.data.files.status(at: self.absolute(Path.join(folder, DayFolder.successName)))
        self.report.add(
            DayFolder.verifySuccess(
                status?.byteCount, in: folder, isSealed: isSealed, isChanging: isUnderWay || self.isInUse))
    }

    /// Reports bytes after the end that the checkpoint states, unless a crash may have left them.
    mutating func lookPastEnd(of path: String, _ byteCount: Int, _ position: Int) throws(FileSystemError) {
        guard !self.isInUse, let status = try self.data.files.status(at: self.absolute(path)),
            status.byteCount > byteCount
        else { return }
        guard !self.isBehind(position) else {
            self.unfinishedFileCount += 1
            return
        }
        self.report.add(
            Problem(
                .unexplained, path, at: byteCount, byteCount: status.byteCount - byteCount,
                "bytes after the end that the checkpoint states"))
    }
}
