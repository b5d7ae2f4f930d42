internal import WaybillData
internal import WaybillSystem

/// The days that an export's checkpoint records as sealed, until their manifest is written.
///
/// The manifest waits in the checkpoint until the parts that it lists are compressed.
struct OwedSeals<Files: FileSystem> {
    private let root: String
    private let files: Files
    private var owed: Set<String> = []
    private var sealed: [SealedDay] = []

    static var keyPrefix: String { "seal:" }
    /// Days that lost their mark with a later checkpoint, until they are sealed again.
    static var unmarkedPrefix: String { "unmarked:" }

    init(root: String, files: Files) {
        self.root = root
        self.files = files
    }

    /// The days' folders, below the data directory.
    var folders: [String] { self.owed.sorted() }

    func contains(_ folder: String) -> Bool {
        self.owed.contains(folder)
    }

    /// Adds the folders of days whose manifest is in the checkpoint.
    mutating func add(_ folders: some Sequence<String>) {
        self.owed.formUnion(folders)
    }

    /// Finds the days whose manifest is to be written after a recovery.
    mutating func find(in entries: [String: String]) {
        self.owed = []
        for key in entries.keys where key.hasPrefix(Self.keyPrefix) {
            self.owed.insert(String(key.dropFirst(Self.keyPrefix.utf8.count)))
        }
    }

    /// Writes the manifest of a day whose parts are compressed, if it is owed.
    mutating func finish(_ folder: String, _ state: inout StateStore<Files>) throws(FileSystemError) {
        let key = Self.keyPrefix + folder
        guard self.owed.contains(folder), let manifest = state.entries[key] else { return }
        let directory = Path.join(self.root, folder)
        try self.files.createDirectories(directory)
        try self.files.replace(
            Path.join(directory, DayFolder.manifestName), with: ManifestLine.sealed(Array(manifest.utf8)))
        let success = try self.files.open(Path.join(directory, DayFolder.successName), .append)
        defer { self.files.close(success) }
        try self.files.synchronize(success)
        try self.files.synchronizeDirectory(directory)
        try state.commit([key: nil, Self.unmarkedPrefix + folder: nil])
        self.owed.remove(folder)
        let written = ExportDayManifest(json: Array(manifest.utf8))
        self.sealed.append(
            SealedDay(
                path: folder, revision: written?.revision ?? 0, lineCount: written?.totals.recordCount ?? 0,
                byteCount: 0))
    }

    /// Returns the days whose manifest was written since the last call.
    mutating func takeSealed() -> [SealedDay] {
        defer { self.sealed = [] }
        return self.sealed
    }
}
