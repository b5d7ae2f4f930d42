package import WaybillData
package import WaybillExport
package import WaybillSystem

/// The record of erasures in `state/erasures` and, once more, in `archive/_erasures`, which outlives every checkpoint.
///
///     key                       32 random bytes: the key of the digests
///     person:<digest>           what was erased of one person, and when; no id, no content
///     exchange                  pairs `new>old` of files that are being exchanged, below the data directory
///     set:<state>:<entry>       an entry that a state gets with this exchange; empty: it is removed
///
/// Life of one exchange: the new files are written next to the old ones and synced → one commit names them, and the
/// entries of checkpoints that change with them → each takes its name → the checkpoints are committed → one commit
/// removes the names. What is done twice changes nothing, so a start that finds an exchange finishes it.
///
/// A state that is read up to its damage would bring people back. So there are two copies, each commit is made in the
/// first one and then in the second, and a crash tears one at most: if neither is whole, nothing is read.
///
/// - SeeAlso: `Protocol/formats/erasures.md`.
package struct ErasureLog<Files: FileSystem>: ~Copyable {
    package static var name: String { "erasures" }
    /// The suffix of a new file until it takes the old one's name.
    package static var newSuffix: String { ".erase" }

    static var keyKey: String { "key" }
    static var personPrefix: String { "person:" }
    private static var exchangeKey: String { "exchange" }
    private static var setPrefix: String { "set:" }

    private let data: DataDirectory<Files>
    private var state: StateStore<Files>
    private var second: StateStore<Files>

    /// Opens or creates the record, with two equal copies; the caller holds the directory's lock.
    ///
    /// Fails if neither copy is whole.
    package init(_ data: DataDirectory<Files>) throws(FileSystemError) {
        let entries = try ErasureEntries(in: data).entries ?? [:]
        try data.files.createDirectories(data.archive)
        let state = try Self.open(Self.path(in: data), entries, data.files)
        let second = try Self.open(Self.secondPath(in: data), entries, data.files)
        self.data = data
        self.state = state
        self.second = second
    }

    /// Opens a copy and gives it these entries.
    private static func open(
        _ path: String, _ entries: [String: String], _ files: Files
    ) throws(FileSystemError) -> StateStore<Files> {
        var store = try StateStore(path: path, files: files)
        var changes: [String: String?] = [:]
        for key in store.entries.keys where entries[key] == nil { changes.updateValue(nil, forKey: key) }
        for (key, value) in entries where store.entries[key] != value { changes[key] = .some(value) }
        // The first commit rewrites the file: no older state of a damaged copy ever looks whole.
        try store.commit(changes)
        try store.settle()
        return store
    }

    /// Makes changes durable in both copies.
    private mutating func commit(_ changes: [String: String?]) throws(FileSystemError) {
        try self.state.commit(changes)
        try self.second.commit(changes)
    }

    package static func path(in data: DataDirectory<Files>) -> String {
        Path.join(data.state, Self.name)
    }

    /// The path of the second copy, which is not lost with `state`, and is in each backup of the archive.
    package static func secondPath(in data: DataDirectory<Files>) -> String {
        Path.join(data.archive, "_" + Self.name)
    }

    /// The path of the copy of a checkpoint that is used when the checkpoint is lost.
    package static func copyPath(of projection: String, in data: DataDirectory<Files>) -> String {
        Path.join(data.state, "\(Self.name)-\(projection)")
    }

    // MARK: People

    /// The key of the digests; `nil` before the first erasure.
    package var key: [UInt8]? { Self.key(in: self.state.entries) }

    /// The key of a directory's digests; `nil` before the first erasure.
    package static func recordedKey(in data: DataDirectory<Files>) throws(FileSystemError) -> [UInt8]? {
        try ErasureEntries(in: data).entries.flatMap { Self.key(in: $0) }
    }

    /// What differs once the record has changed: the files of both copies as they are now.
    package static func stamp(in data: DataDirectory<Files>) throws(FileSystemError) -> [FileStatus?] {
        [try data.files.status(at: Self.path(in: data)), try data.files.status(at: Self.secondPath(in: data))]
    }

    /// Whether an erasure has begun and not come to its end: files may still have the person's events.
    package static func isUnderWay(in data: DataDirectory<Files>) throws(FileSystemError) -> Bool {
        let entries = try ErasureEntries(in: data).entries ?? [:]
        let people = entries.filter { $0.key.hasPrefix(Self.personPrefix) }
        return entries[Self.exchangeKey] != nil || people.values.contains { ErasureRecord(text: $0)?.isDone == false }
    }

    package mutating func use(key: [UInt8]) throws(FileSystemError) {
        try self.commit([
            Self.keyKey: .some(key.map { Hexadecimal.text($0, digitCount: 2) }.joined())
        ])
    }

    package func record(of digest: String) -> ErasureRecord? {
        self.state.entries[Self.personPrefix + digest].flatMap { ErasureRecord(text: $0) }
    }

    /// What was erased of a person, for who does not hold the directory's lock.
    package static func record(
        of digest: String, in data: DataDirectory<Files>
    ) throws(FileSystemError) -> ErasureRecord? {
        try ErasureEntries(in: data).entries?[Self.personPrefix + digest].flatMap { ErasureRecord(text: $0) }
    }

    /// Makes the record durable; from now on no reader takes the person's lines.
    package mutating func record(_ record: ErasureRecord, of digest: String) throws(FileSystemError) {
        try self.commit([Self.personPrefix + digest: .some(record.text)])
    }

    static func key(in entries: [String: String]) -> [UInt8]? {
        guard let text = entries[Self.keyKey], text.utf8.count == 64 else { return nil }
        return Hexadecimal.bytes(text)
    }

    static func people(in entries: [String: String]) -> [ErasedPeople.Kind: Set<ErasedPeople.Person>] {
        var people: [ErasedPeople.Kind: Set<ErasedPeople.Person>] = [:]
        for (key, value) in entries where key.hasPrefix(Self.personPrefix) {
            guard let record = ErasureRecord(text: value) else { continue }
            let digest = String(key.dropFirst(Self.personPrefix.utf8.count))
            people[record.kind, default: []].insert(ErasedPeople.Person(digest: digest, mark: record.mark))
        }
        return people
    }

    // MARK: Exchanges

    /// Gives new files the names of old ones, together with entries of checkpoints; durable when it returns.
    ///
    /// - Parameters:
    ///   - pairs: paths below the data directory; the new files are synced.
    ///   - changes: by the name of a state, its entries; `nil` removes one.
    package mutating func exchange(
        _ pairs: [(new: String, old: String)], _ changes: [String: [String: String?]]
    ) throws(FileSystemError) {
        guard !pairs.isEmpty || !changes.isEmpty else { return }
        var entries: [String: String?] = [
            Self.exchangeKey: .some(pairs.map { "\($0.new)>\($0.old)" }.joined(separator: " "))
        ]
        for (state, values) in changes {
            for (key, value) in values { entries["\(Self.setPrefix)\(state):\(key)"] = .some(value ?? "") }
        }
        for folder in Set(pairs.map { Path.parent(of: Path.join(self.data.root, $0.new)) }).sorted() {
            try self.data.files.synchronizeDirectory(folder)
        }
        try self.commit(entries)
        try self.finish()
    }

    /// Finishes an exchange that was interrupted, and makes a copy of the record again that is not whole.
    ///
    /// Does nothing if no one was erased. Fails if neither copy is whole.
    package static func finishExchange(in data: DataDirectory<Files>) throws(FileSystemError) {
        let found = try ErasureEntries(in: data)
        guard let entries = found.entries, entries[Self.exchangeKey] != nil || !found.areEqual else { return }
        var log = try ErasureLog(data)
        try log.finish()
    }

    private mutating func finish() throws(FileSystemError) {
        guard let exchange = self.state.entries[Self.exchangeKey] else { return }
        var folders: Set<String> = []
        for pair in exchange.split(separator: " ") {
            let names = pair.split(separator: ">").map { Path.join(self.data.root, String($0)) }
            guard names.count == 2 else { continue }
            if try self.data.files.status(at: names[0]) != nil { try self.data.files.rename(names[0], to: names[1]) }
            folders.formUnion(names.map { Path.parent(of: $0) })
        }
        for folder in folders.sorted() { try self.data.files.synchronizeDirectory(folder) }
        var changes: [String: [String: String?]] = [:]
        var done: [String: String?] = [:]
        done.updateValue(nil, forKey: Self.exchangeKey)
        for (key, value) in self.state.entries where key.hasPrefix(Self.setPrefix) {
            let fields = key.dropFirst(Self.setPrefix.utf8.count).split(separator: ":", maxSplits: 1)
            done.updateValue(nil, forKey: key)
            guard fields.count == 2 else { continue }
            changes[String(fields[0]), default: [:]].updateValue(value.isEmpty ? nil : value, forKey: String(fields[1]))
        }
        for (state, entries) in changes.sorted(by: { $0.key < $1.key }) {
            var store = try StateStore(path: self.data.statePath(state), files: self.data.files)
            // A state that was lost meanwhile is made again from the files; a few entries of it would mislead.
            guard !store.entries.isEmpty else { continue }
            try store.commit(entries)
        }
        try self.commit(done)
    }
}

