internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Exports the events again that an export refused, and that its present options may accept.
///
///     dead/part-00000.ndjson.gz ─▶ the archive's line ─▶ part-00003, beside the parts that were sent
///
/// An event that is still refused keeps its dead letter, and the next run tries it again; one that is exported is in
/// `dead/retaken` (``RetakenLetters``), and no run takes it again.
extension Replayer {
    /// Takes the range's refused events of each provider, in place.
    ///
    /// - Parameter version: lines are read, too, that ended versions of the program before this one; `nil`: none are.
    package func retakeRefused(
        readingPoisonBefore version: ProgramVersion? = nil, _ observer: Replay.Observer = Replay.Observer()
    ) throws(Replay.Failure) -> Replay.Report {
        try self.data.requireArchive()
        guard self.request.takesWholeDays else { throw .partOfDay }
        let lock = try self.data.lockForReplay()
        defer { self.files.close(lock) }
        try self.requireKnownOptions()
        for options in self.options {
            let name = options.provider.rawValue
            let isThere = try Replay.onDisk { () throws(FileSystemError) in try self.data.hasState("export-\(name)") }
            guard isThere else { throw .notExported(name) }
        }
        let memory = LoneReader.Memory(undecidedIn: self.data, for: PoisonOffsets.exports)
        return try self.remembering(in: memory, observer) { replayer throws(Replay.Failure) in
            let lone = replayer.loneReader(0, observer.noticed)
            let poison = try replayer.poison(of: lone)
            if let version, let line = version.firstEnded(of: poison) { throw .poisonOfVersion(line.version) }
            try replayer.catchUp()
            var report = Replay.Report()
            for options in replayer.options {
                let range = self.request.range
                let retaken = try Replay.onDisk { () throws(FileSystemError) in
                    var live = try ExportProjection.live(options, data: self.data)
                    _ = try live.recover()
                    var retaker = Retaker(
                        live, lengths: try PresentPartition.lengths(of: options, in: self.data), data: self.data,
                        at: self.request.now, readsPoison: version != nil, lone)
                    return try retaker.run(range, told: observer.noticed)
                }
                report.retaken[options.provider] = retaken
                try lone.requireNoMore(than: poison)
            }
            return report
        }
    }
}
