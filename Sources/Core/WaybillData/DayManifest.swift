internal import WaybillJSON
package import WaybillProtocol
package import WaybillSystem

/// A day's folder in the archive: one environment, one bundle, one day.
///
///     archive/env=prod/bundle=com.example.shop/date=2026-11-20
package struct DayFolder: Hashable, Sendable {
    /// The path below the data directory.
    package let path: String
    package let environment: String
    /// The bundle as in the folder's name.
    package let bundle: String
    package let day: CalendarDay

    /// Parses a folder's path; `nil` for other paths.
    package init?(path: some StringProtocol) {
        let components = path.split(separator: "/")
        guard components.count == 4, components[0] == "archive", components[1].hasPrefix("env="),
            components[2].hasPrefix("bundle="), components[3].hasPrefix("date="),
            let day = CalendarDay(String(components[3].dropFirst(5)))
        else { return nil }
        self.path = String(path)
        self.environment = String(components[1].dropFirst(4))
        self.bundle = String(components[2].dropFirst("bundle=".utf8.count))
        self.day = day
    }

    package static var manifestName: String { "manifest.json" }
    package static var successName: String { "_SUCCESS" }

    /// Verifies a folder's `_SUCCESS`, which exists where a day's manifest does, and is empty.
    ///
    /// - Parameters:
    ///   - byteCount: its length; `nil` if it does not exist.
    ///   - folder: of an archive's or of an export's day.
    ///   - isSealed: whether the day has a manifest.
    ///   - isChanging: whether a seal may be about to write either of them.
    package static func verifySuccess(
        _ byteCount: Int?, in folder: String, isSealed: Bool, isChanging: Bool
    ) -> [Problem] {
        let path = Path.join(folder, Self.successName)
        var problems: [Problem] = []
        if let byteCount, byteCount > 0 {
            problems.append(
                Problem(.unexplained, path, at: 0, byteCount: byteCount, "this file is always empty"))
        }
        guard !isChanging, isSealed != (byteCount != nil) else { return problems }
        return problems + [
            isSealed
                ? Problem(.missing, path, "the day's manifest exists: readers that wait for _SUCCESS skip the day")
                : Problem(.disagreement, path, "the day has no manifest: readers take it for finished")
        ]
    }

    /// The stem of the file that gets a day's lines after `revision` seals.
    package static func openPart(revision: Int) -> String {
        revision == 0 ? PartitionPath.part(1) : PartitionPath.late(revision)
    }
}

