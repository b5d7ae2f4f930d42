internal import WaybillData
internal import WaybillSystem

/// One file of lines in a day's folder.
struct DayFile: Hashable, Sendable {
    /// The path below the data directory, without `.gz`.
    let path: String
    let isLate: Bool
    let isSealed: Bool
    /// The inflated size up to which it counts; `nil`: to its end.
    let byteCount: Int?
    /// How much of its `.sources` counts; 0 if there are none.
    let sourcesByteCount: Int

    var sourcesPath: String { self.path.dropLast(7) + ".sources" }
}

/// A day's folder and its files, in the order of their lines' arrival.
struct DayFiles: Sendable {
    let folder: DayFolder
    var files: [DayFile]

    /// The bytes to read, for progress.
    var byteCount: Int { self.files.reduce(0) { $0 + ($1.byteCount ?? 0) } }
}

/// What is kept for an app in an environment.
struct KeptDays: Sendable {
    var days: [DayFiles] = []
    /// The zone of the folders' days; `nil` if nothing records it.
    var zoneName: String?
    /// The apps of the environment, as in the names of their folders.
    var bundles: Set<String> = []
    var environments: Set<String> = []

    /// Lists the days' folders.
    ///
    /// A file counts up to its length in the archive's checkpoint or its day's manifest. Folders that were copied from
    /// elsewhere have neither; then every file counts whole.
    init(
        _ data: DataDirectory<some FileSystem>, environment: String, bundle: String?
    ) throws(FileSystemError) {
        let index = try ArchiveIndex(data: data)
        var known: [String: [DayFile]] = [:]
        for part in index.parts {
            known[part.folder.path, default: []].append(
                DayFile(
                    path: part.path, isLate: Self.isLate(part.path), isSealed: part.sealed != nil,
                    byteCount: part.byteCount, sourcesByteCount: part.sourcesByteCount))
        }
        self.zoneName = try StateImage.read(data.statePath("archive"), files: data.files)?.entries["zone"]
        var folders: [DayFolder] = []
        try data.visitDays { folder throws(FileSystemError) in folders.append(folder) }
        for folder in folders {
            self.environments.insert(folder.environment)
            guard folder.environment == environment else { continue }
            if folder.bundle != PartitionPath.overflowBundle { self.bundles.insert(folder.bundle) }
            let wanted = bundle.map(PartitionPath.component)
            guard wanted == nil || folder.bundle == wanted || folder.bundle == PartitionPath.overflowBundle else {
                continue
            }
            var files = known[folder.path] ?? []
            if files.isEmpty, index.position == nil { files = try Self.list(folder, data) }
            if self.zoneName == nil {
                self.zoneName = try DayManifest.read(in: Path.join(data.root, folder.path), files: data.files)?.zone
            }
            if !files.isEmpty { self.days.append(DayFiles(folder: folder, files: files)) }
        }
    }

    /// The files of a folder that neither a checkpoint nor a manifest describes.
    private static func list(
        _ folder: DayFolder, _ data: DataDirectory<some FileSystem>
    ) throws(FileSystemError) -> [DayFile] {
        let path = Path.join(data.root, folder.path)
        let names = Set(try data.files.list(path))
        let stems = Set(names.compactMap(Self.stem))
        var files: [DayFile] = []
        for stem in stems.sorted(by: { Self.order($0) < Self.order($1) }) {
            let isSealed = !names.contains(stem + ".ndjson")
            let sources = Path.join(path, stem + ".sources")
            let status = try data.files.status(at: Path.join(path, stem + ".ndjson" + (isSealed ? ".gz" : "")))
            files.append(
                DayFile(
                    path: Path.join(folder.path, stem + ".ndjson"), isLate: stem.hasPrefix("late-"),
                    isSealed: isSealed, byteCount: isSealed ? nil : status?.byteCount,
                    sourcesByteCount: try data.files.status(at: sources)?.byteCount ?? 0))
        }
        return files
    }

    private static func stem(_ name: String) -> String? {
        for end in [".ndjson", ".ndjson.gz"] where name.hasSuffix(end) {
            let stem = String(name.dropLast(end.utf8.count))
            if PartitionPath.partNumber(of: stem) != nil || PartitionPath.lateNumber(of: stem) != nil { return stem }
        }
        return nil
    }

    private static func order(_ stem: String) -> (Int, String) {
        (stem.hasPrefix("late-") ? 1 : 0, stem)
    }

    private static func isLate(_ path: String) -> Bool {
        PartitionPath.lateNumber(of: Path.name(of: path)) != nil
    }
}
