internal import WaybillEvent
package import WaybillIngest
internal import WaybillJSON
package import WaybillSystem

/// Events that are no lines, with the reason, as they came.
///
///     quarantine/date=2026-11-20/no-name.ndjson
///     {"received":"2026-11-20T…Z","key":"wk_…","bundle":"com.example.shop","env":"prod","dialect":"segment","event":"…"}
///
///     add ─▶ lines of each reason, up to 1 MiB ─▶ one write(2) ─▶ synchronize: the rest, and fdatasync of what was written
///
/// So a group of requests costs one write and one sync for each reason, however many events it has.
///
/// `event` is a string, for the bytes need not be JSON. Each key has its own room for a day
/// (``IngestSource/quarantineByteCountMax``), so that one that sends rubbish takes no room from others; what comes beyond is
/// counted, and its request is answered as if it were kept: a sender that repeats it would repeat it for ever.
package struct DoorQuarantine<Files: FileSystem>: ~Copyable {
    /// Lines of one reason that wait in memory for a write.
    package static var waitingByteCountMax: Int { 1 << 20 }

    /// The file of a reason.
    private struct Page {
        let file: FileID
        var isSynchronized = true
        /// Lines that wait for a write.
        var waiting: [UInt8] = []
    }

    let root: String
    private let files: Files
    private var day: String?
    /// Bytes of the day that each key has, with what waits.
    private var byteCounts: [String: Int] = [:]
    private var pages: [IngestFault: Page] = [:]
    private var hasNewNames = false
    /// Events that their keys had no room for.
    package private(set) var droppedCount = 0

    package init(root: String, files: Files) {
        self.root = root
        self.files = files
    }

    deinit {
        for page in self.pages.values { self.files.close(page.file) }
    }

    private var folder: String { Path.join(self.root, "date=\(self.day ?? "")") }

    /// Adds an event; it is durable after ``synchronize()``.
    package mutating func add(
        _ event: ArraySlice<UInt8>, _ reason: IngestFault, _ dialect: Dialect, _ source: IngestSource, _ now: WallTime
    ) throws(FileSystemError) {
        try self.turn(now)
        let line =
            JSONWriter.object { json in
                json.member("received", now.text)
                json.member("key", source.key)
                json.member("bundle", source.bundle)
                json.member("env", source.environment.rawValue)
                json.member("dialect", dialect.rawValue)
                event.withUnsafeBytes { json.member("event", $0) }
            } + [0x0A]
        guard self.byteCounts[source.key, default: 0] + line.count <= source.quarantineByteCountMax else {
            self.droppedCount += 1
            return
        }
        if self.pages[reason] == nil { try self.open(reason) }
        self.byteCounts[source.key, default: 0] += line.count
        self.pages[reason]?.waiting += line
        if self.pages[reason].map({ $0.waiting.count >= Self.waitingByteCountMax }) ?? false { try self.write(reason) }
    }

    private mutating func turn(_ now: WallTime) throws(FileSystemError) {
        let day = String(now.text.prefix(10))
        guard day != self.day else { return }
        self.close()
        let folder = Path.join(self.root, "date=\(day)")
        try self.files.createDirectories(folder)
        for name in try self.files.list(folder) { try self.count(Path.join(folder, name)) }
        self.day = day
    }

    /// Adds what a file has that an earlier process wrote.
    private mutating func count(_ path: String) throws(FileSystemError) {
        // Beyond the key a line is not looked at; a line that is cut off has its whole length in its range.
        var reader = try LineReader(path: path, lineByteCountMax: 512, files: self.files)
        while let line = try reader.next() {
            // {"received":"2026-11-20T10:00:00.000Z","key":"
            let name = line.bytes.dropFirst(46).prefix { $0 != UInt8(ascii: "\"") }
            self.byteCounts[String(decoding: name, as: UTF8.self), default: 0] += line.range.count
        }
    }

    private mutating func open(_ reason: IngestFault) throws(FileSystemError) {
        let file = try self.files.open(Path.join(self.folder, reason.rawValue + ".ndjson"), .append)
        do throws(FileSystemError) {
            // A process that was killed, or a write that failed, may have left a part of a line.
            let byteCount = try self.files.status(file).byteCount
            let end = try self.endOfLines(of: file, byteCount)
            if end < byteCount { try self.files.truncate(file, to: end) }
            self.pages[reason] = Page(file: file)
            self.hasNewNames = true
        } catch {
            self.files.close(file)
            throw error
        }
    }

    /// The position after the last line feed.
    private func endOfLines(of file: FileID, _ byteCount: Int) throws(FileSystemError) -> Int {
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        var end = byteCount
        while end > 0 {
            let start = max(0, end - piece.count)
            let wanted = end - start
            let count = try piece.withMutableBytes { (room) throws(FileSystemError) in
                try self.files.readFully(
                    file, at: start, into: UnsafeMutableRawBufferPointer(rebasing: room[..<wanted]))
            }
            if let last = piece[..<count].lastIndex(of: 0x0A) { return start + last + 1 }
            end = start
        }
        return 0
    }

    /// Writes what waits for a reason.
    private mutating func write(_ reason: IngestFault) throws(FileSystemError) {
        guard let page = self.pages[reason], !page.waiting.isEmpty else { return }
        self.pages[reason]?.isSynchronized = false
        self.pages[reason]?.waiting = []
        try page.waiting.withUnsafeBufferPointer { (bytes) throws(FileSystemError) in
            try self.files.writeAll(page.file, UnsafeRawBufferPointer(bytes))
        }
    }

    /// Returns once everything that was added is durable; after an error call ``giveUp()``.
    package mutating func synchronize() throws(FileSystemError) {
        for reason in IngestFault.allCases {
            try self.write(reason)
            guard let page = self.pages[reason], !page.isSynchronized else { continue }
            try self.files.synchronize(page.file)
            self.pages[reason]?.isSynchronized = true
        }
        guard self.hasNewNames else { return }
        try self.files.synchronizeDirectory(self.folder)
        self.hasNewNames = false
    }

    /// Forgets what waits.
    ///
    /// Some of it may be there; its senders are told to send it again. The files are opened again, for one whose sync failed
    /// is in doubt for good, and the day is measured again.
    package mutating func giveUp() {
        self.close()
        self.day = nil
    }

    private mutating func close() {
        for page in self.pages.values { self.files.close(page.file) }
        self.pages = [:]
        self.byteCounts = [:]
        self.hasNewNames = false
    }
}
