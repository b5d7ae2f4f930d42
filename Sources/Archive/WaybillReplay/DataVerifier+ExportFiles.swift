internal import WaybillCompression
internal import WaybillData
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillSystem

/// Reads an export's files, whether they are compressed or not.
extension DataVerifier {
    func visitLines(
        of path: String, _ byteCount: Int, _ body: (_ line: [UInt8], _ range: Range<Int>) -> Void
    ) throws(FileSystemError) {
        guard byteCount > 0, try self.data.files.status(at: self.absolute(path)) != nil else { return }
        var reader = try LineReader(path: self.absolute(path), byteCount: byteCount, files: self.data.files)
        while let line = try reader.next() { body(line.bytes, line.range) }
    }

    /// Reads the events that are still held; the others in the file are in parts.
    mutating func readHeld(
        of check: ExportCheck, _ folder: String, into tally: inout ExportTally
    ) throws(FileSystemError) {
        let path = "\(folder)/\(HeldRecord.fileName)"
        let released = HeldRecord.releasedByteCount(of: folder, in: check.entries)
        guard let length = check.lengths[path] else { return self.unknown(path, check.position) }
        var sum = ExportTally()
        try self.visitLines(of: path, length) { line, range in
            line.withUnsafeBytes { bytes in
                check.foundHeld.append(
                    ExportCheck.FoundLine(
                        path: path, range: range, content: ContentHash.hash(ContentHash.content(bytes)), line: nil))
                guard range.lowerBound >= released else { return }
                sum.exported += 1
                guard let event = HeldRecord.event(of: bytes) else { return }
                sum.records &+= EventContent(event.record, id: event.id).whole
            }
        }
        tally = tally.adding(sum)
    }

    /// Reads a partition's refused events, and verifies the files of sealed days.
    mutating func readDeadLetters(
        of check: ExportCheck, _ folder: String, into tally: inout ExportTally
    ) throws(FileSystemError) {
        var retaken = try FoundRetaken(
            letters: RetakenLetters(of: folder, root: self.data.root, lengths: check.lengths, files: self.data.files))
        for file in try DeadLetterFile.all(of: folder, root: self.data.root, files: self.data.files) {
            let length = check.lengths[file.path]
            let path = file.stem + ".manifest.json"
            var manifest = length == nil ? try self.data.files.contents(of: self.absolute(path)) : nil
            if manifest == nil { manifest = check.entries["closed:" + file.stem].map { Array($0.utf8) } }
            guard length != nil || manifest != nil else {
                if try self.data.files.status(at: self.absolute(file.path)) != nil {
                    self.unknown(file.path, check.position)
                } else {
                    self.report.add(
                        Problem(.missing, path, "the dead letters are compressed, but their manifest does not exist"))
                }
                continue
            }
            if let manifest { self.verifyPlace(of: manifest, path, folder) }
            try self.readDeadLetters(file.path, length, manifest, path, check, &retaken, into: &tally)
        }
        try self.verifyRetaken(retaken, check, folder)
        let manifests = ".manifest.json"
        for name in try self.data.files.list(self.absolute("\(folder)/dead")) {
            let path = "\(folder)/dead/\(name)"
            if name.hasSuffix(manifests) {
                // What could not be delivered is compressed once its part is done.
                let isOfDelivery = name.hasPrefix("delivery-")
                let stem = String(path.dropLast(manifests.utf8.count))
                if isOfDelivery {
                    let manifest = try self.data.files.contents(of: self.absolute(path)) ?? []
                    self.verifyPlace(of: manifest, path, folder)
                    var unused = ExportTally()
                    var none = FoundRetaken(letters: .none)
                    try self.readDeadLetters(stem + ".ndjson", nil, manifest, path, nil, &none, into: &unused)
                } else if try self.stored(stem + ".ndjson", isCompressed: false) == nil {
                    self.report.add(
                        Problem(.missing, stem + ".ndjson.gz", "its manifest exists, but the file does not"))
                }
            } else if name != RetakenLetters.fileName, !name.hasSuffix(".ndjson"), !name.hasSuffix(".ndjson.gz"),
                !name.hasSuffix(".tmp")
            {
                self.report.add(Problem(.stray, path, "exports have no file with this name"))
            }
        }
    }

    /// The letters of a folder whose events were exported after all.
    struct FoundRetaken {
        let letters: RetakenLetters
        var seen: Set<Digest128> = []
    }

    /// Verifies that what was exported after all was refused before.
    private mutating func verifyRetaken(
        _ retaken: FoundRetaken, _ check: ExportCheck, _ folder: String
    ) throws(FileSystemError) {
        let path = RetakenLetters.path(in: folder)
        guard let length = check.lengths[path] else {
            if try self.data.files.status(at: self.absolute(path)) != nil { self.unknown(path, check.position) }
            return
        }
        var wrong: [(range: Range<Int>, text: String)] = []
        var lines: Set<Digest128> = []
        try self.visitLines(of: path, length) { line, range in
            guard let digest = Digest128(text: line) else {
                return wrong.append((range, "the line is not the digest of a dead letter"))
            }
            if !lines.insert(digest).inserted { wrong.append((range, "the line is there twice")) }
            if !retaken.seen.contains(digest) { wrong.append((range, "no dead letter of the day has this digest")) }
        }
        if self.areLettersDeleted(of: folder) { wrong.removeAll { $0.text.hasPrefix("no dead letter") } }
        for (range, text) in wrong.prefix(Self.explainedCountMax) {
            self.report.add(Problem(.damaged, path, at: range.lowerBound, byteCount: range.count, text))
        }
    }

