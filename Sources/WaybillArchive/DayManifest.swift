internal import WaybillJSON
package import WaybillJournal
package import WaybillSystem

/// A day's folder in the archive: one environment, one app, one day.
///
///     archive/env=prod/app=com.example.shop/date=2026-11-20
package struct DayFolder: Hashable, Sendable {
    /// Below the data directory.
    package let path: String
    package let environment: String
    /// As the folder's name says it.
    package let app: String
    package let day: CalendarDay

    /// Reads a folder's path; `nil` for other paths.
    package init?(path: some StringProtocol) {
        let components = path.split(separator: "/")
        guard components.count == 4, components[0] == "archive", components[1].hasPrefix("env="),
            components[2].hasPrefix("app="), components[3].hasPrefix("date="),
            let day = CalendarDay(String(components[3].dropFirst(5)))
        else { return nil }
        self.path = String(path)
        self.environment = String(components[1].dropFirst(4))
        self.app = String(components[2].dropFirst(4))
        self.day = day
    }

    package static var manifestName: String { "manifest.json" }
    package static var successName: String { "_SUCCESS" }

    /// The stem of the file that takes a day's lines once it was sealed so often.
    package static func openPart(revision: Int) -> String {
        revision == 0 ? PartitionPath.part(1) : PartitionPath.late(revision)
    }
}

