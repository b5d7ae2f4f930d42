internal import WaybillCompression
internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSpool
internal import WaybillSystem

/// The formats, one function each.
extension Inspector {
    // MARK: Journal

    mutating func inspectSegment(
        _ path: String, base: JournalPosition, byteCount: Int, next: JournalPosition?
    ) throws(FileSystemError) {
        let fileEnd = JournalPosition(base.rawValue + byteCount)
        let limit = min(fileEnd, next ?? fileEnd)
        if let next, fileEnd < next {
            self.damage(
                path, at: byteCount, byteCount: next.rawValue - fileEnd.rawValue,
                "the next segment starts at \(next): bytes are cut off, or a segment in between is gone",
                keeps: "everything else")
        }
        if let next, fileEnd > next {
            self.note("\(path): \(fileEnd.rawValue - next.rawValue) bytes after \(next) are not part of the journal")
        }
        var scanner = try SegmentScanner(path: path, base: base, limit: limit, files: self.files)
        while true {
            let start = scanner.position
            let offset = start.rawValue - base.rawValue
            switch try scanner.next() {
            case .message(let message): self.item(Self.describe(message, at: start, offset))
            case .batch(let header, let description, _):
                self.item(
                    InspectItem("batch").with("position", start.rawValue).with("offset", offset)
                        .with("stream", description.name.description).with("from", Int(header.offset.rawValue))
                        .with("raw", header.rawByteCount).with("lines", header.lineCount)
                        .with("wire", header.wireByteCount))
            case .end: return
            case .damaged(let reason):
                let isFound = try scanner.stepOverDamage()
                let end = isFound ? scanner.position : limit
                let length = end.rawValue - start.rawValue
                if isFound {
                    self.damage(
                        path, at: offset, byteCount: length, reason,
                        keeps: "everything else; these bytes stay in place and are skipped")
                    continue
                }
                let keeps =
                    next == nil
                    ? "what is before it; a start leaves this out, and keeps it as \(start).torn-N if possible"
                    : "what is before it"
                self.damage(path, at: offset, byteCount: length, "not a complete group: \(reason)", keeps: keeps)
                return
            }
        }
    }

    private static func describe(_ message: Message, at position: JournalPosition, _ offset: Int) -> InspectItem {
        func item(_ kind: String) -> InspectItem {
            InspectItem(kind).with("position", position.rawValue).with("offset", offset)
        }
        switch message {
        case .open(let number, let description, _):
            return item("open").with("number", Int(number.rawValue)).with("stream", description.name.description)
                .with("source", description.source).with("env", description.environment)
                .with("bundle", description.bundle)
        case .at(let number, let at, let proof, _):
            return item("at").with("number", Int(number.rawValue)).with("from", Int(at.rawValue))
                .with("proved", proof.byteCount).with("proof", proof.digest?.text ?? "-")
                .with("skipped", Int(proof.skippedByteCount))
        case .tail(let number, let bytes):
            return item("tail").with("number", Int(number.rawValue)).with("bytes", bytes.count)
        case .sealed(let number, let proof, _):
            return item("sealed").with("number", Int(number.rawValue))
                .with("proved", proof.byteCount).with("proof", proof.digest?.text ?? "-")
                .with("skipped", Int(proof.skippedByteCount))
        case .resting(let count, _, _): return item("resting").with("streams", Int(count))
        case .start(let start, let incarnation):
            return item("start").with("at", Int(start.position)).with("start", start.idText)
                .with("incarnation", incarnation.text)
        case .skip(let number, let range):
            return item("skip").with("number", Int(number.rawValue)).with("from", Int(range.offset.rawValue))
                .with("bytes", Int(range.byteCount)).with("reason", range.reason.rawValue)
                .with("tail", range.tail?.count ?? 0)
        case .seal(let number, let length):
            return item("seal").with("number", Int(number.rawValue)).with("length", Int(length.rawValue))
        case .mark(_, let milliseconds, _): return item("mark").with("received_ms", Int(milliseconds))
        case .hello, .ready, .batch, .ack, .nak, .stored, .note, .ping, .pong, .wait, .move, .err, .bye:
            return item("message")
        }
    }

    // MARK: State

