internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillProjection
internal import WaybillSystem

/// The workers: each takes the next unit, makes it, and records it.
extension Replayer {
    /// Makes one provider's part of a unit.
    typealias MakeTarget<Target: RecordTarget> =
        @Sendable (
            _ unit: ExportDay, _ options: ExportOptions
        ) throws(FileSystemError) -> Target
    /// Completes a unit and returns its result.
    typealias FinishUnit<Target: RecordTarget> =
        @Sendable (
            _ unit: ExportDay, _ targets: [(options: ExportOptions, target: Target)]
        ) throws(FileSystemError) -> [Destination: Replay.Counts]

    /// The state shared by the workers.
    private struct Shared {
        var next = 0
        var progress = Replay.Progress()
        var report = Replay.Report()
        var failure: FileSystemError?
        var isInterrupted = false
        /// Lines that are left out and that the plan does not know; `nil`: it is right.
        var leavesOut: [PoisonedLine]?
        var workerCount = 0
        let ledger: ReplayLedger<Files>?

        var isOver: Bool { self.failure != nil || self.isInterrupted || self.leavesOut != nil }
    }

    /// Makes the units of a plan that are not in the ledger, in as many threads as requested.
    func makeUnits<Target: RecordTarget>(
        of plan: ReplayPlan<Files>, _ survey: LineSurvey, ledger: ReplayLedger<Files>?, _ observer: Replay.Observer,
        make: @escaping MakeTarget<Target>, finish: @escaping FinishUnit<Target>
    ) throws(Replay.Failure) -> Replay.Report {
        var begun = Shared(ledger: ledger)
        var missing: [Int] = []
        for (number, unit) in plan.units.enumerated() {
            if let outcome = ledger?.outcome(of: unit) {
                begun.report.resumedUnitCount += 1
                Self.add(outcome, to: &begun.report)
            } else {
                missing.append(number)
                begun.progress.totalByteCount += plan.byteCount(of: number)
            }
        }
        begun.progress.totalUnitCount = plan.units.count
        begun.progress.unitCount = begun.report.resumedUnitCount
        if begun.report.resumedUnitCount > 0 {
            observer.noticed(
                "continuing an interrupted replay: \(begun.report.resumedUnitCount) of "
                    + "\(plan.units.count) partitions are already made")
        }
        // What ended the program is looked for by one reader.
        let jobCount = self.places.hasFindings ? 1 : max(1, min(self.request.jobCount, missing.count))
        begun.workerCount = jobCount
        let shared = Monitor(begun)
        let units = UnitWorkers(
            replayer: self, plan: plan, survey: survey, catalog: PartCatalog(), units: missing,
            isStopped: observer.isStopped, make: make, finish: finish)
        if jobCount == 1 {
            units.work(shared, number: 0) { observer.progressed($0) }
        } else {
            let workers = (0..<jobCount).map { number in
                Worker(name: "replay-\(number)") {
                    units.work(shared, number: number) { _ in }
                }
            }
            while true {
                let deadline = POSIXClock().monotonicTime() + .milliseconds(100)
                let isDone = shared.wait(until: deadline) { $0.workerCount == 0 ? true : nil } ?? false
                observer.progressed(shared.update { $0.progress })
                if isDone { break }
            }
            for worker in workers { worker.join() }
        }
        let result = shared.update { $0 }
        if let failure = result.failure { throw .disk(failure) }
        if result.isInterrupted {
            throw .interrupted(done: result.progress.unitCount, of: result.progress.totalUnitCount)
        }
        if let lines = result.leavesOut { throw .leavesOut(lines, told: result.report.unread) }
        self.places.forget()
        observer.progressed(result.progress)
        return result.report
    }

    private static func add(_ outcome: ReplayLedger<Files>.Outcome, to report: inout Replay.Report) {
        report.unexplainedByteCount += outcome.unexplainedByteCount
        report.strayLineCount += outcome.strayLineCount
        for (provider, counts) in outcome.counts {
            report.counts[provider, default: Replay.Counts()].add(counts)
        }
    }

