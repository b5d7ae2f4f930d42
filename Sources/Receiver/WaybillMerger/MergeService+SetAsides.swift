internal import Logging
internal import WaybillData
internal import WaybillExport
internal import WaybillFleet
internal import WaybillHost
internal import WaybillProjection
internal import WaybillReceiver
internal import WaybillSystem

extension MergeService {
    /// Up to where the merged journal is handed out at a start: nothing, unless every line is known that is not read.
    static func firstEnd(_ merger: inout Merger<POSIXFileSystem>) -> JournalPosition {
        do throws(MergeFailure) {
            try merger.lookAheadForSetAsides()
            let isWaiting = try merger.awaitsSetAside()
            guard merger.setAsides.pending.isEmpty, !isWaiting else { return JournalPosition(0) }
        } catch {
            // The merger's thread looks again, and says what is wrong with the bucket.
            return JournalPosition(0)
        }
        let stop = merger.erasures.pending.first?.position ?? merger.end
        return min(stop, merger.barriers.first?.position ?? merger.end)
    }
}

extension MergeFailure {
    /// Whether the next start begins from a checkpoint.
    var isForCheckpoint: Bool {
        switch self {
        case .behind, .hasRead: true
        case .store, .disk, .journal, .foreign, .otherFleet, .piece, .round, .noCheckpoint, .erasure, .erasureKey,
            .setAsideGone:
            false
        }
    }
}

/// Lines that the fleet does not read, each for all mergers.
///
///     a round names them ─▶ projections stop ─▶ archive is before the line ─▶ quarantine/_poison ─▶ state: done ─▶ start
///                                               └─ behind it: the merger begins again from a checkpoint without the line
///
/// A merger that begins after the round, or before it, knows the line before its projections read anything
/// (``Merger/lookAheadForSetAsides()``). So what the archive has does not depend on which merger it ended.
extension ErasureTurns {
    /// Has no reader read what the log has named so far.
    ///
    /// - Returns: whether something may be handed out: the projections have said where they are, or nothing is named
    ///   nor about to be.
    func setAside(_ merger: inout Merger<POSIXFileSystem>) throws(MergeFailure) -> Bool {
        try merger.lookAheadForSetAsides()
        let pending = merger.setAsides.pending
        guard !pending.isEmpty else { return try !merger.awaitsSetAside() }
        guard self.retirement.passedPosition != nil else { return false }
        var requests: [SetAsideRequest] = []
        for number in pending { requests.append(try merger.setAsideRequest(number)) }
        self.stop()
        for request in requests {
            if request.isForArchive, let position = self.retirement.position(of: PoisonOffsets.archive),
                try merger.hasRead(request, upTo: position)
            {
                throw .hasRead(request)
            }
            let line = PoisonedLine(
                reader: request.reader, stream: request.stream, offset: request.offset, byteCount: 0, signal: 0,
                version: request.version, at: request.time)
            _ = try MergeFailure.onDisk(PoisonedLines.add(line, in: self.data))
            try merger.setAside(request.number)
            self.logger.error(
                .poisonSetAside, "a line was set aside for the whole fleet; everything after it continues",
                metadata: [
                    "reader": "\(line.reader)", "stream": "\(line.stream)", "offset": .number(Int(line.offset)),
                    "request": .number(request.number),
                ])
        }
        try self.restart()
        return true
    }
}