/// What was erased of one person, as in `state/erasures`.
///
///     kind=user at=1795165200000 state=done lines=12 bytes=4711 days=2 first=2026-11-19 last=2026-11-20 records=9 mark=…
package struct ErasureRecord: Hashable, Sendable {
    package var kind: ErasedPeople.Kind
    /// When the erasure began.
    package var at: WallTime
    package var isDone = false
    package var lineCount = 0
    package var byteCount = 0
    /// The days of the archive with lines of the person.
    package var days: Set<CalendarDay> = []
    private var dayCount = 0
    private var first: String?
    private var last: String?
    package var recordCount = 0
    /// Tells most ids of others from the person's without a digest (``ErasedPeople``).
    package var mark: UInt64?

    package init(kind: ErasedPeople.Kind, at: WallTime) {
        self.kind = kind
        self.at = at
    }

    /// One line without an LF.
    var text: String {
        var text =
            "kind=\(self.kind.rawValue) at=\(self.at.milliseconds) state=\(self.isDone ? "done" : "begun") "
            + "lines=\(self.lineCount) bytes=\(self.byteCount) days=\(max(self.days.count, self.dayCount))"
        if let first = self.days.min()?.description ?? self.first { text += " first=\(first)" }
        if let last = self.days.max()?.description ?? self.last { text += " last=\(last)" }
        text += " records=\(self.recordCount)"
        if let mark { text += " mark=\(Hexadecimal.text(mark, digitCount: 16))" }
        return text
    }

    /// Parses ``text``; an unreadable count is 0, so that a damaged count brings no one back.
    init?(text: String) {
        var fields: [Substring: Substring] = [:]
        for field in text.split(separator: " ") {
            let parts = field.split(separator: "=", maxSplits: 1)
            if parts.count == 2 { fields[parts[0]] = parts[1] }
        }
        guard let kind = fields["kind"].flatMap({ ErasedPeople.Kind(rawValue: String($0)) }) else { return nil }
        func count(_ name: Substring) -> Int { fields[name].flatMap { Int($0) } ?? 0 }
        self.init(kind: kind, at: WallTime(milliseconds: Int64(count("at"))))
        self.isDone = fields["state"] == "done"
        self.lineCount = count("lines")
        self.byteCount = count("bytes")
        self.dayCount = count("days")
        self.first = fields["first"].map { String($0) }
        self.last = fields["last"].map { String($0) }
        self.recordCount = count("records")
        self.mark = fields["mark"].flatMap { $0.utf8.count == 16 ? UInt64($0, radix: 16) : nil }
    }
}

extension ErasedPeople {
    /// The people whose events were erased from a data directory; `nil` if there are none.
    package static func read<Files: FileSystem>(
        in data: DataDirectory<Files>
    ) throws(FileSystemError) -> ErasedPeople? {
        guard let entries = try ErasureEntries(in: data).entries, let key = ErasureLog<Files>.key(in: entries) else {
            return nil
        }
        let people = ErasureLog<Files>.people(in: entries)
        return people.isEmpty ? nil : ErasedPeople(key: key, people: people)
    }
}