    /// The work of each worker.
    private struct UnitWorkers<Target: RecordTarget>: Sendable {
        let replayer: Replayer
        let plan: ReplayPlan<Files>
        let survey: LineSurvey
        let catalog: PartCatalog
        /// Indexes of units in the plan, in the order of work.
        let units: [Int]
        let isStopped: @Sendable () -> Bool
        let make: MakeTarget<Target>
        let finish: FinishUnit<Target>

        func work(_ shared: Monitor<Shared>, number worker: Int, progressed: (Replay.Progress) -> Void) {
            let lone = self.replayer.loneReader(worker) { told in shared.update { $0.report.unread.append(told) } }
            while let number = self.take(shared) {
                do throws(FileSystemError) {
                    let outcome = try self.makeUnit(number, shared, lone, progressed: progressed)
                    guard let outcome else {
                        shared.update { $0.isInterrupted = $0.leavesOut == nil }
                        break
                    }
                    let failure = shared.update { shared -> FileSystemError? in
                        do throws(FileSystemError) {
                            try shared.ledger?.record(outcome, of: self.plan.units[number])
                        } catch {
                            return error
                        }
                        Replayer.add(outcome, to: &shared.report)
                        shared.progress.unitCount += 1
                        return nil
                    }
                    if let failure { throw failure }
                } catch {
                    shared.update { if $0.failure == nil { $0.failure = error } }
                    break
                }
            }
            shared.update { $0.workerCount -= 1 }
        }

        private func take(_ shared: Monitor<Shared>) -> Int? {
            shared.update { shared in
                guard shared.next < self.units.count, !shared.isOver else { return nil }
                if self.isStopped() {
                    shared.isInterrupted = true
                    return nil
                }
                shared.next += 1
                return self.units[shared.next - 1]
            }
        }

        /// - Returns: `nil` if it was interrupted, or is not as planned.
        private func makeUnit(
            _ number: Int, _ shared: Monitor<Shared>, _ lone: LoneReader<Files>,
            progressed: (Replay.Progress) -> Void
        ) throws(FileSystemError) -> ReplayLedger<Files>.Outcome? {
            let unit = self.plan.units[number]
            let options = self.replayer.options
            let wanted = options.map { options in
                (options.zone.startOfDay(unit.day) * 1000)..<(options.zone.startOfDay(
                    CalendarDay(daysSince1970: unit.day.daysSince1970 + 1)) * 1000)
            }
            var targets: [(options: ExportOptions, target: Target)] = []
            let poison = try lone.reload()
            guard poison == self.plan.poison else {
                shared.update { $0.leavesOut = [] }
                return nil
            }
            for options in options { targets.append((options, try self.make(unit, options))) }
            var feed = ReplayedLines(
                request: self.replayer.request, range: ExportRange(from: unit.day, to: unit.day), survey: self.survey,
                environment: unit.env,
                outlets: targets.map {
                    FeedOutlet(provider: $0.options.provider, target: $0.target, days: DayCursor($0.options.zone))
                }, erased: try ErasedPeople.read(in: self.replayer.data),
                poison: poison)
            var outcome = ReplayLedger<Files>.Outcome()
            for index in self.plan.parts[number] {
                let part = self.plan.index.parts[index]
                var facts = self.catalog.facts(of: index)
                if facts.map({ known in
                    known.times.map { times in wanted.contains { $0.overlaps(times) } } ?? false
                }) ?? true {
                    facts = try self.feed(part, index, for: number, &feed, lone) {
                        progressed(self.advance(shared, by: $0))
                    }
                } else {
                    progressed(self.advance(shared, by: part.byteCount))
                }
                guard let facts else { return nil }
                // Counted once, by the unit of the part's own day.
                if part.day == unit.day, part.environment == unit.env.rawValue {
                    outcome.unexplainedByteCount += facts.unexplainedByteCount
                    outcome.strayLineCount += facts.strayLineCount
                }
            }
            let more = lone.leftOut(since: poison)
            guard more.isEmpty else {
                shared.update { $0.leavesOut = more }
                return nil
            }
            outcome.counts = try self.finish(unit, targets)
            for outlet in feed.outlets {
                outcome.counts[outlet.provider, default: Replay.Counts()].add(outlet.counts)
                outcome.counts[outlet.provider, default: Replay.Counts()].events.skipped += outlet.counts.users
            }
            return outcome
        }

