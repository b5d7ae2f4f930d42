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
        let retaken = try RetakenLetters(
            of: folder, root: self.data.root, lengths: check.lengths, files: self.data.files)
        var found: Set<Digest128> = []
        for file in try DeadLetterFile.all(of: folder, root: self.data.root, files: self.data.files) {
            let length = check.lengths[file.path]
            let path = file.stem + ".manifest.json"
            let closing = check.closing(file.stem)
            var manifest = length == nil ? try self.data.files.contents(of: self.absolute(path)) : nil
            manifest = manifest ?? closing
            guard length != nil || manifest != nil else {
                if try self.data.files.status(at: self.absolute(file.path)) != nil {
                    self.unknown(file.path, check.position)
                } else {
                    self.report.add(
                        Problem(.missing, path, "the dead letters are compressed, but their manifest does not exist"))
                }
                continue
            }
            var tape = JSONTape()
            var sum = ExportTally()
            let read = try DeadLetterManifest.verify(
                file.path, upTo: length, manifest: manifest.map { ($0, isWritten: closing == nil) },
                root: self.data.root, files: self.data.files
            ) { letter, path, range in
                let content = LetterContent(letter, &tape)
                if let digest = retaken.digest(ofTaken: letter) {
                    found.insert(digest)
                    check.retaken[content.letter, default: 0] += 1
                } else {
                    sum.refused += 1
                    sum.letters &+= content.letter
                }
                guard let line = content.line else { return }
                check.foundLines.append(
                    ExportCheck.FoundLine(path: path, range: range, content: content.letter, line: line))
            }
            self.report.add(read.problems)
            tally = tally.adding(sum)
            if read.isWhole == false { check.unreadable.insert(folder) }
        }
        try self.verifyRetaken(found, check, folder)
        let manifests = ".manifest.json"
        for name in try self.data.files.list(self.absolute("\(folder)/dead")) {
            let path = "\(folder)/dead/\(name)"
            if name.hasSuffix(manifests) {
                let letters = String(path.dropLast(manifests.utf8.count)) + ".ndjson"
                // What could not be delivered is compressed once its part is done.
                if name.hasPrefix("delivery-") {
                    let manifest = try self.data.files.contents(of: self.absolute(path)) ?? []
                    self.report.add(
                        try DeadLetterManifest.verify(
                            letters, upTo: nil, manifest: (manifest, isWritten: true), root: self.data.root,
                            files: self.data.files
                        ) { _, _, _ in
                        }.problems)
                } else if try StoredBytes.ifThere(
                    path: self.absolute(letters), isCompressed: false, files: self.data.files) == nil
                {
                    self.report.add(Problem(.missing, letters + ".gz", "its manifest exists, but the file does not"))
                }
            } else if name != RetakenLetters.fileName, !name.hasSuffix(".ndjson"), !name.hasSuffix(".ndjson.gz"),
                !name.hasSuffix(".tmp")
            {
                self.report.add(Problem(.stray, path, "exports have no file with this name"))
            }
        }
    }

    /// - Parameter found: the digests of letters that are in the file.
    private mutating func verifyRetaken(
        _ found: Set<Digest128>, _ check: ExportCheck, _ folder: String
    ) throws(FileSystemError) {
        let path = RetakenLetters.path(in: folder)
        guard let length = check.lengths[path] else {
            if try self.data.files.status(at: self.absolute(path)) != nil { self.unknown(path, check.position) }
            return
        }
        let letters = self.areLettersDeleted(of: folder) ? nil : found
        self.report.add(
            try RetakenLetters.verify(
                path, upTo: length, letters: letters, root: self.data.root, files: self.data.files))
    }
}
