internal import WaybillEvent
package import WaybillIngest
internal import WaybillJSON
internal import WaybillProtocol
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
/// `event` is a string, for the bytes need not be JSON; what is not UTF-8 is `event_base64` instead, and equal ones that follow
/// each other are one line with a `count`. Each key has its own room for a day (``IngestSource/quarantineByteCountMax``), so that
/// one that sends rubbish takes no room from others. Inside it, an address has at most a quarter of what is left, and a reason at
/// most half of the room: so no sender and no kind of fault takes all of it. More is counted, and its request is
/// answered with success: a sender that repeats it would repeat it for ever. Days that are too old are deleted (``retire(_:)``).
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

    /// A key's bytes of a day.
    ///
    /// Of addresses, those are known that this process has kept something of.
    private struct Room {
        var byteCount = 0
        var reasons: [IngestFault: Int] = [:]
        var addresses: [AddressGroup: Int] = [:]

        func has(_ count: Int, _ reason: IngestFault, _ address: AddressGroup, of byteCountMax: Int) -> Bool {
            let left = byteCountMax - self.byteCount - count
            return left >= 0 && self.addresses[address, default: 0] + count <= left / 4
                && self.reasons[reason, default: 0] + count <= byteCountMax / 2
        }

        mutating func take(_ count: Int, _ reason: IngestFault, _ address: AddressGroup, of byteCountMax: Int) -> Bool {
            guard self.has(count, reason, address, of: byteCountMax) else { return false }
            self.add(count, reason)
            self.addresses[address, default: 0] += count
            return true
        }

        mutating func add(_ count: Int, _ reason: IngestFault?) {
            self.byteCount += count
            if let reason { self.reasons[reason, default: 0] += count }
        }
    }

    let root: String
    private let files: Files
    private var day: String?
    /// What each key has of the day, with what waits.
    private var rooms: [String: Room] = [:]
    private var pages: [IngestFault: Page] = [:]
    private var hasNewNames = false
    /// Events that their keys had no room for.
    package private(set) var droppedCount = 0
    /// How long days are kept; `nil`: for ever.
    private var keeping: Keeping?
    /// The day on which it was last looked up what is too old.
    private var lookedOn: CalendarDay?
    /// What was too old then and is still to be deleted, the oldest last.
    private var oldDays: [CalendarDay] = []
    private var failures: [FileSystemError] = []

    private struct Keeping {
        let dayCountMax: Int
        let programDate: WallTime
    }

    package init(root: String, files: Files) {
        self.root = root
        self.files = files
    }

    deinit {
        for page in self.pages.values { self.files.close(page.file) }
    }

    private var folder: String { Path.join(self.root, "date=\(self.day ?? "")") }

    /// Adds an event that came `count` times; it is durable after ``synchronize()``.
    ///
    /// - Returns: whether there was room for it; else it is counted.
    package mutating func add(
        _ event: ArraySlice<UInt8>, count: Int = 1, _ reason: IngestFault, _ dialect: Dialect, _ source: IngestSource,
        _ address: AddressGroup, _ now: WallTime
    ) throws(FileSystemError) -> Bool {
        try self.turn(now)
        let byteCountMax = source.quarantineByteCountMax
        // A line is longer than its event, and takes the time of all keys to write.
        guard self.rooms[source.key, default: Room()].has(event.count, reason, address, of: byteCountMax) else {
            self.droppedCount += count
            return false
        }
        let line =
            JSONWriter.object { json in
                json.member("received", now.text)
                json.member("key", source.key)
                json.member("bundle", source.bundle)
                json.member("env", source.environment.rawValue)
                json.member("dialect", dialect.rawValue)
                if count > 1 { json.member("count", count) }
                event.withUnsafeBytes { bytes in
                    // A line is text, whatever came.
                    guard UTF8Text.firstInvalidOffset(in: bytes) != nil else { return json.member("event", bytes) }
                    json.member("event_base64", Base64.text(bytes))
                }
            } + [0x0A]
        guard self.rooms[source.key, default: Room()].take(line.count, reason, address, of: byteCountMax) else {
            self.droppedCount += count
            return false
        }
        if self.pages[reason] == nil { try self.open(reason) }
        self.pages[reason]?.waiting += line
        if self.pages[reason].map({ $0.waiting.count >= Self.waitingByteCountMax }) ?? false { try self.write(reason) }
        return true
    }

    private mutating func turn(_ now: WallTime) throws(FileSystemError) {
        let day = String(now.text.prefix(10))
        guard day != self.day else { return }
        self.close()
        let folder = Path.join(self.root, "date=\(day)")
        try self.files.createDirectories(folder)
        for name in try self.files.list(folder) {
            let reason = IngestFault.allCases.first { name == $0.rawValue + ".ndjson" }
            try self.count(Path.join(folder, name), reason)
        }
        self.day = day
    }

    /// Adds what a file has that an earlier process wrote.
    private mutating func count(_ path: String, _ reason: IngestFault?) throws(FileSystemError) {
        // After the key a line is not looked at; a line that is cut off has its whole length in its range.
        var reader = try LineReader(path: path, lineByteCountMax: 512, files: self.files)
        while let line = try reader.next() {
            // {"received":"2026-11-20T10:00:00.000Z","key":"
            let name = line.bytes.dropFirst(46).prefix { $0 != UInt8(ascii: "\"") }
            self.rooms[String(decoding: name, as: UTF8.self), default: Room()].add(line.range.count, reason)
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
        self.rooms = [:]
        self.hasNewNames = false
    }

    // MARK: Old days

    /// Bounds how long days are kept once they are over.
    ///
    /// - Parameter programDate: a clock that shows an earlier time is wrong.
    package mutating func keep(dayCountMax: Int, since programDate: WallTime) {
        self.keeping = Keeping(dayCountMax: dayCountMax, programDate: programDate)
        self.lookedOn = nil
    }

    /// Deletes one day that is too old, if there is one.
    ///
    /// What is too old is looked up once a day: one that cannot be deleted is tried again on the next. A clock before the
    /// youngest day, or before the program's date, is wrong and deletes nothing.
    package mutating func retire(_ now: WallTime) -> QuarantineRetirement {
        guard let keeping, let today = CalendarDay(String(now.text.prefix(10))) else { return .done }
        if self.lookedOn != today {
            self.lookedOn = today
            (self.oldDays, self.failures) = ([], [])
            do throws(FileSystemError) {
                let days = try self.days()
                guard let youngest = days.max() else { return .done }
                guard youngest <= today, keeping.programDate <= now else {
                    return .clockDoubted(now, youngest: youngest)
                }
                self.oldDays = days.filter { today.daysSince1970 - $0.daysSince1970 > keeping.dayCountMax }.sorted(
                    by: >)
            } catch {
                return .failed(error, dayCount: 0)
            }
        }
        return self.deleteOldest()
    }

    private mutating func deleteOldest() -> QuarantineRetirement {
        while let day = self.oldDays.popLast() {
            do throws(FileSystemError) {
                // A clock that was ahead for a moment may come back to it.
                if self.day == day.description { self.giveUp() }
                try self.files.removeTree(self.folder(of: day))
                return .deleted(day)
            } catch {
                self.failures.append(error)
            }
        }
        guard let first = self.failures.first else { return .done }
        defer { self.failures = [] }
        return .failed(first, dayCount: self.failures.count)
    }

    /// The days that have a folder; what has another name, and what is not a folder itself, is not the quarantine's.
    private func days() throws(FileSystemError) -> [CalendarDay] {
        // Nothing was ever put there.
        guard try self.files.status(at: self.root) != nil else { return [] }
        var days: [CalendarDay] = []
        for name in try self.files.list(self.root) where name.utf8.starts(with: "date=".utf8) {
            guard let day = CalendarDay(String(Substring(name.utf8.dropFirst(5)))),
                try self.files.status(ofEntry: self.folder(of: day))?.kind == .directory
            else { continue }
            days.append(day)
        }
        return days
    }

    private func folder(of day: CalendarDay) -> String { Path.join(self.root, "date=\(day)") }
}

/// The result of the quarantine's days that are too old.
package enum QuarantineRetirement: Hashable, Sendable {
    /// None is left to be deleted on this day.
    case done
    /// One was deleted; there may be more.
    case deleted(CalendarDay)
    /// So many days stay until tomorrow, the first one for this error; 0: they could not be listed.
    case failed(FileSystemError, dayCount: Int)
    /// The clock shows a time that cannot be, so all days stay.
    case clockDoubted(WallTime, youngest: CalendarDay)
}
