import ArgumentParser
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillJSON
import WaybillProjection
import WaybillProtocol
import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Counts of lines by outcome.
struct TransformCounts {
    var lines = 0
    var exported = 0
    var refused = 0
    var held = 0
    var skipped = 0
    var badLines = 0
    /// Lines of erased people.
    var erased = 0
    var fixes = FixCounts()
    /// Bytes of an archive's file whose origin is not recorded.
    var unexplainedByteCount = 0
    var firstBad: (line: Int, reason: QuarantineReason)?

    /// Counts the line that was counted last as bad.
    mutating func countBad(_ reason: QuarantineReason) {
        self.badLines += 1
        if self.firstBad == nil { self.firstBad = (self.lines, reason) }
    }

    var json: String {
        JSONWriter.text { json in
            json.member("lines", self.lines)
            json.member("exported", self.exported)
            json.member("refused", self.refused)
            json.member("held", self.held)
            json.member("skipped", self.skipped)
            json.member("bad", self.badLines)
            json.member("fixed") { json in
                for code in FixCode.allCases where self.fixes[code] > 0 {
                    json.key(text: code.rawValue)
                    json.integer(Int64(self.fixes[code]))
                }
            }
            if self.erased > 0 { json.member("erased", self.erased) }
            if self.unexplainedByteCount > 0 { json.member("unexplained_bytes", self.unexplainedByteCount) }
            if let firstBad {
                json.member("first_bad_line", firstBad.line)
                json.member("first_bad", firstBad.reason.rawValue)
            }
        }
    }
}

/// Collects records while a batch of lines is mapped.
private struct StreamSink: ExportSink, ~Copyable {
    let description: ProviderDescription
    var output: [UInt8] = []
    var dead: [UInt8] = []
    var counts = TransformCounts()

    private var hasRecords = false

    init(_ description: ProviderDescription) {
        self.description = description
        self.output = description.header
    }

    mutating func write(_ record: ExportRecord) {
        if self.hasRecords { self.output.append(contentsOf: self.description.separator) }
        self.hasRecords = true
        self.output.append(contentsOf: record.bytes)
        self.counts.exported += record.eventCount
        self.counts.fixes.add(record.fixes)
    }

    mutating func refuse(_ refusal: Refusal) {
        self.dead.append(contentsOf: refusal.deadLetter)
        self.counts.refused += 1
    }

    mutating func hold(_ event: HeldEvent) {
        self.counts.held += 1
    }

    mutating func skip(_ reason: NotExported) {
        self.counts.skipped += 1
    }
}

/// Reads lines, maps them and writes records; uses memory for one read and the longest line.
struct Transform: ~Copyable {
    private let files = POSIXFileSystem()
    private var exporter: Exporter
    private var sink: StreamSink
    private var readers: EventReaders
    /// Reads lines whose stream is not recorded.
    private var reader: EventReader
    /// The data directory whose erased people are left out; `nil`: that of each file.
    private let dataDirectory: String?
    /// The data directory of the last file.
    private var root: String?
    /// When all lines count as received; `nil`: as recorded, and where nothing is, ages are not judged.
    private let asOf: WallTime?
    private let now: WallTime
    private let dead: FileID?

    /// - Parameter dataDirectory: leaves out the people who were erased from it; `nil`: those of the data directory that
    ///   a file is in.
    init(
        options: ExportOptions, source: SourceDescription, asOf: WallTime?, dead: String?, dataDirectory: String?
    ) throws {
        let erased = try dataDirectory.flatMap { root in try Self.erased(in: root) }
        let deadFile: FileID?
        do {
            deadFile = try dead.map { path throws(FileSystemError) in try POSIXFileSystem().open(path, .replace) }
        } catch {
            throw Self.failure(error)
        }
        let exporter = Exporter(options)
        self.sink = StreamSink(exporter.description)
        self.exporter = exporter
        self.reader = EventReader(source: source, erased: erased)
        self.readers = EventReaders(erased: erased)
        self.dataDirectory = dataDirectory
        self.asOf = asOf
        self.now = POSIXClock().wallTime()
        self.dead = deadFile
    }

    deinit {
        if let dead { POSIXFileSystem().close(dead) }
    }

    private static func failure(_ error: some Error) -> ExitCode {
        Console.printError("\(error)")
        return ExitCode.files
    }

    // MARK: Erased people

    private static func erased(in root: String) throws -> ErasedPeople? {
        do throws(FileSystemError) {
            return try ErasedPeople.read(in: DataDirectory(root: root, files: POSIXFileSystem()))
        } catch {
            throw Self.failure(error)
        }
    }