/// The contents of a sealed day, as in its `manifest.json`.
///
/// - SeeAlso: `Protocol/formats/archive.md`, section 5.
package struct DayManifest: Hashable, Sendable {
    /// One sealed file.
    package struct File: Hashable, Sendable {
        /// Such as `part-00001.ndjson.gz` or `late-00001.ndjson.gz`.
        package var name: String
        package var lineCount = 0
        /// The inflated size.
        package var byteCount = 0
        package var gzipByteCount = 0
        /// The digest of the compressed file, 64 hexadecimal digits.
        package var sha256 = ""
        /// The digest of its inflated bytes.
        package var rawSHA256 = ""
        package var sourcesByteCount = 0
        /// The digest of the `.sources`; `nil` if an earlier version sealed the file.
        package var sourcesSHA256: String?
        /// The earliest and the latest time of an event; `nil` if no event can be read.
        package var first: WallTime?
        package var last: WallTime?
        /// Lines of all batches before it, and of none after it, are in this file or in an earlier one.
        package var position = JournalPosition(0)

        package init(name: String) {
            self.name = name
        }

        /// The name of the unsealed file of lines, without `.ndjson`.
        package var stem: String {
            String(self.name.dropLast(".ndjson.gz".utf8.count))
        }
    }

    /// The lines of one stream.
    package struct Source: Hashable, Sendable {
        /// The stream's owner; empty when the receiver knew no principals.
        package let principal: String
        package let stream: String
        package let source: String
        /// Where the first of its batches begins.
        package var from: UInt64
        /// Where the last of its batches begins, plus the bytes of that batch in this day.
        package var to: UInt64
        package var lineCount: Int

        package init(
            principal: String, stream: String, source: String, from: UInt64, to: UInt64, lineCount: Int
        ) {
            self.principal = principal
            self.stream = stream
            self.source = source
            self.from = from
            self.to = to
            self.lineCount = lineCount
        }
    }

    /// How often the day was sealed.
    package var revision: Int
    package var environment: String
    package var bundle: String
    package var day: CalendarDay
    package var zone: String
    package var sealedAt: WallTime
    /// The files in the order in which they were sealed.
    package var files: [File] = []
    /// At most ``sourceCountMax``, in the order of their first lines.
    package var sources: [Source] = []
    /// Lines not counted in ``sources``.
    package var otherLineCount = 0
    /// Lines that were erased since they were sealed.
    package var erasedLineCount = 0

    package static var sourceCountMax: Int { 1000 }
    /// Longer files are not manifests.
    private static var byteCountMax: Int { 32 << 20 }

    package init(folder: DayFolder, revision: Int, zone: String, sealedAt: WallTime) {
        self.revision = revision
        self.environment = folder.environment
        self.bundle = folder.bundle
        self.day = folder.day
        self.zone = zone
        self.sealedAt = sealedAt
    }

    package var lineCount: Int { self.files.reduce(0) { $0 + $1.lineCount } }
    package var byteCount: Int { self.files.reduce(0) { $0 + $1.byteCount } }
    package var gzipByteCount: Int { self.files.reduce(0) { $0 + $1.gzipByteCount } }
    /// The day's lines in batches before it are sealed.
    package var position: JournalPosition { self.files.map(\.position).max() ?? JournalPosition(0) }

    /// Counts a run's lines for its stream.
    ///
    /// - Parameter indexes: where each stream is in ``sources``.
    /// - Returns: whether the manifest lists the run's stream.
    package mutating func add(_ run: SourceRun, _ indexes: inout [StreamName: Int]) -> Bool {
        let from = run.offset.rawValue
        let to = run.end.rawValue
        if let index = indexes[run.description.name] {
            self.sources[index].from = min(self.sources[index].from, from)
            self.sources[index].to = max(self.sources[index].to, to)
            self.sources[index].lineCount += run.lineCount
            return true
        }
        guard self.sources.count < Self.sourceCountMax else { return false }
        indexes[run.description.name] = self.sources.count
        self.sources.append(
            Source(
                principal: run.description.owner.principal, stream: run.description.id.text,
                source: run.description.source, from: from, to: to, lineCount: run.lineCount))
        return true
    }

    /// Reads the manifest of a folder; `nil` if there is none or it cannot be read.
    ///
    /// - Parameter folder: an absolute path.
    package static func read(
        in folder: String, files: some FileSystem
    ) throws(FileSystemError) -> DayManifest? {
        let path = Path.join(folder, DayFolder.manifestName)
        return try files.contents(of: path, byteCountMax: Self.byteCountMax).flatMap { DayManifest(json: $0) }
    }
}

// MARK: JSON

extension DayManifest {
    /// One line, members in a fixed order, with its LF.
    package var json: [UInt8] {
        ManifestLine.sealed(
            JSONWriter.object { json in
                json.member("revision", self.revision)
                json.member("env", self.environment)
                json.member("bundle", self.bundle)
                json.member("day", self.day.description)
                json.member("zone", self.zone)
                json.member("sealed_at", self.sealedAt.text)
                json.member("lines", self.lineCount)
                json.member("bytes", self.byteCount)
                if let first = self.files.compactMap(\.first).min() { json.member("first_ts", first.text) }
                if let last = self.files.compactMap(\.last).max() { json.member("last_ts", last.text) }
                json.member("files", objects: self.files) { json, file in file.write(to: &json) }
                json.member("sources", objects: self.sources) { json, source in source.write(to: &json) }
                json.member("other_lines", self.otherLineCount)
                if self.erasedLineCount > 0 { json.member("erased", self.erasedLineCount) }
            })
    }

    /// Verifies the bytes of a manifest by themselves, and against the folder that they are in.
    ///
    /// - Returns: `nil` for bytes that are no manifest; and what is wrong.
    package static func verify(
        _ bytes: [UInt8], at path: String, in folder: DayFolder
    ) -> (manifest: DayManifest?, problems: [Problem]) {
        guard let manifest = DayManifest(json: bytes) else { return (nil, [ManifestLine.unreadable(bytes, at: path)]) }
        var problems: [Problem] = []
        let (environment, bundle, day) = (manifest.environment, manifest.bundle, manifest.day)
        if environment != folder.environment || bundle != folder.bundle || day != folder.day {
            problems.append(Problem(.disagreement, path, "it is of \(environment), \(bundle), \(day)"))
        }
        if let contradiction = manifest.contradiction(in: bytes) {
            problems.append(Problem(.disagreement, path, contradiction))
        }
        return (manifest, problems + ManifestLine.problems(in: bytes, at: path))
    }