/// What a sealed day holds, as its `manifest.json` says it.
///
/// - SeeAlso: `Protocol/formats/archive.md`, section 5.
package struct DayManifest: Hashable, Sendable {
    /// One sealed file.
    package struct File: Hashable, Sendable {
        /// Such as `part-00001.ndjson.gz` or `late-00001.ndjson.gz`.
        package var name: String
        package var lineCount = 0
        /// Inflated.
        package var byteCount = 0
        package var gzipByteCount = 0
        /// Of the file as it is, 64 hexadecimal digits.
        package var sha256 = ""
        /// Of its bytes, inflated.
        package var rawSHA256 = ""
        package var sourcesByteCount = 0
        /// The earliest and the latest time of an event; `nil` without one that can be read.
        package var first: WallTime?
        package var last: WallTime?
        /// Lines of every batch before it, and of none behind it, are in this file or in one before it.
        package var position = JournalPosition(0)

        package init(name: String) {
            self.name = name
        }

        /// The name of the file of lines before it was sealed, without `.ndjson`.
        package var stem: String {
            String(self.name.dropLast(".ndjson.gz".utf8.count))
        }
    }

    /// What came of one stream.
    package struct Source: Hashable, Sendable {
        package let stream: String
        package let source: String
        /// Where the first of its batches begins.
        package var from: UInt64
        /// Where the last of its batches begins, and the bytes of it that are here.
        package var to: UInt64
        package var lineCount: Int

        package init(stream: String, source: String, from: UInt64, to: UInt64, lineCount: Int) {
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
    package var app: String
    package var day: CalendarDay
    package var zone: String
    package var sealedAt: WallTime
    /// In the order in which they were sealed.
    package var files: [File] = []
    /// At most ``sourceCountMax``, in the order in which they were met.
    package var sources: [Source] = []
    /// Lines that none of ``sources`` speaks of.
    package var otherLineCount = 0

    package static var sourceCountMax: Int { 1000 }
    /// Longer ones are none.
    private static var byteCountMax: Int { 32 << 20 }

    package init(folder: DayFolder, revision: Int, zone: String, sealedAt: WallTime) {
        self.revision = revision
        self.environment = folder.environment
        self.app = folder.app
        self.day = folder.day
        self.zone = zone
        self.sealedAt = sealedAt
    }

    package var lineCount: Int { self.files.reduce(0) { $0 + $1.lineCount } }
    package var byteCount: Int { self.files.reduce(0) { $0 + $1.byteCount } }
    package var gzipByteCount: Int { self.files.reduce(0) { $0 + $1.gzipByteCount } }
    /// Lines of the day that arrived in a batch before it are sealed.
    package var position: JournalPosition { self.files.map(\.position).max() ?? JournalPosition(0) }

    /// Reads the manifest of a folder; `nil` when there is none that can be read.
    ///
    /// - Parameter folder: an absolute path.
    package static func read(
        in folder: String, files: some FileSystem
    ) throws(FileSystemError) -> DayManifest? {
        let path = Path.join(folder, DayFolder.manifestName)
        guard let bytes = try files.contents(of: path, byteCountMax: Self.byteCountMax) else { return nil }
        return bytes.withUnsafeBytes { DayManifest(json: $0) }
    }
}

// MARK: JSON

extension DayManifest {
    /// One line, members in a fixed order, with its LF.
    package var json: [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.key("revision")
        json.integer(Int64(self.revision))
        json.key("env")
        json.string(self.environment)
        json.key("app")
        json.string(self.app)
        json.key("day")
        json.string(self.day.description)
        json.key("zone")
        json.string(self.zone)
        json.key("sealed_at")
        json.string(self.sealedAt.text)
        json.key("lines")
        json.integer(Int64(self.lineCount))
        json.key("bytes")
        json.integer(Int64(self.byteCount))
        Self.write(self.files.compactMap(\.first).min(), self.files.compactMap(\.last).max(), to: &json)
        json.key("files")
        json.beginArray()
        for file in self.files { Self.write(file, to: &json) }
        json.endArray()
        json.key("sources")
        json.beginArray()
        for source in self.sources { Self.write(source, to: &json) }
        json.endArray()
        json.key("other_lines")
        json.integer(Int64(self.otherLineCount))
        json.endObject()
        return Array(json.output.bytes) + [0x0A]
    }

    private static func write(_ first: WallTime?, _ last: WallTime?, to json: inout JSONWriter) {
        if let first {
            json.key("first_ts")
            json.string(first.text)
        }
        if let last {
            json.key("last_ts")
            json.string(last.text)
        }
    }

    private static func write(_ file: File, to json: inout JSONWriter) {
        json.beginObject()
        json.key("name")
        json.string(file.name)
        json.key("lines")
        json.integer(Int64(file.lineCount))
        json.key("bytes")
        json.integer(Int64(file.byteCount))
        json.key("gz_bytes")
        json.integer(Int64(file.gzipByteCount))
        json.key("sha256")
        json.string(file.sha256)
        json.key("raw_sha256")
        json.string(file.rawSHA256)
        json.key("sources_bytes")
        json.integer(Int64(file.sourcesByteCount))
        Self.write(file.first, file.last, to: &json)
        json.key("position")
        json.integer(Int64(file.position.rawValue))
        json.endObject()
    }

    private static func write(_ source: Source, to json: inout JSONWriter) {
        json.beginObject()
        json.key("stream")
        json.string(source.stream)
        json.key("source")
        json.string(source.source)
        json.key("from")
        json.integer(Int64(clamping: source.from))
        json.key("to")
        json.integer(Int64(clamping: source.to))
        json.key("lines")
        json.integer(Int64(source.lineCount))
        json.endObject()
    }

    /// Reads ``json``; `nil` for anything else.
    package init?(json bytes: UnsafeRawBufferPointer) {
        var object = ManifestObject(bytes)
        guard object.isRead, let revision = object.integer("revision", in: 0), revision > 0,
            let environment = object.string("env", in: 0), let app = object.string("app", in: 0),
            let day = object.string("day", in: 0).flatMap({ CalendarDay($0) }),
            let zone = object.string("zone", in: 0), let sealedAt = object.time("sealed_at", in: 0),
            let others = object.integer("other_lines", in: 0), let files = object.elements("files"),
            let sources = object.elements("sources")
        else { return nil }
        self.revision = revision
        self.environment = environment
        self.app = app
        self.day = day
        self.zone = zone
        self.sealedAt = sealedAt
        self.otherLineCount = others
        for index in files {
            guard let file = object.file(index) else { return nil }
            self.files.append(file)
        }
        for index in sources {
            guard let source = object.source(index) else { return nil }
            self.sources.append(source)
        }
        if self.files.isEmpty { return nil }
    }
}

/// Takes a manifest's members out of its JSON.
private struct ManifestObject: ~Copyable {
    private var tape = JSONTape()
    let isRead: Bool

    init(_ bytes: UnsafeRawBufferPointer) {
        do throws(JSONError) {
            try self.tape.parse(bytes)
            self.isRead = true
        } catch {
            self.isRead = false
        }
    }

    mutating func string(_ name: StaticString, in object: Int) -> String? {
        guard let index = self.tape.firstValue(of: name, in: object), self.tape[index].kind == .string else {
            return nil
        }
        return JSONText.string(self.tape.bytes(of: index))
    }

    /// From 0 to 2^53 - 1.
    mutating func integer(_ name: StaticString, in object: Int) -> Int? {
        guard let index = self.tape.firstValue(of: name, in: object), self.tape[index].kind == .number,
            let value = Int(String(decoding: self.tape.bytes(of: index), as: UTF8.self)),
            (0..<(1 << 53)).contains(value)
        else { return nil }
        return value
    }

    mutating func time(_ name: StaticString, in object: Int) -> WallTime? {
        self.string(name, in: object).flatMap { WallTime(text: $0) }
    }

    /// The tape indices of an array's elements.
    mutating func elements(_ name: StaticString) -> [Int]? {
        guard let array = self.tape.firstValue(of: name, in: 0), self.tape[array].kind == .array else { return nil }
        var elements: [Int] = []
        var index = array + 1
        while index < Int(self.tape[array].next) {
            elements.append(index)
            index = Int(self.tape[index].next)
        }
        return elements
    }

    mutating func file(_ index: Int) -> DayManifest.File? {
        guard let name = self.string("name", in: index), name.hasSuffix(".ndjson.gz"), !name.contains("/"),
            let lines = self.integer("lines", in: index), let bytes = self.integer("bytes", in: index),
            let gzipBytes = self.integer("gz_bytes", in: index), let sha256 = self.string("sha256", in: index),
            let rawSHA256 = self.string("raw_sha256", in: index),
            let sourcesBytes = self.integer("sources_bytes", in: index),
            let position = self.integer("position", in: index)
        else { return nil }
        var file = DayManifest.File(name: name)
        file.lineCount = lines
        file.byteCount = bytes
        file.gzipByteCount = gzipBytes
        file.sha256 = sha256
        file.rawSHA256 = rawSHA256
        file.sourcesByteCount = sourcesBytes
        file.first = self.time("first_ts", in: index)
        file.last = self.time("last_ts", in: index)
        file.position = JournalPosition(position)
        return file
    }

    mutating func source(_ index: Int) -> DayManifest.Source? {
        guard let stream = self.string("stream", in: index), let source = self.string("source", in: index),
            let from = self.integer("from", in: index), let to = self.integer("to", in: index),
            let lines = self.integer("lines", in: index)
        else { return nil }
        return DayManifest.Source(
            stream: stream, source: source, from: UInt64(from), to: UInt64(to), lineCount: lines)
    }
}
