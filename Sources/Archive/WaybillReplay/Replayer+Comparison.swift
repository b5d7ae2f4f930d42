internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillSystem

/// Finds what a replay in place would change; writes nothing.
extension Replayer {
    /// Makes every unit in memory and compares it with the current one.
    package func compare(_ observer: Replay.Observer = Replay.Observer()) throws(Replay.Failure) -> Replay.Report {
        try self.data.requireArchive()
        guard self.request.takesWholeDays else { throw .partOfDay }
        guard self.request.origin == .archive else { throw .journalInPlace }
        try self.requireKnownOptions()
        let plan = try self.plan()
        let survey = try self.survey(plan, observer)
        var lengths: [Destination: [String: Int]] = [:]
        var checkpoints: [Destination: [String: String]] = [:]
        for provider in self.request.providers {
            let entries = try self.data.recordedEntries(of: "export-\(provider.rawValue)")
            checkpoints[provider] = entries
        }
        for options in self.options {
            lengths[options.provider] = PresentPartition.lengths(
                of: options, checkpoints[options.provider] ?? [:], self.data)
        }
        let (present, recorded) = (lengths, checkpoints)
        let found = Monitor<[PartitionDifference]>([])
        let tooLarge = Monitor<String?>(nil)
        var report = try self.makeUnits(of: plan, survey, ledger: nil, observer) {
            unit, options throws(FileSystemError) in
            RecordTally(
                options,
                comparison: try self.comparison(
                    unit, options, present[options.provider] ?? [:], recorded[options.provider] ?? [:]))
        } finish: { unit, targets throws(FileSystemError) in
            for (_, target) in targets {
                guard let comparison = target.comparison else { continue }
                comparison.finish()
                if comparison.isFull { tooLarge.update { $0 = comparison.difference.path } }
                if !comparison.difference.isEmpty || comparison.difference.same > 0 {
                    found.update { $0.append(comparison.difference) }
                }
            }
            return Self.outcome(targets)
        }
        try Replay.onDisk { () throws(FileSystemError) in
            // Days for which the archive has no lines.
            let units = Set(plan.units)
            for options in self.options {
                for unit in try self.presentUnits(below: "exports/\(options.provider.rawValue)")
                where !units.contains(unit) {
                    let comparison = try self.comparison(
                        unit, options, present[options.provider] ?? [:], recorded[options.provider] ?? [:])
                    comparison.finish()
                    if !comparison.difference.isEmpty { found.update { $0.append(comparison.difference) } }
                }
            }
        }
        if let path = tooLarge.update({ $0 }) {
            throw .tooManyToCompare(path, limit: GenerationComparison.eventCountMax)
        }
        report.differences = found.update { $0 }.sorted { $0.path < $1.path }
        return report
    }

    private func comparison(
        _ unit: ExportDay, _ options: ExportOptions, _ lengths: [String: Int], _ entries: [String: String]
    ) throws(FileSystemError) -> GenerationComparison {
        let path = "exports/\(options.provider.rawValue)/\(unit)"
        let comparison = GenerationComparison(options, path: path)
        let partition = PresentPartition(data: self.data, path: path, options: options, lengths: lengths)
        for part in try partition.parts() {
            try partition.visitEvents(of: part) { comparison.takePresent(id: $0.id, record: $0.record) }
            if let manifest = try partition.manifest(of: part) {
                comparison.takePresent(mapping: manifest.mappingVersion, fixes: manifest.totals.fixes)
            }
        }
        try partition.visitDeadLetters { letter, _, _ in comparison.takePresent(deadLetter: letter) }
        try partition.visitHeld(in: entries) { line in comparison.takePresent(heldID: line.prefix { $0 != 0x20 }) }
        comparison.beginNew()
        return comparison
    }
}
