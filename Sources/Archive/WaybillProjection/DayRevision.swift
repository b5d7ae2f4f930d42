internal import WaybillData
internal import WaybillJSON
package import WaybillSystem

/// One revision of a sealed day, of the archive or of an export, as `waybill sealed` prints it.
///
///     {"id":"5f70…","kind":"archive","path":"archive/env=prod/bundle=com.example.shop/date=2026-11-20","env":"prod",
///      "bundle":"com.example.shop","day":"2026-11-20","zone":"UTC","revision":1,"sealed_at":"…","records":2,
///      "files":[{"name":"part-00001.ndjson.gz","bytes":38,"sha256":"…","records":2}]}
package struct DayRevision: Hashable, Sendable {
    /// One of its files, which never changes.
    package struct File: Hashable, Sendable {
        package let name: String
        /// Of the file as it is stored.
        package let byteCount: Int
        package let sha256: String
        package let recordCount: Int
    }

    /// The folder, below the data directory.
    package let path: String
    /// The first 128 bits of the manifest's SHA-256: two revisions differ in it, however they came about.
    package let id: String
    package let revision: Int
    package let recordCount: Int
    package let files: [File]
    /// The line, without an LF.
    package let line: [UInt8]

    /// Reads a day's folder.
    ///
    /// - Returns: `nil` if the day is not sealed, or was changing while it was read; then the next pass finds it.
    package init?(path: String, root: String, files: some FileSystem) throws(FileSystemError) {
        let folder = Path.join(root, path)
        let manifestPath = Path.join(folder, DayFolder.manifestName)
        guard try files.status(ofEntry: Path.join(folder, DayFolder.successName))?.kind == .regular,
            let bytes = try files.contents(of: manifestPath, byteCountMax: 32 << 20)
        else { return nil }
        let id = String(SHA256Digest.text(of: bytes).prefix(32))
        guard let json = JSONValue(bytes), let revision = json["revision"]?.count, let zone = json["zone"]?.string,
            let day = json["day"]?.string, let env = json["env"]?.string, let sealedAt = json["sealed_at"]?.string
        else { return nil }
        let isArchive = path.hasPrefix("archive/")
        let found = isArchive ? Self.archiveFiles(json) : try Self.exportFiles(json, folder, files)
        guard let found, try files.contents(of: manifestPath, byteCountMax: 32 << 20) == bytes else { return nil }
        let recordCount = found.reduce(0) { $0 + $1.recordCount }
        self.path = path
        self.id = id
        self.revision = revision
        self.recordCount = recordCount
        self.files = found
        self.line = JSONWriter.object { line in
            line.member("id", id)
            line.member("kind", isArchive ? "archive" : "export")
            line.member("path", path)
            if let provider = json["provider"]?.string { line.member("provider", provider) }
            line.member("env", env)
            if let bundle = json["bundle"]?.string { line.member("bundle", bundle) }
            line.member("day", day)
            line.member("zone", zone)
            line.member("revision", revision)
            line.member("sealed_at", sealedAt)
            line.member("records", recordCount)
            line.member("files", objects: found) { line, file in
                line.member("name", file.name)
                line.member("bytes", file.byteCount)
                line.member("sha256", file.sha256)
                line.member("records", file.recordCount)
            }
        }
    }

    private static func archiveFiles(_ json: JSONValue) -> [File]? {
        json["files"]?.elements?.all { file in
            guard let name = file["name"]?.string, let byteCount = file["gz_bytes"]?.count,
                let sha256 = file["sha256"]?.string, let count = file["lines"]?.count
            else { return nil }
            return File(name: name, byteCount: byteCount, sha256: sha256, recordCount: count)
        }
    }

    /// The day's manifest has the digests of inflated parts; those of the files are in the parts' own manifests.
    private static func exportFiles(
        _ json: JSONValue, _ folder: String, _ files: some FileSystem
    ) throws(FileSystemError) -> [File]? {
        guard let parts = json["parts"]?.elements else { return nil }
        var found: [File] = []
        for part in parts {
            guard let name = part["name"]?.string, let count = part["records"]?.count,
                let stem = name.split(separator: ".").first, stem.hasPrefix("part-"),
                let manifest = try files.contents(
                    of: Path.join(folder, "\(stem).manifest.json"), byteCountMax: 1 << 20
                ).flatMap(PartManifest.init(json:)),
                let status = try files.status(ofEntry: Path.join(folder, name))
            else { return nil }
            found.append(
                File(
                    name: name, byteCount: status.byteCount, sha256: manifest.gzipSHA256 ?? manifest.sha256,
                    recordCount: count))
        }
        return found
    }
}
