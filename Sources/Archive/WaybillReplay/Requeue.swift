internal import WaybillData
internal import WaybillEvent
package import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem

/// Passes set-aside lines to an agent again, each once: quarantined lines after a fix of the agent's configuration,
/// refused events after a fix of a mapping.
///
///     quarantine/date=…/<reason>.ndjson       ─┐  from where the last requeue stopped  ┌─▶ requeue-00000.ndjson
///     exports/<provider>/…/dead/part-00000.…  ─┘  what no requeue has taken before     └─  for an agent's --glob
///
/// A dead letter points to its line in the archive, or has it.
///
/// Originals stay in place. `state/requeue.state` records what was taken, `state/requeue.ids` which refused events:
///
///     1. the lines go into `.requeue-00000.ndjson` in the output, which no agent reads; the digests of refused events
///        after those in `requeue.ids`; both are synced
///     2. one commit: all this is taken, and the file is to be published
///     3. the file gets its name, durably        4. one commit: it is published
///
/// After a crash before 2, the next run rewrites the hidden file and truncates `requeue.ids` to its committed length.
/// After a crash between 2 and 4, a hidden file that still exists gets its name. So each line is in exactly one
/// published file.
package struct Requeue<Files: FileSystem>: Sendable {
    /// What is requeued.
    package enum Selection: Hashable, Sendable {
        /// Quarantined lines with these reasons; with any reason if empty.
        case quarantine(Set<QuarantineReason>)
        /// Events that a provider refused for these reasons; for any reason if empty. They return for this provider
        /// alone.
        case dead(Destination, Set<RefusalReason>)
    }

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
        /// Refused events that an earlier run has taken.
        package var knownCount = 0
        /// Dead letters without their event: the person did not consent, or the line was not JSON.
        package var withoutEventCount = 0
        /// Refused events that the archive no longer has.
        package var goneCount = 0
        /// Refused events that the archive does not have yet; a later run takes them.
        package var unarchivedCount = 0
        /// Lines of erased people, which stay where they are.
        package var erasedCount = 0
        /// Damaged files of refused events, whose remaining events were left out.
        package var damagedPaths: [String] = []
        /// Published files, including the file of an interrupted run.
        package var paths: [String] = []
    }

    package enum Failure: Error, CustomStringConvertible {
        case disk(FileSystemError)
        case noDataDirectory(String)
        case busy(String)
        case tooMany(limit: Int)
        case unpublished(String)
        /// A line ended this version, or a later one than the named.
        case poisonOfVersion(String)
        /// Everything else was requeued.
        case damaged([String], dataDirectory: String, provider: String)

        package var description: String {
            switch self {
            case .disk(let error): "the files of the requeue cannot be used: \(error)"
            case .noDataDirectory(let path): "\(path) is not a receiver's data directory; name one with --data"
            case .busy(let path): "another requeue is using \(path); wait for it"
            case .tooMany(let limit):
                "more than \(limit) refused events were requeued, the limit that can be remembered; "
                    + "regenerate the days with waybill replay instead"
            case .damaged(let paths, let data, let provider):
                "\(paths.joined(separator: ", ")) cannot be read to the end, and what is left of it was not requeued; waybill "
                    + "replay --data \(data) --provider \(provider) --from DAY --to DAY makes the day again"
            case .poisonOfVersion(let version):
                "lines ended version \(version) of the program, so they may end it again; name a later version with "
                    + "--after-version, once it runs here"
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

    /// The files with a provider's refused events, and the certain lengths of those without a manifest.
    private struct DeadLetters {
        let files: [DeadLetterFile]
        let lengths: [String: Int]
    }

    private let data: DataDirectory<Files>
    private let files: Files
    private let output: String
    private let poison: Poison

    /// The maximum number of digests in memory and in `requeue.ids`: 16 bytes each.
    private static var takenCountMax: Int { 8 << 20 }
    private static var publishKey: String { "publish" }
    private static var numberKey: String { "number" }
    private static var idsKey: String { "ids" }
    private static var takenPrefix: String { "taken:" }

    package init(dataDirectory: String, output: String, poison: Poison = .kept, files: Files) {
        self.poison = poison
        self.data = DataDirectory(root: dataDirectory, files: files)
        self.files = files
        self.output = output
    }

    /// Publishes the lines that no run has taken before.
    package func run(_ selection: Selection) throws(Failure) -> Report {
        let result: Result<Report, Failure>
        do throws(FileSystemError) {
            result = try self.runLocked(selection)
        } catch {
            throw .disk(error)
        }
        return try result.get()
    }

    private func runLocked(_ selection: Selection) throws(FileSystemError) -> Result<Report, Failure> {
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
        return try self.takeAndPublish(selection)
    }

    private func takeAndPublish(_ selection: Selection) throws(FileSystemError) -> Result<Report, Failure> {
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
        switch selection {
        case .quarantine(let reasons):
            try self.takeQuarantine(reasons, state.entries, erased, into: &output, &changes, &report)
        case .dead(let provider, let reasons):
            let isTaken = try self.takeDead(
                provider, reasons, state.entries, erased, into: &output, &changes, &report)
            guard isTaken else {
                self.files.close(output.file)
                return .failure(.tooMany(limit: Self.takenCountMax))
            }
        }
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

    // MARK: Refused events

    /// - Returns: `false` if there are too many to remember.
    private func takeDead(
        _ provider: Destination, _ reasons: Set<RefusalReason>, _ entries: [String: String], _ erased: ErasedPeople?,
        into output: inout Output, _ changes: inout [String: String?], _ report: inout Report
    ) throws(FileSystemError) -> Bool {
        let idsPath = Path.join(self.data.state, "requeue.ids")
        let certain = entries[Self.idsKey].flatMap { Int($0) } ?? 0
        let ids = try self.files.open(idsPath, .append)
        defer { self.files.close(ids) }
        // Removes what an uncommitted run has written.
        try self.files.truncate(ids, to: certain)
        guard var taken = try self.digests(idsPath, byteCount: certain) else { return false }
        var letters = DeadLetterReader(erased: erased)
        var added: [UInt8] = []
        var pointed = PointedLines()
        let statePath = self.data.statePath("export-\(provider.rawValue)")
        let entries = try StateImage.read(statePath, files: self.files)?.entries ?? [:]
        let deadLetters = DeadLetters(
            files: try self.deadLetterFiles(of: provider),
            lengths: ExportCheckpoint.lengths(in: entries, fileExtension: "", self.files))
        // What the archive may have, by its place.
        var missing: Set<Digest128> = []
        try self.visitLines(of: deadLetters, &report) { line, report throws(FileSystemError) in
            guard taken.count <= Self.takenCountMax, letters.read(line, reasons),
                self.poison != .kept || !letters.isPoison
            else { return }
            guard let digest = letters.place?.digest(for: provider.rawValue) ?? letters.digest(provider) else {
                report.withoutEventCount += 1
                return
            }
            guard taken.insert(digest).inserted else {
                report.knownCount += 1
                return
            }
            if let place = letters.place {
                pointed.add(place)
                missing.insert(digest)
                return
            }
            guard !letters.isErased else {
                report.erasedCount += 1
                return
            }
            added += Array("\(digest.text)\n".utf8)
            try output.append(letters.event(for: provider))
        }
        if taken.count > Self.takenCountMax { return false }
        try pointed.visit(in: self.data) { line, place, description throws(FileSystemError) in
            guard letters.read(line, of: description, at: place.offset) else { return }
            let digest = place.digest(for: provider.rawValue)
            guard missing.remove(digest) != nil else { return }
            guard !letters.isErased else {
                report.erasedCount += 1
                return
            }
            added += Array("\(digest.text)\n".utf8)
            try output.append(letters.event(for: provider))
        }
        if !missing.isEmpty {
            let position = entries["position"].flatMap { Int($0) } ?? 0
            added += try self.takeOwnEvents(
                of: deadLetters, missing, pointed, provider, erased, exportedUpTo: position, into: &output, &report)
        }
        try self.files.writeAll(ids, added)
        try self.files.synchronize(ids)
        try self.files.synchronizeDirectory(self.data.state)
        changes[Self.idsKey] = .some(String(certain + added.count))
        return true
    }

    /// Takes the events of dead letters that the archive does not have, from the letters themselves.
    ///
    /// - Parameter missing: the digests of their places.
    /// - Returns: the digests of those taken, as lines.
    private func takeOwnEvents(
        of deadLetters: DeadLetters, _ missing: Set<Digest128>, _ pointed: PointedLines, _ provider: Destination,
        _ erased: ErasedPeople?, exportedUpTo position: Int, into output: inout Output, _ report: inout Report
    ) throws(FileSystemError) -> [UInt8] {
        let archived = try ArchiveIndex(data: self.data).position?.rawValue ?? 0
        var letters = DeadLetterReader(erased: erased)
        var missing = missing
        var added: [UInt8] = []
        try self.visitLines(of: deadLetters, &report) { line, report throws(FileSystemError) in
            guard letters.read(line, []), let place = letters.place else { return }
            let digest = place.digest(for: provider.rawValue)
            guard missing.remove(digest) != nil else { return }
            if letters.isErased {
                report.erasedCount += 1
            } else if letters.hasEvent {
                added += Array("\(digest.text)\n".utf8)
                try output.append(letters.event(for: provider))
            } else if archived < position, pointed.end(of: place.name) <= place.offset {
                report.unarchivedCount += 1
            } else {
                report.goneCount += 1
            }
        }
        return added
    }

    /// Calls `body` with each line of these files; leaves out the rest of a damaged one.
    private func visitLines(
        of deadLetters: DeadLetters, _ report: inout Report,
        _ body: (_ line: [UInt8], _ report: inout Report) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        for file in deadLetters.files {
            do throws(FileSystemError) {
                var reader = try file.lines(root: self.data.root, lengths: deadLetters.lengths, files: self.files)
                while let line = try reader?.next() { try body(line.bytes, &report) }
            } catch {
                guard error.isDamage else { throw error }
                if !report.damagedPaths.contains(error.path) { report.damagedPaths.append(error.path) }
            }
        }
    }

    /// The files with refused events of a provider, in the order of their paths.
    private func deadLetterFiles(of provider: Destination) throws(FileSystemError) -> [DeadLetterFile] {
        var found: [DeadLetterFile] = []
        let top = "exports/\(provider.rawValue)"
        for env in try self.folders(in: top) {
            for day in try self.folders(in: env) {
                found += try DeadLetterFile.all(of: day, root: self.data.root, files: self.files)
            }
        }
        return found
    }

    private func folders(in folder: String) throws(FileSystemError) -> [String] {
        let path = Path.join(self.data.root, folder)
        guard try self.files.status(at: path)?.kind == .directory else { return [] }
        return try self.files.list(path).filter { $0.hasPrefix("env=") || $0.hasPrefix("date=") }.sorted()
            .map { "\(folder)/\($0)" }
    }

    /// The digests of taken events; `nil` if there are too many.
    private func digests(_ path: String, byteCount: Int) throws(FileSystemError) -> Set<Digest128>? {
        var digests: Set<Digest128> = []
        var reader = try LineReader(path: path, byteCount: byteCount, lineByteCountMax: 64, files: self.files)
        while let line = try reader.next() {
            guard let digest = Digest128(text: line.bytes) else { continue }
            guard digests.count < Self.takenCountMax else { return nil }
            digests.insert(digest)
        }
        return digests
    }
}