    /// Leaves out the people who were erased from the data directory that a file is in.
    private mutating func leaveOutErased(from path: String) throws {
        guard self.dataDirectory == nil else { return }
        let root: String?
        do throws(FileSystemError) {
            root = try self.root(of: path)
        } catch {
            throw Self.failure(error)
        }
        guard root != self.root else { return }
        let erased = try root.flatMap { root in try Self.erased(in: root) }
        self.readers = EventReaders(erased: erased)
        self.reader = EventReader(source: self.reader.source, erased: erased)
        self.root = root
    }

    /// The data directory that a file is in: a folder above it with an archive and the record of erasures or a `state`.
    private func root(of path: String) throws(FileSystemError) -> String? {
        var folder = Path.parent(of: path)
        // archive/env=…/bundle=…/date=…/part
        for _ in 0..<4 {
            folder = Path.join(folder, "..")
            let data = DataDirectory(root: folder, files: self.files)
            guard try self.files.status(at: data.archive)?.kind == .directory else { continue }
            if try self.files.status(at: data.state)?.kind == .directory { return folder }
            if try self.files.status(at: ErasureLog.secondPath(in: data)) != nil { return folder }
        }
        return nil
    }

    // MARK: Input

    /// Reads a file; with its `.sources`, if they are next to it.
    mutating func run(file path: String) throws {
        try self.leaveOutErased(from: path)
        let isCompressed = path.hasSuffix(".gz")
        let plain = isCompressed ? String(path.dropLast(3)) : path
        let sources = plain.hasSuffix(".ndjson") ? plain.dropLast(7) + ".sources" : ""
        do {
            if !sources.isEmpty, try self.files.status(at: sources)?.kind == .regular {
                return try self.run(part: plain, isCompressed: isCompressed, sources: sources)
            }
            guard isCompressed else {
                let file = try self.files.open(path, .read)
                defer { self.files.close(file) }
                return try self.run(from: file, named: path)
            }
            var bytes = try PartBytes(path: plain, isSealed: true, files: self.files)
            var lines = LineAssembly()
            var chunk = [UInt8](repeating: 0, count: 1 << 20)
            while true {
                let count = try chunk.withUnsafeMutableBytes { try bytes.read(into: $0) }
                if count == 0 { break }
                try self.take(chunk[..<count], &lines)
            }
            try self.takeLast(&lines)
        } catch let error as FileSystemError {
            throw Self.failure(error)
        } catch let error as PartReadError {
            throw Self.failure(error)
        }
    }

