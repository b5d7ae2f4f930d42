package import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem

/// Carries out a ``Replay/Request``.
package struct Replayer<Files: FileSystem>: Sendable {
    let data: DataDirectory<Files>
    let request: Replay.Request
    let options: [ExportOptions]
    let files: Files
    /// Where its readers are; those in memory alone find nothing that a process before it left.
    private(set) var places = ReadingPlaces()
    private var memory: LoneReader<Files>.Memory
    private let placesIn: @Sendable (DataDirectory<Files>) -> ReadingPlaces
    private let version: String

    /// - Parameters:
    ///   - placesIn: the places of the program in the directory that is written to, which this process has locked.
    ///   - version: the build.
    package init(
        dataDirectory: String, files: Files, request: Replay.Request, openFileCountMax: Int = 64,
        version: String = "",
        placesIn: @escaping @Sendable (DataDirectory<Files>) -> ReadingPlaces = { _ in ReadingPlaces() }
    ) throws(Replay.Failure) {
        self.placesIn = placesIn
        self.version = version
        let data = DataDirectory(root: dataDirectory, files: files, openFileCountMax: openFileCountMax)
        self.files = files
        self.data = data
        self.memory = LoneReader.Memory(of: Self.program, in: data, for: PoisonOffsets.exports)
        self.request = request
        var options: [ExportOptions] = []
        for provider in request.providers {
            let given = request.options[provider]
            var new = given ?? ExportOptions(provider: provider)
            new.replayTime = request.now
            if let zone = request.zone {
                new.zone = zone
            } else if given == nil {
                new.zone = try data.recordedZone(of: "export-\(provider.rawValue)")
            }
            options.append(new)
        }
        self.options = options
    }

    /// Remembers what ends the program while `body` runs; once a line is left out, `body` begins again.
    func remembering(
        in memory: LoneReader<Files>.Memory, _ observer: Replay.Observer,
        _ body: (Self) throws(Replay.Failure) -> Replay.Report
    ) throws(Replay.Failure) -> Replay.Report {
        var copy = self
        copy.places = self.placesIn(memory.data)
        copy.memory = memory
        var unread: [String] = []
        while true {
            do throws(Replay.Failure) {
                var report = try body(copy)
                report.unread = unread + report.unread
                do throws(FileSystemError) {
                    try LoneReader.removePlaces(of: Self.program, in: memory.data)
                } catch {
                    observer.noticed("\(error)")
                }
                return report
            } catch {
                guard case .leavesOut(let lines, let told) = error else {
                    for text in unread { observer.noticed(text) }
                    throw error
                }
                unread += told
                let known = try copy.poison(of: copy.loneReader(0) { _ in })
                for line in lines where known?.readers(of: line.stream).readers(at: line.offset) == nil {
                    let isMerger = try Replay.onDisk { () throws(FileSystemError) in try self.data.hasState("merge") }
                    throw .endsReplay(line, root: self.data.root, isMerger: isMerger)
                }
            }
        }
    }

    /// Its name among programs that keep places.
    package static var program: String { "replay" }

    /// A reader that leaves out lines that ended the program, for this replay and later ones to the same directory.
    func loneReader(_ number: Int, _ tell: @escaping (String) -> Void) -> LoneReader<Files> {
        LoneReader(
            of: Self.program, number: number, in: self.data, memory: self.memory, places: self.places,
            version: self.version, tell: tell)
    }

    /// The lines that a reader does not read.
    func poison(of lone: LoneReader<Files>) throws(Replay.Failure) -> PoisonedLines? {
        try Replay.onDisk { () throws(FileSystemError) in try lone.reload() }
    }

    // MARK: Operations

    /// Regenerates the exports.
    package func run(_ observer: Replay.Observer = Replay.Observer()) throws(Replay.Failure) -> Replay.Report {
        try self.data.requireArchive()
        if let output = self.request.output { return try self.write(to: output, observer) }
        guard self.request.takesWholeDays else { throw .partOfDay }
        guard self.request.origin == .archive else { throw .journalInPlace }
        let lock = try self.data.lockForReplay()
        defer { self.files.close(lock) }
        // What is left out of exports in use is the operator's to say, and a fleet's.
        let memory = LoneReader.Memory(undecidedIn: self.data, for: PoisonOffsets.exports)
        return try self.remembering(in: memory, observer) { replayer throws(Replay.Failure) in
            try replayer.replace(observer)
        }
    }

    /// Counts what ``run(_:)`` would write, but writes nothing.
    package func preview(_ observer: Replay.Observer = Replay.Observer()) throws(Replay.Failure) -> Replay.Report {
        try self.data.requireArchive()
        if self.request.origin == .journal { return try self.replayJournal(into: nil, observer) }
        let plan = try self.plan()
        let survey = try self.survey(plan, observer)
        return try self.makeUnits(of: plan, survey, ledger: nil, observer) { _, options throws(FileSystemError) in
            RecordTally(options)
        } finish: { _, targets throws(FileSystemError) in
            Self.outcome(targets)
        }
    }

    static func outcome(_ targets: [(options: ExportOptions, target: RecordTally)]) -> [Destination: Replay.Counts] {
        Dictionary(uniqueKeysWithValues: targets.map { ($0.options.provider, $0.target.counts) })
    }

    /// Exchanges the days of the range with those from before the last replay or rollback.
    ///
    /// - Returns: the paths of the exchanged partitions below the data directory.
    package func rollBack() throws(Replay.Failure) -> [String] {
        try self.data.requireArchive()
        let lock = try self.data.lockForReplay()
        defer { self.files.close(lock) }
        try self.requireKnownOptions()
        var exchanged: [String] = []
        for options in self.options {
            let report = try Replay.onDisk { () throws(FileSystemError) in
                var live = try ExportProjection.live(options, data: self.data)
                _ = try live.recover()
                return try live.rollBack(self.request.range)
            }
            guard report.grown.isEmpty else { throw .grown(report.grown) }
            guard !report.exchanged.isEmpty else { throw .noPrevious(options.provider.rawValue) }
            exchanged += report.exchanged
        }
        return exchanged
    }

    // MARK: Elsewhere

    /// Writes to a separate directory, which becomes a data directory with only exports.
    private func write(to output: String, _ observer: Replay.Observer) throws(Replay.Failure) -> Replay.Report {
        let target = DataDirectory(
            root: output, files: self.files, openFileCountMax: self.data.openFileCountMax)
        let lock = try Replay.onDisk { () throws(FileSystemError) in
            try self.files.status(at: Path.join(output, "state/lock"))
        }
        guard lock == nil else { throw .outputInUse(output) }
        let own = try Replay.onDisk { () throws(FileSystemError) -> FileID? in
            try target.create()
            let file = try self.files.open(Path.join(target.state, "replay.lock"), .append)
            if try self.files.lock(file, .exclusive) { return file }
            self.files.close(file)
            return nil
        }
        guard let own else { throw .outputBusy(output) }
        defer { self.files.close(own) }
        let memory = LoneReader.Memory(of: Self.program, in: target, for: PoisonOffsets.exports)
        return try self.remembering(in: memory, observer) { replayer throws(Replay.Failure) in
            if self.request.origin == .journal { return try replayer.replayJournal(into: target, observer) }
            return try replayer.replayArchive(into: target, observer)
        }
    }

    private func replayArchive(
        into target: DataDirectory<Files>, _ observer: Replay.Observer
    ) throws(Replay.Failure) -> Replay.Report {
        let plan = try self.plan()
        let ledger = try self.openLedger(plan, in: target, observer) { provider in "exports/\(provider.rawValue)" }
        let report = try self.makeGeneration(plan, in: target, ledger, observer) { "exports/\($0.rawValue)" }
        try Replay.onDisk { () throws(FileSystemError) in
            for provider in self.request.providers {
                try self.files.removeTree(Path.join(target.root, Self.workDirectory(provider)))
            }
            try ledger.remove()
        }
        return report
    }

    // MARK: In place

    /// Advances the archive and live exports to the journal's end, makes the new generation, and exchanges partitions.
    private func replace(_ observer: Replay.Observer) throws(Replay.Failure) -> Replay.Report {
        try self.requireKnownOptions()
        try self.catchUp()
        let plan = try self.plan()
        let ledger = try self.openLedger(plan, in: self.data, observer, directory: Self.workDirectory)
        var report = try self.makeGeneration(plan, in: self.data, ledger, observer, directory: Self.workDirectory)
        if self.request.resending == .refused { report.damagedParts = try self.requireUnsent(observer) }
        try Replay.onDisk { () throws(FileSystemError) in
            guard let replay = ledger.replay else { return }
            for options in self.options {
                var live = try ExportProjection.live(options, data: self.data)
                _ = try live.recover()
                // Adopted before an interruption: the partitions that it replaced must not return.
                if live.adoptedReplay == replay { continue }
                try live.adopt(
                    from: Self.workDirectory(options.provider), range: self.request.range, replay: replay)
                for failure in live.takeFailures() { observer.noticed(failure.description) }
            }
            for provider in self.request.providers {
                try self.files.removeTree(Path.join(self.data.root, Self.workDirectory(provider)))
            }
            try ledger.remove()
        }
        return report
    }

    /// If no options are given for an export, it must have been written with the defaults: other options would close
    /// its parts and change what is written from there on.
    func requireKnownOptions() throws(Replay.Failure) {
        for options in self.options where self.request.options[options.provider] == nil {
            try self.data.requireRecorded(options)
        }
    }

    /// Where a provider's new generation is made, below the target directory.
    static func workDirectory(_ provider: Destination) -> String { "exports/.replay-\(provider.rawValue)" }

    func catchUp() throws(Replay.Failure) {
        let archiveZone = try self.data.recordedZone(of: "archive")
        try Replay.onDisk { () throws(FileSystemError) in
            let journal = try self.data.openJournal()
            var archive = try ArchiveProjection(data: self.data, zone: archiveZone)
            try self.advance(&archive, to: journal.end)
            for options in self.options { try self.catchUp(options, to: journal.end) }
        }
    }

    private func catchUp(_ options: ExportOptions, to end: JournalPosition) throws(FileSystemError) {
        let hasState = try self.data.hasState("export-\(options.provider.rawValue)")
        var live = try ExportProjection.live(options, data: self.data)
        if hasState {
            try self.advance(&live, to: end)
        } else {
            // Never exported live: an export that is configured later starts here.
            _ = try live.recover()
            try live.checkpoint(at: end)
        }
    }

    private func advance(
        _ projection: inout some Projection & ~Copyable, to end: JournalPosition
    ) throws(FileSystemError) {
        var run = ProjectionRun(journalDirectory: self.data.journal, files: self.files)
        _ = try run.catchUp(&projection, to: end)
        try projection.checkpoint(at: end)
    }

    // MARK: The new generation

    func plan() throws(Replay.Failure) -> ReplayPlan<Files> {
        let poison = try self.poison(of: self.loneReader(0) { _ in })
        return try Replay.onDisk { () throws(FileSystemError) in
            try ReplayPlan(
                index: try ArchiveIndex(data: self.data), request: self.request, poison: poison,
                zones: self.options.map(\.zone))
        }
    }

    /// Opens the record of an interrupted replay, or starts one.
    private func openLedger(
        _ plan: ReplayPlan<Files>, in target: DataDirectory<Files>, _ observer: Replay.Observer,
        directory: (Destination) -> String
    ) throws(Replay.Failure) -> ReplayLedger<Files> {
        let request = self.requestFingerprint
        let archive = Self.fingerprint(of: plan)
        return try Replay.onDisk { () throws(FileSystemError) in
            let ledger = try ReplayLedger(path: target.statePath("replay"), files: self.files)
            let obstacle =
                self.request.isFromStart ? "as requested" : ledger.obstacle(request: request, archive: archive)
            if let obstacle, ledger.replay != nil { observer.noticed("the replay begins again: \(obstacle)") }
            if ledger.replay == nil || obstacle != nil {
                // Files made for another replay must be gone before any record can attribute them to this one.
                for provider in self.request.providers {
                    for directory in Set([directory(provider), Self.workDirectory(provider)]).sorted() {
                        try self.files.removeTree(Path.join(target.root, directory))
                    }
                }
                try self.files.synchronizeDirectory(target.exports)
                try ledger.begin(request: request, archive: archive)
            }
            return ledger
        }
    }

    /// Everything except the archive that determines the bytes that a replay writes.
    private var requestFingerprint: String {
        var fields = [
            "1", self.request.range.from?.description ?? "", self.request.range.to?.description ?? "",
            self.request.users.rawValue, self.request.duplicates.rawValue, self.request.origin.rawValue,
        ]
        fields += self.options.map { "\($0.provider.rawValue) \($0.fingerprint)" }
        for set in [
            Set(self.request.range.environments.map(\.rawValue)), self.request.bundles, self.request.names,
            Set(self.request.kinds.map(\.rawValue)),
        ] {
            fields += ["set"] + set.sorted()
        }
        return Self.fingerprint(of: fields)
    }

    private static func fingerprint(of plan: ReplayPlan<Files>) -> String {
        Self.fingerprint(
            of: plan.index.parts.map { "\($0.path) \($0.byteCount) \($0.sourcesByteCount)" }
                + (plan.poison?.lines ?? []).map(\.text))
    }

    private static func fingerprint(of texts: [String]) -> String {
        var digest = SHA256Digest()
        for text in texts {
            var text = "\(text.utf8.count) \(text)"
            text.withUTF8 { digest.update(UnsafeRawBufferPointer($0)) }
        }
        return digest.finish()
    }

    /// Makes the missing units, each below `directory`.
    private func makeGeneration(
        _ plan: ReplayPlan<Files>, in target: DataDirectory<Files>, _ ledger: ReplayLedger<Files>,
        _ observer: Replay.Observer, directory: @escaping @Sendable (Destination) -> String
    ) throws(Replay.Failure) -> Replay.Report {
        let survey = try self.survey(plan, observer)
        return try self.makeUnits(of: plan, survey, ledger: ledger, observer) {
            unit, options throws(FileSystemError) in
            let work = Self.unitDirectory(unit, options.provider)
            try self.files.removeTree(Path.join(target.root, work))
            // Made, but not recorded before a crash.
            try self.files.removeTree(Path.join(target.root, "\(directory(options.provider))/\(unit)"))
            try self.files.createDirectories(Path.join(target.root, work))
            return try PartitionWriter(
                options, data: target, directory: work,
                statePath: Path.join(target.root, "\(work)/unit.state"))
        } finish: { unit, targets throws(FileSystemError) in
            var counts: [Destination: Replay.Counts] = [:]
            for (options, writer) in targets {
                let work = Self.unitDirectory(unit, options.provider)
                let partitions = try writer.finish()
                counts[options.provider, default: Replay.Counts()].events = writer.counts
                counts[options.provider, default: Replay.Counts()].partitions = partitions.count
                for partition in partitions {
                    let path = Path.join(target.root, "\(directory(options.provider))/\(unit)")
                    try self.files.createDirectories(Path.parent(of: path))
                    try self.files.rename(Path.join(target.root, partition), to: path)
                    try self.files.synchronizeDirectory(Path.parent(of: path))
                }
                try self.files.removeTree(Path.join(target.root, work))
                // What was moved out of it does not come back under its old name, once the unit is recorded.
                try self.files.synchronizeDirectory(Path.parent(of: Path.join(target.root, work)))
            }
            return counts
        }
    }

    /// Where a unit is written; a name that readers of exports do not mistake for a partition.
    private static func unitDirectory(_ unit: ExportDay, _ provider: Destination) -> String {
        "\(Self.workDirectory(provider))/.unit-\(unit.env.rawValue)-\(unit.day)"
    }
}
