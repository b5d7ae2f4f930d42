internal import WaybillSystem

/// What ended the door while it filled its window, for an operator.
package enum WindowNotice: Hashable, Sendable {
    case setAside(file: String, offset: Int, byteCount: Int, signal: Int)
    /// So many starts in a row, without a fault of the program.
    case ended(file: String, starts: Int, offset: Int?)
}

/// Keeps the door alive that fills its window: a line of a segment that ends it twice is not read again.
///
///     <quarantine>/readers          its place (``ReadingPlaces``)
///     <quarantine>/readers.lines    a state: <name of the segment>/<offset> to the signal
///
/// The line stays in its segment, byte for byte, and goes where the others go; a repeat of its event is found later, by providers
/// and `--distinct`.
struct WindowGuard<Files: FileSystem> {
    private let records: RecordGuard
    private let path: String
    private let files: Files
    /// By segment.
    private var unread: [String: Set<Int>] = [:]
    private(set) var notices: [WindowNotice] = []

    /// - Parameter quarantine: the door's, where it is remembered.
    init(_ places: ReadingPlaces, quarantine: String, files: Files) {
        self.records = RecordGuard(places, reader: "window")
        self.path = Path.join(quarantine, "readers.lines")
        self.files = files
    }

    /// Reads which lines are not read.
    mutating func load() throws(FileSystemError) {
        for key in try StateImage.read(self.path, files: self.files)?.entries.keys.sorted() ?? [] {
            guard let slash = key.lastIndex(of: "/"), let offset = Int(key[key.index(after: slash)...]) else {
                continue
            }
            self.unread[String(key[..<slash]), default: []].insert(offset)
        }
    }

    /// Reads the whole lines of a segment.
    ///
    /// - Parameter name: without what an agent adds when it has shipped it.
    mutating func read(_ bytes: [UInt8], of name: String, _ body: (ArraySlice<UInt8>) -> Void) throws(FileSystemError) {
        let reading = self.records.begin(name)
        defer { self.records.end() }
        if let ends = reading.endsToTell {
            self.notices.append(.ended(file: name, starts: ends.count, offset: ends.offset))
        }
        if let poison = reading.poison, bytes.indices.contains(poison) {
            let end = bytes[poison...].firstIndex(of: 0x0A) ?? bytes.count
            self.unread[name, default: []].insert(poison)
            self.notices.append(
                .setAside(file: name, offset: poison, byteCount: end - poison, signal: reading.signal))
            try self.record(name, poison, signal: reading.signal)
        }
        let unread = self.unread[name] ?? []
        for line in bytes[..<((bytes.lastIndex(of: 0x0A) ?? -1) + 1)].split(separator: 0x0A) {
            if unread.contains(line.startIndex) { continue }
            if reading.isAlone { self.records.enter(line.startIndex, of: name) }
            body(line)
        }
    }

    private func record(_ name: String, _ offset: Int, signal: Int) throws(FileSystemError) {
        try self.files.createDirectories(Path.parent(of: self.path))
        var state = try StateStore(path: self.path, files: self.files)
        try state.settle()
        try state.commit(["\(name)/\(offset)": .some(String(signal))])
    }

    /// What is to be told, once.
    mutating func takeNotices() -> [WindowNotice] {
        defer { self.notices = [] }
        return self.notices
    }
}
