package import WaybillArchive
package import WaybillExport
package import WaybillProjection
package import WaybillSystem

internal import WaybillJournal
internal import WaybillProtocol

/// Makes a provider's export for a range of days again, from the archive, with the code of the live export.
///
///     archive part + its .sources ─▶ runs of lines, each with its stream and time of receipt ─▶ ExportProjection
///         ─▶ exports/.replay-<provider>/env=…/date=… (parts, ids, manifests) ─▶ exchanged with exports/<provider>/…
///
/// Life of one line: found in a run of its archive file → judged and mapped exactly as it was when it arrived, since
/// the run says which stream brought it and when → a record of its day in the report's zone. Days outside the range
/// are passed over. Files are read in the order of their paths, so the same archive gives the same bytes.
///
/// A live export must not write to a day that is being exchanged, so a replay in place wants the data directory for
/// itself; with an output directory it reads what the archive's last checkpoint stands for and needs no lock.
package struct Replay: Sendable {
    /// What is made again.
    package struct Request: Sendable {
        package var provider: ProviderID
        /// The report's zone; `nil`: the live export's, UTC when there is none.
        package var zone: TimeZoneRules?
        /// Days in the report's zone; `nil`: all.
        package var from: CalendarDay?
        package var to: CalendarDay?
        package var environment: DeploymentEnvironment?
        /// Where to write instead of the data directory's exports.
        package var output: String?

        package init(provider: ProviderID) {
            self.provider = provider
        }
    }

    /// What a replay did.
    package struct Report: Hashable, Sendable {
        package var lineCount = 0
        package var byteCount = 0
        /// Bytes of the archive whose origin its `.sources` do not tell any more; they were not replayed.
        package var unexplainedByteCount = 0
        package var counts: ExportCounts
        /// Partitions written, as paths below the output.
        package var partitions: [String] = []
    }

    /// Why a replay cannot be done.
    package enum Failure: Error, CustomStringConvertible {
        case data(DataDirectoryError)
        case disk(FileSystemError)
        case zone(TimeZoneError)
        case noArchive(String)
        case outputInUse(String)

        package var description: String {
            switch self {
            case .data(.locked(let path, let owner)):
                "\(path) is in use by process \(owner); stop that receiver, or write elsewhere with --output DIR"
            case .data(let error): error.description
            case .zone(let error): error.description
            case .disk(let error): "the replay's files cannot be used: \(error)"
            case .outputInUse(let path):
                "\(path) is a receiver's data directory; name a directory of its own with --output"
            case .noArchive(let path): "\(path) holds no archive; name a receiver's data directory with --data"
            }
        }
    }

    private let data: DataDirectory<POSIXFileSystem>
    private let request: Request
    private let options: ExportOptions
    private let files = POSIXFileSystem()

    package init(dataDirectory: String, request: Request) throws(Failure) {
        let data = DataDirectory(root: dataDirectory, files: POSIXFileSystem())
        self.data = data
        self.request = request
        var zone = request.zone
        if zone == nil { zone = try Self.recordedZone(data, "export-\(request.provider.rawValue)") }
        self.options = ExportOptions(provider: request.provider, zone: zone ?? .utc)
    }

    /// The zone that a projection of the receiver last ran with; UTC when it never did.
    private static func recordedZone(
        _ data: DataDirectory<POSIXFileSystem>, _ projection: String
    ) throws(Failure) -> TimeZoneRules {
        let state: [UInt8]?
        do throws(FileSystemError) {
            state = try data.files.contents(of: data.statePath(projection), byteCountMax: 1 << 30)
        } catch {
            throw .disk(error)
        }
        guard let name = state.flatMap({ StateImage(bytes: $0) })?.entries["zone"] else { return .utc }
        do throws(TimeZoneError) {
            return try TimeZoneRules(named: name, from: data.files)
        } catch {
            throw .zone(error)
        }
    }

    /// Does it.
    ///
    /// - Parameter progress: bytes of the archive read so far, and how many there are.
    package func run(progress: (_ done: Int, _ total: Int) -> Void) throws(Failure) -> Report {
        let archive: FileStatus?
        do throws(FileSystemError) {
            archive = try self.files.status(at: self.data.archive)
        } catch {
            throw .disk(error)
        }
        guard archive != nil else { throw .noArchive(self.data.root) }
        if let output = self.request.output { return try self.write(to: output, progress: progress) }
        let lock: FileID
        do throws(DataDirectoryError) {
            lock = try self.data.lock(processID: ProcessID.current)
        } catch {
            throw .data(error)
        }
        defer { self.files.close(lock) }
        return try self.replace(progress: progress)
    }

    /// Writes into a directory of its own, which becomes a data directory with exports alone.
    private func write(to output: String, progress: (Int, Int) -> Void) throws(Failure) -> Report {
        let lock: FileStatus?
        do throws(FileSystemError) {
            lock = try self.files.status(at: Path.join(output, "state/lock"))
        } catch {
            throw .disk(error)
        }
        guard lock == nil else { throw .outputInUse(output) }
        do throws(FileSystemError) {
            let target = DataDirectory(root: output, files: self.files)
            try target.create()
            let name = self.request.provider.rawValue
            return try self.project(
                into: target, directory: "exports/\(name)", statePath: target.statePath("replay-\(name)"),
                progress: progress)
        } catch {
            throw .disk(error)
        }
    }

    /// Brings archive and live export to the journal's end, writes the new generation, and exchanges the partitions.
    private func replace(progress: (Int, Int) -> Void) throws(Failure) -> Report {
        let archiveZone = try Self.recordedZone(self.data, "archive")
        do throws(FileSystemError) {
            var live = try self.catchUp(archiveZone: archiveZone)
            let name = self.request.provider.rawValue
            let directory = "exports/.replay-\(name)"
            let report = try self.project(
                into: self.data, directory: directory, statePath: self.data.statePath("replay-\(name)"),
                progress: progress)
            try live.adopt(
                from: directory, days: self.request.from, through: self.request.to, env: self.request.environment)
            return report
        } catch {
            throw .disk(error)
        }
    }

    private func catchUp(archiveZone: TimeZoneRules) throws(FileSystemError) -> ExportProjection<POSIXFileSystem> {
        let journal = try self.data.openJournal()
        var archive = try ArchiveProjection(data: self.data, zone: archiveZone)
        try self.advance(&archive, to: journal.end)
        let isLive = try self.files.status(at: self.data.statePath("export-\(self.request.provider.rawValue)"))
        var live = try ExportProjection.live(self.options, data: self.data)
        if isLive != nil {
            try self.advance(&live, to: journal.end)
        } else {
            // Never exported live: one that is configured later begins here.
            _ = try live.recover()
            try live.checkpoint(at: journal.end)
        }
        return live
    }

    private func advance(
        _ projection: inout some Projection & ~Copyable, to end: JournalPosition
    ) throws(FileSystemError) {
        var run = ProjectionRun(journalDirectory: self.data.journal, files: self.files)
        var position = try projection.recover().position
        while position < end { position = try run.advance(&projection, from: position, upTo: end) }
        try projection.checkpoint(at: end)
    }

    // MARK: The new generation

    private func project(
        into target: DataDirectory<POSIXFileSystem>, directory: String, statePath: String,
        progress: (Int, Int) -> Void
    ) throws(FileSystemError) -> Report {
        try self.files.removeTree(Path.join(target.root, directory))
        try self.files.removeState(statePath)
        var export = try ExportProjection(
            data: target, directory: directory, statePath: statePath, options: self.options, isAgeJudged: true)
        _ = try export.recover()
        export.filter = ExportFilter(from: self.request.from, to: self.request.to, env: self.request.environment)
        let index = try ArchiveIndex(data: self.data)
        let parts = index.parts.filter(self.mayHold)
        let total = parts.reduce(0) { $0 + $1.byteCount }
        var report = Report(counts: export.counts)
        for part in parts {
            let done = report.byteCount
            let read = try self.replay(part, of: index, into: &export) { progress(done + $0, total) }
            report.lineCount += read.lineCount
            report.unexplainedByteCount += part.byteCount - read.byteCount
            report.byteCount += part.byteCount
        }
        try export.closeAll()
        try export.checkpoint(at: JournalPosition(0))
        try self.files.removeState(statePath)
        report.counts = export.counts
        report.partitions = export.partitionPaths
        return report
    }

    /// Whether a part can hold events of the range: the report's zone is at most a day away from the archive's.
    private func mayHold(_ part: ArchiveIndex<POSIXFileSystem>.Part) -> Bool {
        if let env = self.request.environment, env.rawValue != part.environment { return false }
        if let from = self.request.from, part.day.daysSince1970 < from.daysSince1970 - 1 { return false }
        if let to = self.request.to, part.day.daysSince1970 > to.daysSince1970 + 1 { return false }
        return true
    }

    /// - Returns: what was read.
    private func replay(
        _ part: ArchiveIndex<POSIXFileSystem>.Part, of index: ArchiveIndex<POSIXFileSystem>,
        into export: inout ExportProjection<POSIXFileSystem>, progress: (Int) -> Void
    ) throws(FileSystemError) -> (lineCount: Int, byteCount: Int) {
        let file = try self.files.open(Path.join(self.data.root, part.path), .read)
        defer { self.files.close(file) }
        var buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
        defer { buffer.deallocate() }
        var lineCount = 0
        var byteCount = 0
        for run in try index.runs(of: part) where run.range.upperBound <= part.byteCount {
            if run.range.count > buffer.count {
                buffer.deallocate()
                buffer = .allocate(byteCount: run.range.count, alignment: 16)
            }
            let count = try self.files.readFully(
                file, at: run.range.lowerBound,
                into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<run.range.count]))
            let bytes = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count])
            try export.project(
                ProjectedBatch(
                    position: JournalPosition(0), description: run.description, offset: StreamOffset(0),
                    receivedAt: run.receivedAt, raw: bytes))
            lineCount += run.lineCount
            byteCount += run.range.count
            progress(run.range.upperBound)
        }
        return (lineCount, byteCount)
    }
}

extension FileSystem {
    /// Deletes a state file and what stands beside it.
    fileprivate func removeState(_ path: String) throws(FileSystemError) {
        for path in [path, path + ".tmp", path + ".previous"] where try self.status(at: path) != nil {
            try self.unlink(path)
        }
    }
}
