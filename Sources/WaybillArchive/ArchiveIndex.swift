package import WaybillJournal
internal import WaybillProtocol
package import WaybillSystem

/// The archive as a reader sees it: which files there are, how much of each is certain, and where their lines came from.
package struct ArchiveIndex<Files: FileSystem> {
    /// One file of lines.
    package struct Part: Hashable, Sendable {
        /// Below the data directory.
        package let path: String
        package let environment: String
        package let day: CalendarDay
        /// What the archive's checkpoint stands for; the file may be longer.
        package let byteCount: Int
        package let sourcesByteCount: Int
    }

    /// Neighbouring lines of a part that arrived in one batch.
    package typealias Run = SourceRun

    /// The parts, ordered by path.
    package let parts: [Part]
    /// What the checkpoint stands for, by path below the data directory.
    package let lengths: [String: Int]
    private let data: DataDirectory<Files>

    /// Reads the archive's checkpoint; a running receiver does not mind.
    package init(data: DataDirectory<Files>) throws(FileSystemError) {
        self.data = data
        var lengths: [String: Int] = [:]
        for path in [data.statePath("archive"), data.statePath("archive") + ".previous"] {
            guard let bytes = try data.files.contents(of: path, byteCountMax: 1 << 30),
                let image = StateImage(bytes: bytes)
            else { continue }
            let prefix = FileSet<Files>.keyPrefix
            for (key, value) in image.entries where key.hasPrefix(prefix) {
                lengths[String(key.dropFirst(prefix.utf8.count))] = Int(value)
            }
            break
        }
        self.lengths = lengths
        self.parts = lengths.compactMap { path, byteCount in
            Part(path: path, byteCount: byteCount, lengths: lengths)
        }.sorted { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) }
    }

    /// The runs of a part, in order; the caller sees which bytes none of them explains.
    package func runs(of part: Part) throws(FileSystemError) -> [Run] {
        try SourceRuns.runs(
            of: Path.join(self.data.root, part.sourcesPath), byteCount: part.sourcesByteCount,
            linesByteCount: part.byteCount, files: self.data.files)
    }

    /// How far the archive and the quarantine hold each stream, up to the last checkpoint.
    ///
    /// Without a checkpoint the files count as they are: beside a damaged journal it is made again from them.
    package func standings() throws(FileSystemError) -> [StreamStanding] {
        var lengths = self.lengths
        if lengths.isEmpty {
            for folder in ["archive", "quarantine"] { try self.collect(folder, into: &lengths) }
        }
        var ends: [StreamID: (description: StreamDescription, offset: StreamOffset, byteCount: Int)] = [:]
        for (path, byteCount) in lengths.sorted(by: { $0.key < $1.key }) where path.hasSuffix(".ndjson") {
            let sources = String(path.dropLast(7) + ".sources")
            guard let sourcesByteCount = lengths[sources] else { continue }
            let runs = try SourceRuns.runs(
                of: Path.join(self.data.root, sources), byteCount: sourcesByteCount,
                linesByteCount: byteCount, files: self.data.files)
            for run in runs {
                // A batch is spread over the files of its lines: their lengths add up to its own.
                let known = ends[run.description.id]
                if let known, known.offset > run.offset { continue }
                let before = known.map { $0.offset == run.offset ? $0.byteCount : 0 } ?? 0
                ends[run.description.id] = (run.description, run.offset, before + run.range.count)
            }
        }
        return ends.values.map { end in
            StreamStanding(
                description: end.description, durable: end.offset.advanced(by: end.byteCount), isSealed: false)
        }
    }

    private func collect(_ path: String, into lengths: inout [String: Int]) throws(FileSystemError) {
        guard let status = try self.data.files.status(at: Path.join(self.data.root, path)) else { return }
        guard status.kind == .directory else {
            lengths[path] = status.byteCount
            return
        }
        for name in try self.data.files.list(Path.join(self.data.root, path)) {
            try self.collect(Path.join(path, name), into: &lengths)
        }
    }
}

extension ArchiveIndex.Part {
    fileprivate init?(path: String, byteCount: Int, lengths: [String: Int]) {
        // archive/env=prod/app=com.example.shop/date=2026-11-20/part-00001.ndjson
        let components = path.split(separator: "/")
        guard components.count == 5, components[0] == "archive", path.hasSuffix(".ndjson"),
            components[1].hasPrefix("env="), components[3].hasPrefix("date="),
            let day = CalendarDay(String(components[3].dropFirst(5)))
        else { return nil }
        self.path = path
        self.environment = String(components[1].dropFirst(4))
        self.day = day
        self.byteCount = byteCount
        self.sourcesByteCount = lengths[path.dropLast(7) + ".sources"] ?? 0
    }

    fileprivate var sourcesPath: String {
        self.path.dropLast(7) + ".sources"
    }
}