    mutating func inspectState(_ path: String) throws(FileSystemError) {
        let bytes = try self.files.contents(of: path, byteCountMax: 1 << 30) ?? []
        guard let image = StateImage(bytes: bytes) else {
            self.damage(
                path, at: 0, byteCount: bytes.count, "it has no complete commit",
                keeps: "nothing of it: it is set aside, and \(path).previous is used if it exists")
            return
        }
        for (key, value) in image.entries.sorted(by: { $0.key < $1.key }) {
            // With the key of erasures, ids could be guessed from their digests.
            let isSecret = key == "key" && Path.name(of: path).hasPrefix(ErasureLog<Files>.name)
            self.item(InspectItem("entry").with("key", key).with("value", isSecret ? "not shown" : value))
        }
        guard image.validByteCount < bytes.count else { return }
        self.damage(
            path, at: image.validByteCount, byteCount: bytes.count - image.validByteCount,
            "a commit is torn or its checksum does not match", keeps: "the \(image.entries.count) entries before it")
    }

    // MARK: Sources and manifests

    mutating func inspectSources(_ path: String, _ status: FileStatus) throws(FileSystemError) {
        let lines = path.hasSuffix(".sources") ? String(path.dropLast(8)) + ".ndjson" : path + ".ndjson"
        let linesByteCount = try self.files.status(at: lines)?.byteCount
        var reader = try SourceRuns(
            path: path, byteCount: status.byteCount, linesByteCount: linesByteCount ?? .max, files: self.files)
        var end = 0
        while let item = try reader.next() {
            switch item {
            case .open(let description, _):
                self.item(
                    InspectItem("open").with("stream", description.name.description).with("source", description.source)
                        .with("env", description.environment).with("bundle", description.bundle))
            case .run(let run, _):
                end = run.range.upperBound
                let item = InspectItem("run").with("start", run.range.lowerBound).with("bytes", run.range.count)
                    .with("lines", run.lineCount).with("stream", run.description.name.description)
                    .with("from", Int(run.offset.rawValue))
                    .with("received_ms", Int(run.receivedAt.milliseconds))
                self.item(run.emptyLineCount > 0 ? item.with("empty", run.emptyLineCount) : item)
            case .damaged(let range, let reason):
                self.damage(
                    path, at: range.lowerBound, byteCount: range.count, reason,
                    keeps: "the lines; a replay leaves out and reports those whose run is damaged")
            }
        }
        if let linesByteCount, end < linesByteCount {
            self.note("\(path): \(linesByteCount - end) bytes of \(Path.name(of: lines)) have no run")
        }
    }

    /// Inspects a sealed file by decompressing it.
    mutating func inspectGzip(_ path: String, _ status: FileStatus) throws(FileSystemError) {
        guard path.hasSuffix(".gz") else {
            return self.note("\(path) is compressed; inspect the output of gzip -d")
        }
        var bytes = try PartBytes(path: String(path.dropLast(3)), isSealed: true, files: self.files)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var lineCount = 0
        while true {
            let count: Int
            do throws(PartReadError) {
                count = try bytes.read(into: buffer)
            } catch {
                switch error {
                case .disk(let cause): throw cause
                case .damaged(_, let offset, let cause):
                    return self.damage(
                        path, at: offset, byteCount: status.byteCount - min(offset, status.byteCount), cause.code,
                        keeps: "it as it is; restore it from a backup")
                }
            }
            if count == 0 { break }
            lineCount += buffer[..<count].count { $0 == 0x0A }
        }
        self.item(InspectItem("gzip").with("lines", lineCount).with("bytes", bytes.position))
    }

    mutating func inspectDayManifest(_ path: String, _ status: FileStatus) throws(FileSystemError) {
        let bytes = try self.files.contents(of: path, byteCountMax: 32 << 20) ?? []
        if let manifest = DayManifest(json: bytes) {
            return self.item(
                InspectItem("day").with("revision", manifest.revision).with("day", manifest.day.description)
                    .with("lines", manifest.lineCount).with("bytes", manifest.byteCount)
                    .with("files", manifest.files.count).with("sealed_at", manifest.sealedAt.text))
        }
        guard let manifest = ExportDayManifest(json: bytes) else {
            return self.damage(
                path, at: 0, byteCount: status.byteCount, "it is not a readable manifest",
                keeps: "it; the day's next seal rewrites it")
        }
        self.item(
            InspectItem("day").with("revision", manifest.revision).with("records", manifest.totals.recordCount)
                .with("events", manifest.totals.eventCount).with("parts", manifest.parts.count))
    }

