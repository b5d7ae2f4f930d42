package import WaybillProtocol
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
    package struct Run: Hashable, Sendable {
        package let description: StreamDescription
        package let receivedAt: WallTime
        package let range: Range<Int>
        package let lineCount: Int
    }

    /// The parts, ordered by path.
    package let parts: [Part]
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
        self.parts = lengths.compactMap { path, byteCount in
            Part(path: path, byteCount: byteCount, lengths: lengths)
        }.sorted { $0.path.utf8.lexicographicallyPrecedes($1.path.utf8) }
    }

    /// The runs of a part, in order.
    package func runs(of part: Part) throws(FileSystemError) -> [Run] {
        let path = Path.join(self.data.root, part.sourcesPath)
        let bytes = try self.data.files.contents(of: path, byteCountMax: part.sourcesByteCount) ?? []
        var descriptions: [Substring: StreamDescription] = [:]
        var runs: [Run] = []
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
            let fields = line.split(separator: " ", maxSplits: line.hasPrefix("OPEN") ? 2 : 6)
            if fields.count == 3, fields[0] == "OPEN" {
                var text = String(fields[2])
                // A stream that cannot be read leaves its runs out; the caller sees which bytes no run explains.
                let description = text.withUTF8 { try? StreamDescription(json: UnsafeRawBufferPointer($0)) }
                descriptions[fields[1]] = description
            } else if fields.count == 7, fields[0] == "FROM", let description = descriptions[fields[1]] {
                // No checksum covers the file: what cannot be is left out as well.
                let numbers = fields[2...].compactMap { Int($0) }.filter { 0..<(1 << 53) ~= $0 }
                guard numbers.count == 5 else { continue }
                runs.append(
                    Run(
                        description: description, receivedAt: WallTime(milliseconds: Int64(numbers[1])),
                        range: numbers[2]..<(numbers[2] + numbers[3]), lineCount: numbers[4]))
            }
        }
        return runs
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
