internal import WaybillExport
internal import WaybillJSON
internal import WaybillSystem

/// The dead letters of one part's delivery, `dead/delivery-00000.ndjson`: one line for each event, in the format of the
/// exports' dead letters.
///
/// A process that died may have written uncommitted lines; opening the log cuts them off.
final class RefusalLog<Files: FileSystem> {
    private let path: String
    private let files: Files
    private var file: FileID?
    private(set) var byteCount: Int

    /// - Parameter byteCount: the committed length of the file; `nil` for a new delivery.
    init(folder: String, partNumber: String, byteCount: Int?, files: Files) throws(FileSystemError) {
        self.path = "\(folder)/dead/delivery-\(partNumber).ndjson"
        self.files = files
        let found = try files.status(at: self.path)?.byteCount ?? 0
        self.byteCount = byteCount.map { min($0, found) } ?? found
        if found > self.byteCount { try self.open() }
    }

    deinit {
        if let file { self.files.close(file) }
    }

    private func open() throws(FileSystemError) {
        try self.files.createDirectories(Path.parent(of: self.path))
        let file = try self.files.open(self.path, .append)
        self.file = file
        try self.files.truncate(file, to: self.byteCount)
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
        let isList = self.provider == .mixpanelProfiles
        if isList { json.beginArray() }
        content.withUnsafeBytes { json.verbatim($0) }
        if isList { json.endArray() }
    }
}
