internal import WaybillData
internal import WaybillEvent
package import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem

/// Passes quarantined lines to an agent again, each once, after a fix of the agent's configuration.
///
///     quarantine/date=…/<reason>.ndjson ── from where the last requeue stopped ─▶ requeue-00000.ndjson, for --glob
///
/// Originals stay in place. `state/requeue.state` records what was taken:
///
///     1. the lines go into `.requeue-00000.ndjson` in the output, which no agent reads; it is synced
///     2. one commit: all this is taken, and the file is to be published
///     3. the file gets its name, durably        4. one commit: it is published
///
/// After a crash before 2, the next run rewrites the hidden file. After a crash between 2 and 4, a hidden file that still exists gets its name. So each line is in exactly one
/// published file.
package struct Requeue<Files: FileSystem>: Sendable {
    /// Whether lines that ended the program are taken.
    package enum Poison: Hashable, Sendable {
        /// They stay, also where every reason is asked for.
        case kept
        /// They are taken if no line of the directory ended this version of the program, or a later one.
        case takenAfter(version: ProgramVersion)
    }

    package struct Report: Hashable, Sendable {
        package var lineCount = 0
        package var byteCount = 0
        /// Lines of erased people, which stay where they are.
        package var erasedCount = 0
        /// Published files, including the file of an interrupted run.
        package var paths: [String] = []
    }

    package enum Failure: Error, CustomStringConvertible {
        case disk(FileSystemError)
        case noDataDirectory(String)
        case busy(String)
        case unpublished(String)
        /// A line ended this version, or a later one than the named.
        case poisonOfVersion(String)

        package var description: String {
            switch self {
            case .disk(let error): "the files of the requeue cannot be used: \(error)"
            case .noDataDirectory(let path): "\(path) is not a receiver's data directory; name one with --data"
            case .busy(let path): "another requeue is using \(path); wait for it"
            case .poisonOfVersion(let version): ProgramVersion.mayEndAgain(version)
            case .unpublished(let path):
                "an interrupted requeue has yet to publish \(path), whose directory does not exist; run it in the same "
                    + "working directory as before, or restore the directory"
            }
        }
    }

    /// Writes the lines of one run to the hidden file.
    private struct Output: ~Copyable {
        let file: FileID
        let files: Files
        var buffer: [UInt8] = []
        var lineCount = 0
        var byteCount = 0

        mutating func append(_ bytes: UnsafeRawBufferPointer) throws(FileSystemError) {
            self.buffer.append(contentsOf: bytes)
            self.byteCount += bytes.count
            self.lineCount += bytes.count(where: { $0 == 0x0A })
            if self.buffer.count >= 1 << 20 { try self.flush() }
        }

        mutating func flush() throws(FileSystemError) {
            try self.files.writeAll(self.file, self.buffer)
            self.buffer.removeAll(keepingCapacity: true)
        }
    }

    private let data: DataDirectory<Files>
    private let files: Files
    private let output: String
    private let poison: Poison

    private static var publishKey: String { "publish" }
    private static var numberKey: String { "number" }
    private static var takenPrefix: String { "taken:" }

    package init(dataDirectory: String, output: String, poison: Poison = .kept, files: Files) {
        self.poison = poison
        self.data = DataDirectory(root: dataDirectory, files: files)
        self.files = files
        self.output = output
    }

    /// Publishes the lines that no run has taken before.
    ///
    /// - Parameter reasons: of the lines; empty: all.
    package func run(_ reasons: Set<QuarantineReason>) throws(Failure) -> Report {
        let result: Result<Report, Failure>
        do throws(FileSystemError) {
            result = try self.runLocked(reasons)
        } catch {
            throw .disk(error)
        }
        return try result.get()
    }

    private func runLocked(_ reasons: Set<QuarantineReason>) throws(FileSystemError) -> Result<Report, Failure> {
        guard try self.files.status(at: self.data.state) != nil else {
            return .failure(.noDataDirectory(self.data.root))
        }
        if case .takenAfter(let version) = self.poison,
            let line = version.firstEnded(of: try PoisonedLines.read(in: self.data))
        {
            return .failure(.poisonOfVersion(line.version))
        }
        let lock = try self.files.open(Path.join(self.data.state, "requeue.lock"), .append)
        defer { self.files.close(lock) }
        guard try self.files.lock(lock, .exclusive) else { return .failure(.busy(self.data.root)) }
        return try self.takeAndPublish(reasons)
    }

    private func takeAndPublish(
        _ reasons: Set<QuarantineReason>
    ) throws(FileSystemError) -> Result<Report, Failure> {
        var state = try StateStore(path: self.data.statePath("requeue"), files: self.files)
        try state.settle()
        var report = Report()
        if let path = state.entries[Self.publishKey] {
            // Without its directory, it is unknown whether the file was published.
            guard try self.files.status(at: Path.parent(of: path)) != nil else { return .failure(.unpublished(path)) }
            try self.publish(path, &state)
            report.paths.append(path)
        }
        let erased = try ErasedPeople.read(in: self.data)
        try self.files.createDirectories(self.output)
        let number = try self.nextNumber(state.entries[Self.numberKey])
        let path = self.path(number)
        var output = Output(file: try self.files.open(Self.hidden(path), .replace), files: self.files)
        var changes: [String: String?] = [:]
        try self.takeQuarantine(reasons, state.entries, erased, into: &output, &changes, &report)
        try output.flush()
        try self.files.synchronize(output.file)
        self.files.close(output.file)
        guard output.byteCount > 0 else {
            try self.files.unlink(Self.hidden(path))
            return .success(report)
        }
        try self.files.synchronizeDirectory(self.output)
        changes[Self.publishKey] = .some(path)
        changes[Self.numberKey] = .some(String(number + 1))
        try state.commit(changes)
        try self.publish(path, &state)
        report.paths.append(path)
        report.lineCount += output.lineCount
        report.byteCount += output.byteCount
        return .success(report)
    }

    private func path(_ number: Int) -> String {
        let digits = String(number)
        let zeros = String(repeating: "0", count: max(0, 5 - digits.utf8.count))
        return Path.join(self.output, "requeue-\(zeros)\(digits).ndjson")
    }

    /// Where a file is written before it is published.
    private static func hidden(_ path: String) -> String {
        Path.join(Path.parent(of: path), "." + Path.name(of: path))
    }

    /// Gives the hidden file its name, unless that is already done.
    private func publish(_ path: String, _ state: inout StateStore<Files>) throws(FileSystemError) {
        if try self.files.status(at: Self.hidden(path)) != nil { try self.files.rename(Self.hidden(path), to: path) }
        try self.files.synchronizeDirectory(Path.parent(of: path))
        try state.commit([Self.publishKey: String?.none])
    }

    /// A number without a file, because a file that an agent has not read yet must not be overwritten.
    private func nextNumber(_ recorded: String?) throws(FileSystemError) -> Int {
        var number = recorded.flatMap { Int($0) } ?? 0
        while try self.files.status(at: self.path(number)) != nil { number += 1 }
        return number
    }

    // MARK: Quarantine

    private func takeQuarantine(
        _ reasons: Set<QuarantineReason>, _ entries: [String: String], _ erased: ErasedPeople?,
        into output: inout Output, _ changes: inout [String: String?], _ report: inout Report
    ) throws(FileSystemError) {
        let lengths = try ArchiveIndex(data: self.data).lengths
        for (path, length) in lengths.sorted(by: { $0.key < $1.key })
        where path.hasPrefix("quarantine/") && path.hasSuffix(".ndjson") {
            let reason = QuarantineReason(rawValue: String(Path.name(of: path).dropLast(".ndjson".utf8.count)))
            guard reasons.isEmpty || reason.map(reasons.contains) ?? false, reason != .poison || self.poison != .kept
            else { continue }
            let taken = entries[Self.takenPrefix + path].flatMap { Int($0) } ?? 0
            guard taken < length else { continue }
            changes[Self.takenPrefix + path] = .some(String(length))
            // The bytes of poison were searched when the person was erased: nothing parses it here.
            if let erased, reason != .poison {
                let sources = lengths[path.dropLast(".ndjson".utf8.count) + ".sources"] ?? 0
                report.erasedCount += try self.takeLines(of: path, taken..<length, sources, erased, into: &output)
                continue
            }
            let file = try self.files.open(Path.join(self.data.root, path), .read)
            defer { self.files.close(file) }
            try self.files.visit(file, taken..<length) { (piece) throws(FileSystemError) in try output.append(piece) }
        }
    }

    /// Takes the lines of a range that are no erased person's.
    ///
    /// - Parameter sourcesByteCount: the certain length of the file's `.sources`, which tell how its lines are read.
    /// - Returns: how many lines are an erased person's.
    private func takeLines(
        of path: String, _ range: Range<Int>, _ sourcesByteCount: Int, _ erased: ErasedPeople,
        into output: inout Output
    ) throws(FileSystemError) -> Int {
        let stem = Path.join(self.data.root, String(path.dropLast(".ndjson".utf8.count)))
        let hasSources = try self.files.status(at: stem + ".sources") != nil
        var runs =
            try hasSources
            ? SourceRuns(
                path: stem + ".sources", byteCount: sourcesByteCount, linesByteCount: range.upperBound,
                files: self.files) : nil
        var readers = EventReaders(erased: erased)
        let stray = EventReader(
            source: SourceDescription(env: .prod, bundle: "unknown", isForeign: false), erased: erased)
        var run: (range: Range<Int>, reader: EventReader)?
        var lines = try LineReader(
            path: stem + ".ndjson", byteCount: range.upperBound, lineByteCountMax: .max, files: self.files)
        var erasedCount = 0
        while let line = try lines.next() {
            guard line.range.lowerBound >= range.lowerBound else { continue }
            while run.map({ $0.range.upperBound <= line.range.lowerBound }) ?? true, let item = try runs?.next() {
                guard case .run(let found, _) = item else { continue }
                run = (found.range, readers.reader(for: found.description))
            }
            let reader = run.flatMap { $0.range.contains(line.range.lowerBound) ? $0.reader : nil } ?? stray
            if line.bytes.withUnsafeBytes({ reader.read($0) }) == .quarantine(.erased) {
                erasedCount += 1
            } else {
                try (line.bytes + [0x0A]).withBytes { (line) throws(FileSystemError) in try output.append(line) }
            }
        }
        return erasedCount
    }
}
