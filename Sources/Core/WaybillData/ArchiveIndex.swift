package import WaybillSystem

/// A reader's view of the archive: its files, how much of each is committed, and the origin of their lines.
package struct ArchiveIndex<Files: FileSystem> {
    /// One file of lines, open or sealed; ``PartReader`` reads both.
    package struct Part: Hashable, Sendable {
        /// The path below the data directory, with the file's name before it is sealed: `….ndjson`.
        package let path: String
        package let folder: DayFolder
        /// The size of its lines, inflated, from the archive's checkpoint or its day's manifest; a file may be longer.
        package let byteCount: Int
        package let sourcesByteCount: Int
        /// Its entry in the manifest; `nil` while it is open.
        package let sealed: DayManifest.File?

        package init(
            path: String, folder: DayFolder, byteCount: Int, sourcesByteCount: Int, sealed: DayManifest.File?
        ) {
            self.path = path
            self.folder = folder
            self.byteCount = byteCount
            self.sourcesByteCount = sourcesByteCount
            self.sealed = sealed
        }

        package var environment: String { self.folder.environment }
        /// The bundle as a component of the path.
        package var bundle: String { self.folder.bundle }
        package var day: CalendarDay { self.folder.day }
    }

    /// The parts, ordered by their days' folders, and within a day in the order of arrival of their lines.
    package let parts: [Part]
    /// The sizes in the checkpoint and the manifests, by path below the data directory; inflated sizes for lines.
    package let lengths: [String: Int]
    /// The sizes in the checkpoint alone.
    let checkpointedLengths: [String: Int]
    /// The checkpoint's position in the journal; `nil` without a checkpoint.
    package let position: JournalPosition?
    let data: DataDirectory<Files>

    /// Reads the archive's checkpoint, then the manifests of its sealed days; safe while a receiver runs.
    package init(data: DataDirectory<Files>) throws(FileSystemError) {
        self.data = data
        let entries = try StateImage.read(data.statePath("archive"), files: data.files)?.entries ?? [:]
        var lengths = FileSet<Files>.lengths(in: entries)
        self.checkpointedLengths = lengths
        self.position = entries["position"].flatMap { Int($0) }.map { JournalPosition($0) }
        var sealed: [String: (DayFolder, DayManifest.File)] = [:]
        // A day that is sealed in the meantime is in the checkpoint, among the manifests, or both.
        try data.visitDays { folder throws(FileSystemError) in
            guard let manifest = try DayManifest.read(in: Path.join(data.root, folder.path), files: data.files) else {
                return
            }
            for file in manifest.files {
                let stem = Path.join(folder.path, file.stem)
                sealed[stem + ".ndjson"] = (folder, file)
                lengths[stem + ".ndjson"] = file.byteCount
                lengths[stem + ".sources"] = file.sourcesByteCount
            }
        }
        self.lengths = lengths
        self.parts = lengths.compactMap { path, byteCount in
            guard path.hasSuffix(".ndjson"), let folder = DayFolder(path: Path.parent(of: path)) else { return nil }
            return Part(
                path: path, folder: folder, byteCount: byteCount,
                sourcesByteCount: lengths[path.dropLast(7) + ".sources"] ?? 0, sealed: sealed[path]?.1)
        }.sorted { $0.order.utf8.lexicographicallyPrecedes($1.order.utf8) }
    }

    /// Calls `body` with each run of a part, in order; the caller detects bytes that no run covers.
    package func visitRuns(of part: Part, _ body: (SourceRun) -> Void) throws(FileSystemError) {
        try SourceRuns.visit(
            Path.join(self.data.root, part.sourcesPath), byteCount: part.sourcesByteCount,
            linesByteCount: part.byteCount, files: self.data.files, body)
    }
}

extension ArchiveIndex.Part {
    package var sourcesPath: String {
        self.path.dropLast(7) + ".sources"
    }

    /// A sort key that orders late files after the first.
    fileprivate var order: String {
        let name = Path.name(of: self.path)
        return "\(self.folder.path)/\(PartitionPath.lateNumber(of: name) == nil ? 0 : 1)/\(name)"
    }
}

extension DataDirectory {
    /// Calls `body` for every day's folder of the archive, in the order of their paths; skips other names.
    package func visitDays(
        _ body: (DayFolder) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        for environment in try self.folders(in: "archive", prefix: "env=") {
            for bundle in try self.folders(in: environment, prefix: "bundle=") {
                for path in try self.folders(in: bundle, prefix: "date=") {
                    if let folder = DayFolder(path: path) { try body(folder) }
                }
            }
        }
    }

    /// The names of the bundles' folders, escaped as in paths.
    package func archivedBundles() throws(FileSystemError) -> Set<String> {
        var bundles: Set<String> = []
        for environment in try self.folders(in: "archive", prefix: "env=") {
            for bundle in try self.folders(in: environment, prefix: "bundle=") {
                bundles.insert(String(Path.name(of: bundle).dropFirst("bundle=".utf8.count)))
            }
        }
        return bundles
    }

    private func folders(in path: String, prefix: String) throws(FileSystemError) -> [String] {
        let absolute = Path.join(self.root, path)
        guard try self.files.status(at: absolute)?.kind == .directory else { return [] }
        var folders: [String] = []
        for name in try self.files.list(absolute) where name.hasPrefix(prefix) {
            let folder = Path.join(path, name)
            let isFolder = try self.files.status(at: Path.join(self.root, folder))?.kind == .directory
            if isFolder { folders.append(folder) }
        }
        return folders
    }
}