        private func advance(_ shared: Monitor<Shared>, by byteCount: Int) -> Replay.Progress {
            shared.update { shared in
                shared.progress.byteCount += byteCount
                return shared.progress
            }
        }

        /// - Returns: `nil` if it was interrupted.
        private func feed(
            _ part: ArchiveIndex<Files>.Part, _ index: Int, for unit: Int, _ feed: inout ReplayedLines,
            _ lone: LoneReader<Files>, progressed: (Int) -> Void
        ) throws(FileSystemError) -> PartFacts? {
            feed.beginPart(overflowOf: part.bundle == PartitionPath.overflowBundle ? part.day : nil)
            var isInterrupted = false
            var reported = 0
            var unreported = 0
            var last: SourceRun?
            let reading = self.plan.units[unit].description
            let byteCount = try part.visitRuns(in: self.replayer.data) { run, bytes throws(FileSystemError) in
                if let last, !run.continues(last) { try feed.finishBatch() }
                last = run
                lone.read(bytes, of: run, in: part, for: reading, use: { feed.use($0) }) { lines, offset, start in
                    feed.take(
                        lines, of: run.description, from: offset, at: LinePosition(part: index, offset: start),
                        receivedAt: run.receivedAt, shifted: run.shiftedAt == nil ? .none : .all)
                }
                unreported += bytes.count
                if unreported >= 1 << 20 {
                    progressed(unreported)
                    reported += unreported
                    unreported = 0
                    isInterrupted = self.isStopped()
                }
                return !isInterrupted
            }
            try feed.finishBatch()
            guard !isInterrupted else { return nil }
            progressed(part.byteCount - reported)
            var facts = feed.facts
            facts.unexplainedByteCount = part.byteCount - byteCount
            if self.plan.units[unit].env.rawValue == part.environment { self.catalog.record(facts, of: index) }
            return facts
        }
    }

    // MARK: Before the first unit

    /// Collects what must be known about all lines first; reads nothing if nothing is needed.
    func survey(_ plan: ReplayPlan<Files>, _ observer: Replay.Observer) throws(Replay.Failure) -> LineSurvey {
        let lone = self.loneReader(0, observer.noticed)
        let poison = try self.poison(of: lone)
        var surveyor = LineSurveyor(
            request: self.request, erased: try self.data.erasedForReplay(), poison: poison)
        guard !surveyor.passes(lineCount: 0).isEmpty else { return surveyor.survey }
        let inRange = plan.allParts
        var lineCount = 0
        for index in inRange {
            try Replay.onDisk { () throws(FileSystemError) in
                try plan.index.visitRuns(of: plan.index.parts[index]) { lineCount += $0.lineCount }
            }
        }
        let passes = surveyor.passes(lineCount: lineCount)
        observer.noticed("reading the archive \(passes.count == 1 ? "once" : "\(passes.count) times") beforehand")
        // A value that was set after the range is newer than all values in it.
        var open = self.request
        open.range.to = nil
        open.bundles = []
        let fromRange = try Replay.onDisk { () throws(FileSystemError) in
            try ReplayPlan(index: plan.index, request: open, poison: nil, zones: []).allParts
        }
        for pass in passes {
            var failure: Replay.Failure?
            for index in pass == .properties ? fromRange : inRange {
                let part = plan.index.parts[index]
                do throws(FileSystemError) {
                    _ = try part.visitRuns(in: self.data) { run, bytes throws(FileSystemError) in
                        do throws(Replay.Failure) {
                            try lone.read(bytes, of: run, in: part, for: "\(pass)", use: { surveyor.use($0) }) {
                                lines, offset, start throws(Replay.Failure) in
                                try surveyor.take(
                                    lines, of: run.description, from: offset,
                                    at: LinePosition(part: index, offset: start), in: pass)
                            }
                            if observer.isStopped() { throw .interrupted(done: 0, of: plan.units.count) }
                        } catch {
                            failure = error
                        }
                        return failure == nil
                    }
                } catch {
                    throw .disk(error)
                }
                if let failure { throw failure }
            }
            surveyor.finishPass()
        }
        try lone.requireNoMore(than: poison)
        return surveyor.survey
    }
}
