internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillSystem

/// The dead letters of one part's delivery, `dead/delivery-00000.ndjson`: one line for each event, in the format of the
/// exports' dead letters.
///
/// A process that died may have written uncommitted lines; opening the log cuts them off. Once the part is delivered,
/// the log is compressed, and `dead/delivery-00000.manifest.json` describes it. If the part's number is used again, for
/// another part, the log continues.
final class RefusalLog<Files: FileSystem> {
    private let stem: String
    private var path: String { self.stem + ".ndjson" }
    private let files: Files
    private var file: FileID?
    private(set) var byteCount: Int

    /// - Parameter byteCount: the committed length of the file; `nil` for a new delivery.
    init(folder: String, partNumber: String, byteCount: Int?, files: Files) throws(FileSystemError) {
        self.stem = "\(folder)/dead/delivery-\(partNumber)"
        self.files = files
        let found = try Self.byteCount(of: self.stem + ".ndjson", files)
        self.byteCount = byteCount.map { min($0, found) } ?? found
        if found > self.byteCount { try self.open() }
    }

    deinit {
        if let file { self.files.close(file) }
    }

    /// The length of the log, inflated if it is compressed.
    private static func byteCount(of path: String, _ files: Files) throws(FileSystemError) -> Int {
        if let status = try files.status(at: path) { return status.byteCount }
        guard try files.status(at: path + ".gz") != nil else { return 0 }
        var count = 0
        do throws(PartReadError) {
            try StoredBytes.visit(path, isCompressed: true, files: files) { count += $0.count }
        } catch {
            throw error.onDisk
        }
        return count
    }

    private func open() throws(FileSystemError) {
        try self.files.createDirectories(Path.parent(of: self.path))
        if try self.files.status(at: self.path) == nil, try self.files.status(at: self.path + ".gz") != nil {
            do throws(PartReadError) {
                try StoredBytes.inflate(self.path, files: self.files)
            } catch {
                throw error.onDisk
            }
        }
        // Without its manifest, the compressed log is not taken for the one that continues.
        for path in [self.stem + ".manifest.json", self.path + ".gz"] where try self.files.status(at: path) != nil {
            try self.files.unlink(path)
            try self.files.synchronizeDirectory(Path.parent(of: path))
        }
        let file = try self.files.open(self.path, .append)
        self.file = file
        try self.files.truncate(file, to: self.byteCount)
        try self.files.synchronizeDirectory(Path.parent(of: self.path))
    }

    /// Compresses the log, which gets nothing more; repeating it changes nothing.
    func compress(_ provider: Destination, _ env: DeploymentEnvironment, _ day: CalendarDay) throws(FileSystemError) {
        if let file { self.files.close(file) }
        self.file = nil
        guard try self.files.status(at: self.path) != nil else { return }
        var manifest = try DeadLetterManifest(of: self.path, provider: provider, env: env, day: day, self.files)
        var work = try GzipWork(path: self.path, byteCount: self.byteCount, level: 1, files: self.files)
        manifest.gzipSHA256 = try work.run()
        try self.files.replace(self.stem + ".manifest.json", with: ManifestLine.sealed(manifest.json))
        try self.files.unlink(self.path)
        try self.files.synchronizeDirectory(Path.parent(of: self.path))
    }

    /// Returns once the lines are durable; a commit with ``byteCount`` makes them valid.
    func append(_ lines: [UInt8]) throws(FileSystemError) {
        guard !lines.isEmpty else { return }
        if self.file == nil { try self.open() }
        guard let file else { return }
        do throws(FileSystemError) {
            try self.files.writeAll(file, lines)
            try self.files.synchronize(file)
        } catch {
            // A partial line may exist; the next append starts after the last complete line.
            self.files.close(file)
            self.file = nil
            throw error
        }
        self.byteCount += lines.count
    }
}

/// Writes the lines for a record that is given up, one for each of its events.
struct DeliveryDeadLetter {
    let provider: DeliverableProvider
    let partName: String
    let mappingVersion: Int
    let at: WallTime

    /// The line of the first event has the record as `content`.
    func lines(_ givenUp: GivenUpRecord, _ record: PartRecord) -> [UInt8] {
        var json = JSONWriter()
        for (index, id) in record.eventIDs.enumerated() {
            json.needsComma = false
            json.beginObject()
            json.member("provider", self.provider.rawValue)
            json.member("reason", "\(self.provider.rawValue).\(givenUp.reason.rawValue)")
            json.member("detail", givenUp.detail)
            json.member("field", givenUp.field)
            json.member("limit", verbatim: "null")
            json.member("id", id)
            json.member("writer", verbatim: "null")
            json.member("seq", verbatim: "null")
            json.member("at", self.at.text)
            json.member("mapping", self.mappingVersion)
            json.member("part", self.partName)
            json.member("record", record.number)
            if index == 0 {
                json.key("content")
                self.write(record.content, to: &json)
            }
            json.endObject()
            json.output.append(UInt8(ascii: "\n"))
        }
        return Array(json.output.bytes)
    }

    /// A profile record has several updates, so it is not a single value.
    private func write(_ content: [UInt8], to json: inout JSONWriter) {
        let isList = self.provider.facts.updateToken != nil
        if isList { json.beginArray() }
        content.withUnsafeBytes { json.verbatim($0) }
        if isList { json.endArray() }
    }
}