    /// Reads lines from an open file.
    mutating func run(from file: FileID, named name: String) throws {
        var lines = LineAssembly()
        var chunk = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = read(file.rawValue, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                Console.printError("\(name) cannot be read: \(Errno.message(errno))")
                throw ExitCode.files
            }
            if count == 0 { break }
            try self.take(chunk[..<count], &lines)
        }
        try self.takeLast(&lines)
    }

    private mutating func run(part path: String, isCompressed: Bool, sources: String) throws {
        var bytes = try PartBytes(path: path, isSealed: isCompressed, files: self.files)
        // Only reading shows how long the lines of a compressed file are.
        let byteCount = isCompressed ? Int.max : try self.files.status(at: path)?.byteCount ?? 0
        var runs = try SourceRuns(path: sources, byteCount: .max, linesByteCount: byteCount, files: self.files)
        var last: SourceRun?
        while let item = try runs.next() {
            guard case .run(let run, _) = item, !run.range.isEmpty else { continue }
            if let last, !run.continues(last) { self.exporter.finishGroup(to: &self.sink) }
            let start = bytes.position
            try bytes.skip(to: run.range.lowerBound)
            self.sink.counts.unexplainedByteCount += bytes.position - start
            try self.take(run, &bytes)
            last = run
        }
        self.exporter.finishGroup(to: &self.sink)
        self.sink.counts.unexplainedByteCount += try self.rest(of: &bytes, upTo: byteCount)
    }

    /// Takes the lines of a run, piece by piece: a damaged length needs no memory.
    private mutating func take(_ run: SourceRun, _ bytes: inout PartBytes<POSIXFileSystem>) throws {
        let reader = self.readers.reader(for: run.description)
        var lines: [UInt8] = []
        var offset = run.offset.rawValue
        while bytes.position < run.range.upperBound {
            var piece = [UInt8](repeating: 0, count: min(1 << 20, run.range.upperBound - bytes.position))
            try piece.withUnsafeMutableBytes { try bytes.readWhole($0) }
            lines += piece
            let consumed = try self.takeLines(
                of: lines, reader, from: offset, receivedAt: self.asOf ?? run.receivedAt, isAgeJudged: true,
                isLast: bytes.position == run.range.upperBound || lines.count > Limits.lineByteCountMax)
            lines.removeFirst(consumed)
            offset += UInt64(consumed)
            try self.flush()
        }
    }

    /// How many bytes follow what was read.
    private func rest(of bytes: inout PartBytes<POSIXFileSystem>, upTo byteCount: Int) throws -> Int {
        let start = bytes.position
        var piece = [UInt8](repeating: 0, count: 1 << 20)
        while bytes.position < byteCount {
            let wanted = min(piece.count, byteCount - bytes.position)
            let count = try piece.withUnsafeMutableBytes {
                try bytes.read(into: UnsafeMutableRawBufferPointer(rebasing: $0[..<wanted]))
            }
            if count < wanted { break }
        }
        return bytes.position - start
    }

    // MARK: Lines

    /// The bytes of a line that is not complete yet.
    private struct LineAssembly {
        var pending: [UInt8] = []
        /// Where ``pending`` begins in the input.
        var offset: UInt64 = 0
        /// Whether the rest of an overlong line follows.
        var isSkipping = false
    }

    private mutating func take(_ chunk: ArraySlice<UInt8>, _ lines: inout LineAssembly) throws {
        var fresh = chunk
        if lines.isSkipping {
            guard let end = fresh.firstIndex(of: UInt8(ascii: "\n")) else {
                lines.offset += UInt64(fresh.count)
                return
            }
            lines.offset += UInt64(end + 1 - fresh.startIndex)
            fresh = fresh[(end + 1)...]
            lines.isSkipping = false
        }
        lines.pending.append(contentsOf: fresh)
        let consumed = try self.takeLines(of: lines.pending, from: lines.offset, isLast: false)
        lines.pending.removeFirst(consumed)
        lines.offset += UInt64(consumed)
        if lines.pending.count > Limits.lineByteCountMax {
            self.sink.counts.lines += 1
            self.sink.counts.countBad(.tooLong)
            lines.offset += UInt64(lines.pending.count)
            lines.pending = []
            lines.isSkipping = true
        }
        try self.flush()
    }

    private mutating func takeLast(_ lines: inout LineAssembly) throws {
        _ = try self.takeLines(of: lines.pending, from: lines.offset, isLast: true)
        self.exporter.finishGroup(to: &self.sink)
        try self.flush()
    }

    /// Takes lines whose stream is not recorded.
    private mutating func takeLines(of bytes: [UInt8], from offset: UInt64, isLast: Bool) throws -> Int {
        try self.takeLines(
            of: bytes, self.reader, from: offset, receivedAt: self.asOf ?? self.now, isAgeJudged: self.asOf != nil,
            isLast: isLast)
    }

    /// - Parameter offset: where `bytes` begin in their stream.
    /// - Returns: the bytes of whole lines.
    private mutating func takeLines(
        of bytes: [UInt8], _ reader: EventReader, from offset: UInt64, receivedAt: WallTime, isAgeJudged: Bool,
        isLast: Bool
    ) throws -> Int {
        try bytes.withUnsafeBytes { buffer in
            var position = 0
            while position < buffer.count {
                guard let end = buffer.firstNewline(from: position) ?? (isLast ? buffer.count : nil) else { break }
                let line = UnsafeRawBufferPointer(rebasing: buffer[position..<end])
                self.sink.counts.lines += 1
                switch reader.read(line) {
                case .event(let facts):
                    self.exporter.export(
                        line, facts, source: reader.source, at: offset + UInt64(position), receivedAt: receivedAt,
                        isAgeJudged: isAgeJudged, to: &self.sink)
                    guard self.exporter.isIdentified || !reader.source.isForeign else {
                        throw ValidationError(
                            "line \(self.sink.counts.lines) has no UUID in \"id\", so its id is made from the stream "
                                + "that it is from: name it with --stream, or name the archive's file as an argument")
                    }
                case .quarantine(.erased):
                    self.sink.counts.erased += 1
                case .quarantine(let reason):
                    self.sink.counts.countBad(reason)
                }
                position = min(end + 1, buffer.count)
            }
            return position
        }
    }

    // MARK: Output

    /// Ends the output.
    mutating func finish() throws -> TransformCounts {
        self.sink.output.append(contentsOf: self.sink.description.footer)
        try self.flush()
        return self.sink.counts
    }

    private mutating func flush() throws {
        do throws(FileSystemError) {
            try self.files.writeAll(FileID(rawValue: STDOUT_FILENO), self.sink.output)
            if let dead { try self.files.writeAll(dead, self.sink.dead) }
        } catch {
            throw Self.failure(error)
        }
        self.sink.output.removeAll(keepingCapacity: true)
        self.sink.dead.removeAll(keepingCapacity: true)
    }
}