    /// Reads one file of dead letters, all of it if it is closed.
    private mutating func readDeadLetters(
        _ path: String, _ length: Int?, _ manifest: [UInt8]?, _ manifestPath: String, _ check: ExportCheck?,
        _ retaken: inout FoundRetaken, into tally: inout ExportTally
    ) throws(FileSystemError) {
        let facts = manifest.flatMap { DeadLetterManifest(json: $0) }
        if let manifest, facts == nil {
            self.report.add(
                Problem(.damaged, manifestPath, at: 0, byteCount: manifest.count, "it is not a readable manifest"))
        }
        guard let stored = try self.stored(path, isCompressed: facts?.gzipSHA256 != nil) else {
            let name = facts?.gzipSHA256 == nil ? path : path + ".gz"
            return self.report.add(Problem(.missing, name, "its manifest exists, but the file does not"))
        }
        if let manifest, facts != nil, check?.entries["closed:" + path.dropLast(".ndjson".utf8.count)] == nil {
            self.verifyChecksum(of: manifest, manifestPath)
        }
        var digest = SHA256Digest()
        var cutter = RecordCutter(.lines)
        var tape = JSONTape()
        var sum = ExportTally()
        var count = 0
        let known = retaken.letters
        var seen: Set<Digest128> = []
        func take(_ letter: UnsafeRawBufferPointer, _ range: Range<Int>) {
            let content = LetterContent(letter, &tape)
            count += 1
            if known.contains(ContentHash.content(letter)) {
                seen.insert(RetakenLetters.digest(of: ContentHash.content(letter)))
                check?.retaken[content.letter, default: 0] += 1
            } else {
                sum.refused += 1
                sum.letters &+= content.letter
            }
            guard let line = content.line else { return }
            check?.foundLines.append(
                ExportCheck.FoundLine(
                    path: stored.isCompressed ? path + ".gz" : path, range: range,
                    content: content.letter, line: line))
        }
        let isRead = try self.visit(stored, path, upTo: length ?? .max) { piece in
            if facts != nil { digest.update(piece) }
            cutter.take(piece, take)
        }
        cutter.finish(take)
        if !isRead { check?.unreadable.insert(Path.parent(of: Path.parent(of: path))) }
        retaken.seen.formUnion(seen)
        tally = tally.adding(sum)
        guard let facts, isRead else { return }
        try self.compareDigests(of: stored, path, facts.sha256, facts.gzipSHA256, &digest)
        if facts.recordCount != count {
            self.report.add(
                Problem(.disagreement, manifestPath, "it states \(facts.recordCount) records, but there are \(count)"))
        }
    }

    /// Compares what a manifest of dead letters says of its folder with the folder.
    private mutating func verifyPlace(of manifest: [UInt8], _ path: String, _ folder: String) {
        guard let facts = DeadLetterManifest(json: manifest),
            !folder.hasSuffix("exports/\(facts.provider)/env=\(facts.env)/date=\(facts.day)")
        else { return }
        self.report.add(Problem(.disagreement, path, "it is of \(facts.provider), \(facts.env), \(facts.day)"))
    }

    /// - Returns: `nil` if there is no such file.
    func stored(_ path: String, isCompressed: Bool) throws(FileSystemError) -> StoredBytes<Files>? {
        do throws(FileSystemError) {
            return try StoredBytes(path: self.absolute(path), isCompressed: isCompressed, files: self.data.files)
        } catch {
            guard error.errno == Errno.noEntry else { throw error }
            return nil
        }
    }

    /// Compares a closed file with the digests in its manifest.
    ///
    /// - Parameter digest: of the bytes before they were compressed.
    mutating func compareDigests(
        of stored: StoredBytes<Files>, _ path: String, _ sha256: String, _ gzipSHA256: String?,
        _ digest: inout SHA256Digest
    ) throws(FileSystemError) {
        if let gzipSHA256 {
            let own = try SHA256Digest.ofFile(stored.path, self.data.files)
            if own != gzipSHA256 {
                self.report.add(
                    Problem(
                        .different, path + ".gz", "its SHA-256 is \(own), but its manifest states \(gzipSHA256)"))
            }
        }
        let own = digest.finish()
        if own != sha256 {
            self.report.add(
                Problem(
                    .different, stored.isCompressed ? path + ".gz" : path,
                    "the SHA-256 of its content is \(own), but its manifest states \(sha256)"))
        }
    }

    /// Reads stored bytes, and reports what cannot be inflated.
    ///
    /// - Returns: whether all could be read.
    mutating func visit(
        _ stored: StoredBytes<Files>, _ path: String, upTo byteCount: Int = .max,
        _ body: (UnsafeRawBufferPointer) -> Void
    ) throws(FileSystemError) -> Bool {
        do throws(PartReadError) {
            try stored.visit(upTo: byteCount, body)
            return true
        } catch {
            switch error {
            case .disk(let cause): throw cause
            case .damaged(_, let offset, let cause):
                let end = try self.data.files.status(at: stored.path)?.byteCount ?? offset
                self.report.add(
                    Problem(.damaged, path + ".gz", at: offset, byteCount: max(0, end - offset), cause.code))
                return false
            }
        }
    }
}
