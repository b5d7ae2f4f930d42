internal import WaybillCompression
internal import WaybillData
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Verifies the archive's sealed days against their manifests.
extension DataVerifier {
    mutating func readSealedDays(
        _ checkpoint: Checkpoint, into archived: inout Archived
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
            try self.verifySuccess(folder.path, isSealed: isSealed, isUnderWay: isUnderWay)
            guard isSealed, let bytes = try self.data.files.contents(of: self.absolute(path)) else {
                if !isUnderWay, names.contains(where: { $0.hasSuffix(".ndjson.gz") }) {
                    self.report.add(Problem(.missing, path, "the day has sealed files, which no manifest lists"))
                }
                continue
            }
            guard let manifest = DayManifest(json: bytes) else {
                self.report.add(
                    Problem(.damaged, path, at: 0, byteCount: bytes.count, "it is not a readable manifest"))
                continue
            }
            count += 1
            let (env, bundle, day) = (manifest.environment, manifest.bundle, manifest.day)
            if env != folder.environment || bundle != folder.bundle || day != folder.day {
                self.report.add(Problem(.disagreement, path, "it is of \(env), \(bundle), \(day)"))
            }
            if let contradiction = manifest.contradiction(in: bytes) {
                self.report.add(Problem(.disagreement, path, contradiction))
            }
            self.verifyChecksum(of: bytes, path)
            for file in manifest.files { try self.readSealed(file, folder, into: &archived) }
        }
        self.report.total("sealed_days", count)
    }

    private mutating func readSealed(
        _ file: DayManifest.File, _ folder: DayFolder, into archived: inout Archived
    ) throws(FileSystemError) {
        let stem = Path.join(folder.path, file.stem)
        let path = stem + ".ndjson.gz"
        self.sealedFiles[stem + ".ndjson"] = file
        guard let status = try self.data.files.status(at: self.absolute(path)) else {
            return self.report.add(
                Problem(.missing, path, at: 0, byteCount: file.gzipByteCount, "the day's manifest lists it"))
        }
        archived.stems.append(stem)
        let sha256 = try SHA256Digest.ofFile(self.absolute(path), self.data.files)
        if status.byteCount != file.gzipByteCount || sha256 != file.sha256 {
            self.report.add(
                Problem(
                    .different, path,
                    "it has \(status.byteCount) bytes and SHA-256 \(sha256), but the day's manifest states "
                        + "\(file.gzipByteCount) and \(file.sha256)"))
        }
        let sources = try self.checkedLength(stem + ".sources", file.sourcesByteCount)
        try self.lookPastEnd(of: stem + ".sources", file.sourcesByteCount, .max)
        if let stated = file.sourcesSHA256, sources == file.sourcesByteCount, sources > 0 {
            let own = try SHA256Digest.ofFile(self.absolute(stem + ".sources"), upTo: sources, self.data.files)
            if own != stated {
                self.report.add(
                    Problem(
                        .different, stem + ".sources", "its SHA-256 is \(own), but the day's manifest states \(stated)")
                )
            }
        }
        do throws(PartReadError) {
            let whole = try self.readSealedRuns(file, stem, sources, into: &archived)
            if whole.lineCount != file.lineCount || whole.byteCount != file.byteCount || whole.sha256 != file.rawSHA256
            {
                self.report.add(
                    Problem(
                        .disagreement, path,
                        "it has \(whole.lineCount) lines and \(whole.byteCount) bytes, but the day's manifest states "
                            + "\(file.lineCount) and \(file.byteCount)"))
            }
        } catch {
            switch error {
            case .disk(let cause): throw cause
            case .damaged(_, let offset, let cause):
                self.report.add(
                    Problem(
                        .damaged, path, at: offset, byteCount: nil,
                        "it cannot be decompressed (\(cause.code))"))
            }
        }
    }

    /// Decompresses a sealed file once for its lines, its checksum and its runs.
    private mutating func readSealedRuns(
        _ file: DayManifest.File, _ stem: String, _ sourcesByteCount: Int, into archived: inout Archived
    ) throws(PartReadError) -> (lineCount: Int, byteCount: Int, sha256: String) {
        var runs: [SourceRun] = []
        var reader: PartBytes<Files>
        do throws(FileSystemError) {
            runs = try self.runs(of: stem, sourcesByteCount, linesByteCount: file.byteCount)
            reader = try PartBytes(path: self.absolute(stem + ".ndjson"), isSealed: true, files: self.data.files)
        } catch {
            throw .disk(error)
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var digest = SHA256Digest()
        var total = 0
        var next = 0
        while true {
            let start = reader.position
            // Up to where a run starts or ends, so that each has its own checksum.
            let isInside = next < runs.count && runs[next].range.lowerBound <= start
            let end =
                next < runs.count ? (isInside ? runs[next].range.upperBound : runs[next].range.lowerBound) : Int.max
            var position = start
            var lineCount = 0
            var checksum: UInt32 = 0
            while position < end {
                let wanted = min(buffer.count, end - position)
                let count = try reader.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]))
                let piece = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count])
                digest.update(piece)
                lineCount += piece.count { $0 == 0x0A }
                checksum = FrameChecksum.checksum(continuing: checksum, piece)
                position += count
                if count < wanted { break }
            }
            total += lineCount
            if isInside {
                self.takeSealed(runs[next], stem, lineCount: lineCount, checksum, into: &archived)
                next += 1
            } else if position > start {
                self.report.add(
                    Problem(
                        .unexplained, stem + ".ndjson.gz", at: start, byteCount: position - start,
                        "no run records its origin"))
            }
            if position < end { break }
        }
        archived.lineCount += total
        archived.byteCount += reader.position
        return (total, reader.position, digest.finish())
    }

    private mutating func runs(
        of stem: String, _ byteCount: Int, linesByteCount: Int
    ) throws(FileSystemError) -> [SourceRun] {
        let path = self.absolute(stem + ".sources")
        guard try self.data.files.status(at: path) != nil else { return [] }
        var reader = try SourceRuns(
            path: path, byteCount: byteCount, linesByteCount: linesByteCount, files: self.data.files)
        var runs: [SourceRun] = []
        while let item = try reader.next() {
            switch item {
            case .open: break
            case .run(let run, _): runs.append(run)
            case .damaged(let range, let reason):
                self.report.add(
                    Problem(.damaged, stem + ".sources", at: range.lowerBound, byteCount: range.count, reason))
            }
        }
        return runs
    }

    private mutating func takeSealed(
        _ run: SourceRun, _ stem: String, lineCount: Int, _ checksum: UInt32, into archived: inout Archived
    ) {
        if lineCount != run.lineCount, archived.moved.insert(stem).inserted {
            self.report.add(
                Problem(
                    .different, stem + ".ndjson.gz", at: run.range.lowerBound, byteCount: run.range.count,
                    "the .sources state \(run.lineCount) lines, but there are \(lineCount)"))
        }
        self.note(run, lineCount: lineCount, checksum: checksum, in: &archived)
    }
}
