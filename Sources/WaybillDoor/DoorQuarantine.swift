internal import WaybillEvent
internal import WaybillIngest
internal import WaybillJSON
internal import WaybillSystem

/// Events that are no lines, with the reason, as they came.
///
///     quarantine/date=2026-11-20/no-name.ndjson
///     {"received":"2026-11-20T…Z","bundle":"com.example.shop","env":"prod","dialect":"segment","event":"…"}
///
/// `event` is a string, for the bytes need not be JSON. A day's files together have at most ``byteCountMax`` bytes; what comes
/// beyond is counted, and its request is answered as if it were kept: a sender that repeats it would repeat it for ever.
struct DoorQuarantine<Files: FileSystem>: ~Copyable {
    static var byteCountMax: Int { 256 << 20 }

    private let root: String
    private let files: Files
    private var day: String?
    private var byteCount = 0
    private var open: [IngestFault: FileID] = [:]
    private var hasNewNames = false
    /// Events that the day had no room for.
    private(set) var droppedCount = 0

    init(root: String, files: Files) {
        self.root = root
        self.files = files
    }

    deinit {
        for file in self.open.values { self.files.close(file) }
    }

    private var folder: String { Path.join(self.root, "date=\(self.day ?? "")") }

    mutating func add(
        _ event: ArraySlice<UInt8>, _ reason: IngestFault, _ dialect: Dialect, _ source: IngestSource, _ now: WallTime
    ) throws(FileSystemError) {
        try self.turn(now)
        let line =
            JSONWriter.object { json in
                json.member("received", now.text)
                json.member("bundle", source.bundle)
                json.member("env", source.environment.rawValue)
                json.member("dialect", dialect.rawValue)
                event.withUnsafeBytes { json.member("event", $0) }
            } + [0x0A]
        guard self.byteCount + line.count <= Self.byteCountMax else {
            self.droppedCount += 1
            return
        }
        let file = try self.file(of: reason)
        try line.withUnsafeBufferPointer { (bytes) throws(FileSystemError) in
            try self.files.writeAll(file, UnsafeRawBufferPointer(bytes))
        }
        self.byteCount += line.count
    }

    private mutating func turn(_ now: WallTime) throws(FileSystemError) {
        let day = String(now.text.prefix(10))
        guard day != self.day else { return }
        for file in self.open.values { self.files.close(file) }
        self.open = [:]
        self.day = day
        try self.files.createDirectories(self.folder)
        self.byteCount = 0
        for name in try self.files.list(self.folder) {
            self.byteCount += try self.files.status(at: Path.join(self.folder, name))?.byteCount ?? 0
        }
    }

    private mutating func file(of reason: IngestFault) throws(FileSystemError) -> FileID {
        if let file = self.open[reason] { return file }
        let file = try self.files.open(Path.join(self.folder, reason.rawValue + ".ndjson"), .append)
        self.open[reason] = file
        self.hasNewNames = true
        return file
    }

    mutating func synchronize() throws(FileSystemError) {
        for file in self.open.values { try self.files.synchronize(file) }
        guard self.hasNewNames else { return }
        try self.files.synchronizeDirectory(self.folder)
        self.hasNewNames = false
    }
}
