internal import WaybillArchive
internal import WaybillExport
internal import WaybillProjection
package import WaybillSystem

internal import WaybillJournal
internal import WaybillProtocol

/// Does what a ``Replay/Request`` asks for.
package struct Replayer<Files: FileSystem>: Sendable {
    private let data: DataDirectory<Files>
    private let request: Replay.Request
    private let options: ExportOptions
    private let files: Files

    package init(dataDirectory: String, files: Files, request: Replay.Request) throws(Replay.Failure) {
        let data = DataDirectory(root: dataDirectory, files: files)
        self.files = files
        self.data = data
        self.request = request
        var zone = request.zone
        if zone == nil { zone = try Self.recordedZone(data, "export-\(request.provider.rawValue)") }
        var options = request.options ?? ExportOptions(provider: request.provider)
        options.zone = zone ?? .utc
        self.options = options
    }

    /// The zone that a projection of the receiver last ran with; UTC when it never did.
    private static func recordedZone(
        _ data: DataDirectory<Files>, _ projection: String
    ) throws(Replay.Failure) -> TimeZoneRules {
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
    package func run(progress: (_ done: Int, _ total: Int) -> Void) throws(Replay.Failure) -> Replay.Report {
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
    private func write(to output: String, progress: (Int, Int) -> Void) throws(Replay.Failure) -> Replay.Report {
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
    private func replace(progress: (Int, Int) -> Void) throws(Replay.Failure) -> Replay.Report {
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

    private func catchUp(archiveZone: TimeZoneRules) throws(FileSystemError) -> ExportProjection<Files> {
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
        into target: DataDirectory<Files>, directory: String, statePath: String,
        progress: (Int, Int) -> Void
    ) throws(FileSystemError) -> Replay.Report {
        try self.files.removeTree(Path.join(target.root, directory))
        try self.files.removeState(statePath)
        var export = try ExportProjection(
            data: target, directory: directory, statePath: statePath, options: self.options, isAgeJudged: true)
        _ = try export.recover()
        export.filter = ExportFilter(from: self.request.from, to: self.request.to, env: self.request.environment)
        let index = try ArchiveIndex(data: self.data)
        let parts = index.parts.filter(self.mayHold)
        let total = parts.reduce(0) { $0 + $1.byteCount }
        var report = Replay.Report(counts: export.counts)
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
    private func mayHold(_ part: ArchiveIndex<Files>.Part) -> Bool {
        if let env = self.request.environment, env.rawValue != part.environment { return false }
        if let from = self.request.from, part.day.daysSince1970 < from.daysSince1970 - 1 { return false }
        if let to = self.request.to, part.day.daysSince1970 > to.daysSince1970 + 1 { return false }
        return true
    }

    /// - Returns: what was read.
    private func replay(
        _ part: ArchiveIndex<Files>.Part, of index: ArchiveIndex<Files>,
        into export: inout ExportProjection<Files>, progress: (Int) -> Void
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
