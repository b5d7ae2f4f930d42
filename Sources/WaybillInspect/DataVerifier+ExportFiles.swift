internal import WaybillArchive
internal import WaybillCompression
internal import WaybillProjection
internal import WaybillSystem

/// Reads an export's files, whether they are compressed or not.
extension DataVerifier {
    func visitLines(
        of path: String, _ byteCount: Int, _ body: (_ line: ArraySlice<UInt8>, _ offset: Int) -> Void
    ) throws(FileSystemError) {
        guard byteCount > 0, try self.data.files.status(at: self.absolute(path)) != nil else { return }
        var reader = try LineReader(path: self.absolute(path), byteCount: byteCount, files: self.data.files)
        while let line = try reader.next() { body(line.bytes[...], line.range.lowerBound) }
    }

    /// Visits the ids of events that are still held; the other ids in the file are in parts.
    func visitHeld(
        in folder: String, _ checkpoint: Checkpoint, _ body: (_ id: ArraySlice<UInt8>) -> Void
    ) throws(FileSystemError) {
        let path = "\(folder)/\(HeldRecord.fileName)"
        let released = HeldRecord.releasedByteCount(of: folder, in: checkpoint.entries)
        try self.visitLines(of: path, checkpoint.lengths[path] ?? 0) { line, offset in
            if offset >= released { body(line.prefix { $0 != 0x20 }) }
        }
    }

    /// Counts a partition's refused events, and verifies the files of sealed days.
    mutating func refusedCount(in folder: String, _ checkpoint: Checkpoint) throws(FileSystemError) -> Int {
        var count = 0
        for file in try DeadLetterFile.all(of: folder, root: self.data.root, files: self.data.files) {
            if let length = checkpoint.lengths[file.path] {
                try self.visitLines(of: file.path, length) { _, _ in count += 1 }
                continue
            }
            let path = file.stem + ".manifest.json"
            var manifest = try self.data.files.contents(of: self.absolute(path))
            if manifest == nil { manifest = checkpoint.entries["closed:" + file.stem].map { Array($0.utf8) } }
            guard let manifest else {
                self.unknown(file.path)
                continue
            }
            count += try self.verifyDeadLetters(file.path, manifest, path)
        }
        // What could not be delivered is compressed once its part is done.
        let suffix = ".manifest.json"
        for name in try self.data.files.list(self.absolute("\(folder)/dead"))
        where name.hasPrefix("delivery-") && name.hasSuffix(suffix) {
            let path = "\(folder)/dead/\(name)"
            let manifest = try self.data.files.contents(of: self.absolute(path)) ?? []
            _ = try self.verifyDeadLetters(path.dropLast(suffix.utf8.count) + ".ndjson", manifest, path)
        }
        return count
    }

    /// - Returns: how many lines the manifest states.
    private mutating func verifyDeadLetters(
        _ path: some StringProtocol, _ manifest: [UInt8], _ manifestPath: String
    ) throws(FileSystemError) -> Int {
        let path = String(path)
        guard let facts = DeadLetterManifest(json: manifest) else {
            self.report.add(
                Problem(.damaged, manifestPath, at: 0, byteCount: manifest.count, "it is not a readable manifest"))
            return 0
        }
        if let stored = try self.stored(path, isCompressed: facts.gzipSHA256 != nil) {
            try self.verifyDigests(of: stored, path, facts.sha256, facts.gzipSHA256)
        } else {
            self.report.add(Problem(.missing, path + ".gz", "its manifest exists, but the file does not"))
        }
        return facts.recordCount
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

    mutating func verifyDigests(
        of stored: StoredBytes<Files>, _ path: String, _ sha256: String, _ gzipSHA256: String?
    ) throws(FileSystemError) {
        if let gzipSHA256 {
            let own = try SHA256Digest.ofFile(stored.path, self.data.files)
            if own != gzipSHA256 {
                self.report.add(
                    Problem(
                        .different, path + ".gz", "its SHA-256 is \(own), but its manifest states \(gzipSHA256)"))
            }
        }
        var digest = SHA256Digest()
        guard try self.visit(stored, path, { digest.update($0) }) else { return }
        let own = digest.finish()
        if own != sha256 {
            self.report.add(Problem(.different, path, "its SHA-256 is \(own), but its manifest states \(sha256)"))
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

    /// The number of records in a part: lines, but CSV has a header and quoted line feeds, a JSON array has no line
    /// feed after the last record, and the journal's export format has entries.
    ///
    /// - Returns: `nil` if they cannot be read, which is reported.
    mutating func recordCount(
        of stored: StoredBytes<Files>, _ path: String, _ byteCount: Int, isOpen: Bool
    ) throws(FileSystemError) -> Int? {
        if path.hasSuffix(".export") {
            var scanner = JournalEntryScanner()
            let isWhole = try self.visit(stored, path, upTo: byteCount) { piece in
                for byte in piece { _ = scanner.take(byte) }
            }
            return isWhole ? scanner.entryCount : nil
        }
        let isCSV = path.hasSuffix(".csv")
        var isQuoted = false
        var isEmpty = true
        var count = isCSV ? -1 : path.hasSuffix(".json") && isOpen ? 1 : 0
        let isWhole = try self.visit(stored, path, upTo: byteCount) { piece in
            isEmpty = false
            for byte in piece {
                if byte == UInt8(ascii: "\""), isCSV { isQuoted.toggle() }
                if byte == UInt8(ascii: "\n"), !isQuoted { count += 1 }
            }
        }
        return isWhole ? isEmpty ? 0 : max(0, count) : nil
    }
}
