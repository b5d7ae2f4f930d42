internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Replays the journal in one pass, in the order in which lines became durable.
extension Replayer {
    /// Replays what is still in the journal, up to the archive's checkpoint.
    ///
    /// - Parameter target: `nil` to write nothing.
    func replayJournal(
        into target: DataDirectory<Files>?, _ observer: Replay.Observer
    ) throws(Replay.Failure) -> Replay.Report {
        let (start, end) = try self.journalRange()
        let survey = try self.surveyJournal(from: start, to: end, observer)
        guard let target else {
            let targets = self.options.map { (options: $0, target: RecordTally($0)) }
            return try self.feedJournal(start, end, survey, targets, observer) { () throws(FileSystemError) in
                Self.outcome(targets)
            }
        }
        // This overwrites what an interrupted replay of the archive has made.
        try Replay.onDisk { () throws(FileSystemError) in
            try ReplayLedger(path: target.statePath("replay"), files: self.files).remove()
        }
        var targets: [(options: ExportOptions, target: PartitionWriter<Files>)] = []
        for options in self.options {
            let name = options.provider.rawValue
            let writer = try Replay.onDisk { () throws(FileSystemError) in
                try self.files.removeTree(Path.join(target.root, "exports/\(name)"))
                try self.files.removeState(target.statePath("replay-\(name)"))
                return try PartitionWriter(
                    options, data: target, directory: "exports/\(name)",
                    statePath: target.statePath("replay-\(name)"))
            }
            targets.append((options, writer))
        }
        return try self.feedJournal(start, end, survey, targets, observer) { () throws(FileSystemError) in
            var counts: [Destination: Replay.Counts] = [:]
            for (options, writer) in targets {
                let partitions = try writer.finish()
                counts[options.provider, default: Replay.Counts()].events = writer.counts
                counts[options.provider, default: Replay.Counts()].partitions = partitions.count
                try self.files.removeState(target.statePath("replay-\(options.provider.rawValue)"))
            }
            return counts
        }
    }

    /// From the oldest segment to the archive's checkpoint, after which nothing is certain.
    private func journalRange() throws(Replay.Failure) -> (start: JournalPosition, end: JournalPosition) {
        try Replay.onDisk { () throws(FileSystemError) in
            var start = JournalPosition(0)
            if try self.files.status(at: self.data.journal) != nil {
                let segments = try self.files.list(self.data.journal).compactMap(JournalPath.position(ofSegment:))
                start = segments.min() ?? start
            }
            let state = try StateImage.read(self.data.statePath("archive"), files: self.files)
            let position = state?.entries["position"].flatMap { Int($0) } ?? 0
            return (start, JournalPosition(position))
        }
    }

    private func feedJournal<Target: RecordTarget>(
        _ start: JournalPosition, _ end: JournalPosition, _ survey: LineSurvey,
        _ targets: [(options: ExportOptions, target: Target)], _ observer: Replay.Observer,
        finish: () throws(FileSystemError) -> [Destination: Replay.Counts]
    ) throws(Replay.Failure) -> Replay.Report {
        let lone = self.loneReader(0, observer.noticed)
        let poison = try self.poison(of: lone)
        var feed = ReplayedLines(
            request: self.request, range: self.request.range, survey: survey, environment: nil,
            outlets: targets.map {
                FeedOutlet(provider: $0.options.provider, target: $0.target, days: DayCursor($0.options.zone))
            }, erased: try self.data.erasedForReplay(), poison: poison)
        var shifted = ShiftedLines(root: self.data.root, files: self.files)
        var report = Replay.Report()
        var progress = Replay.Progress()
        progress.totalByteCount = max(0, end.rawValue - start.rawValue)
        progress.totalUnitCount = 1
        let damages = try self.visitJournal(from: start, to: end, observer) { batch, number throws(Replay.Failure) in
            do throws(FileSystemError) {
                let ranges = try shifted.ranges(of: batch)
                lone.read(batch, for: "feed", use: { feed.use($0) }) { lines, offset, start in
                    feed.take(
                        lines, of: batch.description, from: offset, at: LinePosition(part: number, offset: start),
                        receivedAt: batch.receivedAt, shifted: ranges)
                }
                try feed.finishBatch()
            } catch {
                throw .disk(error)
            }
            progress.byteCount = batch.position.rawValue - start.rawValue
            observer.progressed(progress)
        }
        try lone.requireNoMore(than: poison)
        report.counts = try Replay.onDisk(finish)
        self.places.forget()
        report.unexplainedByteCount = damages.reduce(0) { $0 + $1.end.rawValue - $1.start.rawValue }
        for outlet in feed.outlets {
            report.counts[outlet.provider, default: Replay.Counts()].add(outlet.counts)
            report.counts[outlet.provider, default: Replay.Counts()].events.skipped += outlet.counts.users
        }
        return report
    }

    private func surveyJournal(
        from start: JournalPosition, to end: JournalPosition, _ observer: Replay.Observer
    ) throws(Replay.Failure) -> LineSurvey {
        let lone = self.loneReader(0, observer.noticed)
        let poison = try self.poison(of: lone)
        var surveyor = LineSurveyor(
            request: self.request, erased: try self.data.erasedForReplay(), poison: poison)
        guard !surveyor.passes(lineCount: 0).isEmpty else { return surveyor.survey }
        var lineCount = 0
        try self.visitJournal(from: start, to: end, observer) { batch, _ throws(Replay.Failure) in
            batch.raw.forEachLine { _ in lineCount += 1 }
        }
        for pass in surveyor.passes(lineCount: lineCount) {
            try self.visitJournal(from: start, to: end, observer) { batch, number throws(Replay.Failure) in
                try lone.read(batch, for: "\(pass)", use: { surveyor.use($0) }) {
                    lines, offset, start throws(Replay.Failure) in
                    try surveyor.take(
                        lines, of: batch.description, from: offset, at: LinePosition(part: number, offset: start),
                        in: pass)
                }
            }
            surveyor.finishPass()
        }
        try lone.requireNoMore(than: poison)
        return surveyor.survey
    }

    /// - Returns: the ranges that could not be read.
    @discardableResult
    private func visitJournal(
        from start: JournalPosition, to end: JournalPosition, _ observer: Replay.Observer,
        _ body: (_ batch: ProjectedBatch, _ number: Int) throws(Replay.Failure) -> Void
    ) throws(Replay.Failure) -> [JournalDamage] {
        var reader = BatchReader(journalDirectory: self.data.journal, position: start, files: self.files)
        var number = 0
        while true {
            let batch: ProjectedBatch?
            do throws(FileSystemError) {
                batch = try reader.next(upTo: end)
            } catch {
                throw .disk(error)
            }
            guard let batch else { return reader.takeDamages() }
            try body(batch, number)
            number += 1
            if observer.isStopped() { throw .interrupted(done: 0, of: 1) }
        }
    }
}

extension FileSystem {
    /// Deletes a state file and its companions.
    fileprivate func removeState(_ path: String) throws(FileSystemError) {
        for path in StateImage.paths(path) where try self.status(at: path) != nil {
            try self.unlink(path)
        }
    }
}