    mutating func inspectManifest(_ path: String, _ status: FileStatus) throws(FileSystemError) {
        let bytes = try self.files.contents(of: path) ?? []
        if DeadLetterFile.isDead(path), let manifest = DeadLetterManifest(json: bytes) {
            self.item(
                InspectItem("manifest").with("provider", manifest.provider).with("env", manifest.env)
                    .with("day", manifest.day).with("records", manifest.recordCount).with("sha256", manifest.sha256))
            return try self.inspectFile(
                of: path, ".ndjson", manifest.gzipSHA256 ?? manifest.sha256, isCompressed: manifest.gzipSHA256 != nil)
        }
        guard let manifest = PartManifest(json: bytes) else {
            self.damage(
                path, at: 0, byteCount: bytes.count, "it is not a readable manifest",
                keeps: "the part; regenerate its day with waybill replay")
            return
        }
        self.item(
            InspectItem("manifest").with("provider", manifest.provider).with("env", manifest.env)
                .with("day", manifest.day.description).with("records", manifest.recordCount)
                .with("events", manifest.eventCount).with("sha256", manifest.sha256))
        for suffix in Self.recordSuffixes {
            try self.inspectFile(
                of: path, suffix, manifest.gzipSHA256 ?? manifest.sha256, isCompressed: manifest.gzipSHA256 != nil)
        }
    }

    /// Compares the file that a manifest names with its digest.
    private mutating func inspectFile(
        of manifest: String, _ suffix: String, _ sha256: String, isCompressed: Bool
    ) throws(FileSystemError) {
        let stem = manifest.dropLast(".manifest.json".utf8.count)
        let path = "\(stem)\(suffix)\(isCompressed ? ".gz" : "")"
        guard let length = try self.files.status(at: path)?.byteCount else { return }
        let own = try SHA256Digest.ofFile(path, self.files)
        guard own != sha256 else { return }
        self.damage(
            path, at: 0, byteCount: length, "its SHA-256 is \(own), not that of its manifest",
            keeps: "it as it is; regenerate its day with waybill replay")
    }

    // MARK: Lines

    mutating func inspectLines(_ path: String, _ type: FileType) throws(FileSystemError) {
        var reader = try LineReader(path: path, files: self.files)
        var cutter = RecordCutter(type == .records && path.hasSuffix(".csv") ? .rows : .lines)
        var sequence: UInt64?
        if type == .lines(isSegment: true), let name = SegmentName(parsing: Path.name(of: path)), !name.isKept {
            sequence = name.firstSequence
        }
        var count = 0
        while let line = try reader.next(endingAt: { cutter.end(in: $0, from: 0) }) {
            // A list of profile updates gets its last line feed when it is closed.
            guard line.isTerminated || (type == .records && path.hasSuffix(".json")) else {
                self.damage(
                    path, at: line.range.lowerBound, byteCount: line.range.count, "the last line is cut off",
                    keeps: type == .lines(isSegment: true)
                        ? "what is before it; while the app runs, it may still be writing the line"
                        : "what the checkpoint covers")
                break
            }
            count += 1
            if let expected = sequence {
                let own = Self.sequence(in: line.bytes)
                if own != expected {
                    self.damage(
                        path, at: line.range.lowerBound, byteCount: line.range.count,
                        own.map { "seq is \($0), expected \(expected)" } ?? "it has no seq",
                        keeps: "it: lines are shipped as they are")
                }
                sequence = (own ?? expected) &+ 1
            }
            self.item(
                InspectItem(type == .records ? "record" : "line").with("offset", line.range.lowerBound)
                    .with("bytes", line.range.count).with("text", Self.excerpt(line.bytes)))
        }
    }

    /// Reports the entries of a part for the systemd journal.
    mutating func inspectEntries(_ path: String, _ status: FileStatus) throws(FileSystemError) {
        var reader = try LineReader(path: path, byteCount: status.byteCount, lineByteCountMax: 0, files: self.files)
        var cutter = RecordCutter(.entries)
        while let entry = try cutter.next(in: &reader) {
            let start = entry.range.lowerBound
            guard entry.isTerminated, !cutter.isDamaged else {
                return self.damage(
                    path, at: start, byteCount: status.byteCount - start,
                    cutter.isDamaged ? "a value does not have its stated length" : "the last entry is cut off",
                    keeps: "what the checkpoint covers")
            }
            self.item(InspectItem("record").with("offset", start).with("bytes", entry.range.count))
        }
    }

    private static func excerpt(_ bytes: [UInt8]) -> String {
        let text = String(decoding: bytes.prefix(160), as: UTF8.self)
        return bytes.count > 160 ? text + "…" : text
    }

    /// The number after the first `"seq":`.
    private static func sequence(in line: [UInt8]) -> UInt64? {
        guard let range = line.firstRange(of: Array("\"seq\":".utf8)) else { return nil }
        let digits = line[range.upperBound...].prefix { (0x30...0x39).contains($0) }
        return UInt64(String(decoding: digits, as: UTF8.self))
    }
}
