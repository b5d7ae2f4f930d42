internal import WaybillData
internal import WaybillExport
internal import WaybillProtocol
internal import WaybillSystem

/// Reads batches of the journal again and routes their lines to the files that the archive wrote them to.
struct RoutedJournal<Files: FileSystem> {
    let data: DataDirectory<Files>
    /// Of the archive's checkpoint; they have the time zone in which lines were routed last.
    let entries: [String: String]
    /// The configured one, for an archive that has recorded none.
    let zone: TimeZoneRules
    var erased: ErasedPeople?
    var poison: PoisonedLines?

    /// A reader of the batches from a position on.
    func reader(from position: JournalPosition) throws(FileSystemError) -> Reader {
        let apps = try ArchiveRouter.apps(in: self.data, FileSet<Files>.lengths(in: self.entries).keys)
        return Reader(
            batches: BatchReader(journalDirectory: self.data.journal, position: position, files: self.data.files),
            router: ArchiveRouter(zone: self.recordedZone, apps: apps, erased: self.erased, poison: self.poison),
            recorded: try RecordedPlaces(root: self.data.root, files: self.data.files))
    }

    /// Calls `body` with each run of each batch that the journal has before `end`: batch by batch, file by file.
    func visitRuns(
        upTo end: JournalPosition,
        _ body: (RoutedRun, ArchiveRouter.Route, ProjectedBatch) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let coverage = JournalCoverage(directory: self.data.journal, files: self.data.files)
        guard let first = try coverage.first() else { return }
        var reader = try self.reader(from: first)
        while let batch = try reader.next(upTo: end) {
            try reader.visitRoutes(of: batch) { (route) throws(FileSystemError) in
                for run in route.runs { try body(run, route, batch) }
            }
        }
    }

    /// The time zone of the days that the archive last wrote.
    private var recordedZone: TimeZoneRules {
        guard let name = self.entries["zone"], name != self.zone.name else { return self.zone }
        do throws(TimeZoneError) {
            return try TimeZoneRules(named: name, from: self.data.files)
        } catch {
            // This machine does not know the zone, so its days cannot be distinguished from the configured one's.
            return self.zone
        }
    }

    struct Reader: ~Copyable {
        fileprivate var batches: BatchReader<Files>
        fileprivate var router: ArchiveRouter
        fileprivate let recorded: RecordedPlaces<Files>

        /// Batches before this position were read.
        var position: JournalPosition { self.batches.position }

        /// The next batch that ends at or before `end`; its bytes are valid until the next call.
        mutating func next(upTo end: JournalPosition) throws(FileSystemError) -> ProjectedBatch? {
            try self.batches.next(upTo: end)
        }

        /// Calls `body` with each file in which a batch's lines belong, and with their runs.
        mutating func visitRoutes(
            of batch: ProjectedBatch, _ body: (ArchiveRouter.Route) throws(FileSystemError) -> Void
        ) throws(FileSystemError) {
            let recorded = self.recorded
            _ = self.router.route(batch) { recorded.hasLines(of: batch, in: $0) }
            if let failure = recorded.failure { throw failure }
            for index in self.router.touched { try body(self.router.routes[index]) }
            _ = self.router.finishBatch()
        }
    }
}