    /// What in a manifest's text contradicts its own files; `nil` if nothing does.
    ///
    /// Totals are not parsed, because they are sums over the files.
    package func contradiction(in text: [UInt8]) -> String? {
        guard let json = JSONValue(text) else { return "it is not JSON" }
        if json["lines"]?.count != self.lineCount { return "lines is not the sum over its files, \(self.lineCount)" }
        if json["bytes"]?.count != self.byteCount { return "bytes is not the sum over its files, \(self.byteCount)" }
        let first = self.files.compactMap(\.first).min()?.text
        let last = self.files.compactMap(\.last).max()?.text
        if json["first_ts"]?.string != first || json["last_ts"]?.string != last {
            return "first_ts and last_ts are not those of its files"
        }
        let lines = self.sources.reduce(self.otherLineCount) { $0 + $1.lineCount }
        if lines != self.lineCount { return "sources and other_lines have \(lines) lines, the files \(self.lineCount)" }
        return nil
    }

    /// Parses ``json``; `nil` if it is invalid.
    package init?(json bytes: [UInt8]) {
        guard let json = JSONValue(bytes), let revision = json["revision"]?.count, revision > 0,
            let environment = json["env"]?.string, let bundle = json["bundle"]?.string,
            let day = json["day"]?.string.flatMap({ CalendarDay($0) }), let zone = json["zone"]?.string,
            let sealedAt = json["sealed_at"]?.string.flatMap({ WallTime(text: $0) }),
            let others = json["other_lines"]?.count, let files = json["files"]?.elements?.all({ File($0) }),
            let sources = json["sources"]?.elements?.all({ Source($0) }), !files.isEmpty
        else { return nil }
        self.revision = revision
        self.environment = environment
        self.bundle = bundle
        self.day = day
        self.zone = zone
        self.sealedAt = sealedAt
        self.otherLineCount = others
        self.erasedLineCount = json["erased"]?.count ?? 0
        self.files = files
        self.sources = sources
    }
}

extension DayManifest.File {
    fileprivate func write(to json: inout JSONWriter) {
        json.member("name", self.name)
        json.member("lines", self.lineCount)
        json.member("bytes", self.byteCount)
        json.member("gz_bytes", self.gzipByteCount)
        json.member("sha256", self.sha256)
        json.member("raw_sha256", self.rawSHA256)
        json.member("sources_bytes", self.sourcesByteCount)
        if let sourcesSHA256 { json.member("sources_sha256", sourcesSHA256) }
        if let first { json.member("first_ts", first.text) }
        if let last { json.member("last_ts", last.text) }
        json.member("position", self.position.rawValue)
    }

    fileprivate init?(_ json: JSONValue) {
        guard let name = json["name"]?.string, name.hasSuffix(".ndjson.gz"), !name.contains("/"),
            let lines = json["lines"]?.count, let bytes = json["bytes"]?.count,
            let gzipBytes = json["gz_bytes"]?.count, let sha256 = json["sha256"]?.string,
            let rawSHA256 = json["raw_sha256"]?.string, let sourcesBytes = json["sources_bytes"]?.count,
            let position = json["position"]?.count
        else { return nil }
        self.name = name
        self.lineCount = lines
        self.byteCount = bytes
        self.gzipByteCount = gzipBytes
        self.sha256 = sha256
        self.rawSHA256 = rawSHA256
        self.sourcesByteCount = sourcesBytes
        self.sourcesSHA256 = json["sources_sha256"]?.string
        self.first = json["first_ts"]?.string.flatMap { WallTime(text: $0) }
        self.last = json["last_ts"]?.string.flatMap { WallTime(text: $0) }
        self.position = JournalPosition(position)
    }
}

extension DayManifest.Source {
    fileprivate func write(to json: inout JSONWriter) {
        if !self.principal.isEmpty { json.member("principal", self.principal) }
        json.member("stream", self.stream)
        json.member("source", self.source)
        json.member("from", Int64(clamping: self.from))
        json.member("to", Int64(clamping: self.to))
        json.member("lines", self.lineCount)
    }

    fileprivate init?(_ json: JSONValue) {
        guard let stream = json["stream"]?.string, let source = json["source"]?.string,
            let from = json["from"]?.count, let to = json["to"]?.count, let lines = json["lines"]?.count
        else { return nil }
        self.init(
            principal: json["principal"]?.string ?? "", stream: stream, source: source, from: UInt64(from),
            to: UInt64(to), lineCount: lines)
    }
}
