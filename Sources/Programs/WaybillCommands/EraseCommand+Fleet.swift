import ArgumentParser
import WaybillExport
import WaybillFleet
import WaybillJSON
import WaybillMerger
import WaybillSystem

/// `waybill erase --store`: the request of a fleet's mergers.
extension EraseCommand {
    /// Puts the request into the bucket, unless the person was asked for before.
    func ask(_ kind: ErasedPeople.Kind, _ id: String) throws {
        try NetworkClient.own.require()
        let bucket = try AttachedBucket(try self.bucket.location())
        defer { bucket.open.close() }
        do {
            if self.dryRun {
                let known = try ErasureRequest.all(in: bucket.open.store)
                let same = known.last { Self.isSame($0, kind, id) }
                self.printAnswer(same, isRepeated: same != nil)
                Console.printError(
                    "nothing was written. How many lines the person has is known to mergers alone: count them on one with "
                        + "waybill erase --data DIR --dry-run, while it is stopped")
                return
            }
            let (request, isRepeated) = try ErasureRequest.ask(
                kind == .user ? .user : .anon, id: id, now: POSIXClock().wallTime(),
                newKey: try SystemRandom.secretBytes(count: 32), in: bucket.open.store
            ) { Self.isSame($0, kind, id) }
            self.printAnswer(request, isRepeated: isRepeated)
            let retention = try self.bucket.config.flatMap { try ConfigurationFile.load($0).merger?.pieceRetention }
            for sentence in Self.sentences(request, isRepeated: isRepeated, retention) { Console.printError(sentence) }
        } catch let error as StoreError {
            throw NetworkClient.ending(error)
        }
    }

    private static func isSame(_ request: ErasureRequest, _ kind: ErasedPeople.Kind, _ id: String) -> Bool {
        guard request.kind.rawValue == kind.rawValue else { return false }
        switch request.person {
        case .id(let known): return Array(known.utf8) == Array(id.utf8)
        case .digest(let digest, _): return digest == ErasedPeople.digest(of: Array(id.utf8), kind, key: request.key)
        }
    }

    private func printAnswer(_ request: ErasureRequest?, isRepeated: Bool) {
        print(
            JSONWriter.line { json in
                if self.dryRun { json.member("dry_run", true) }
                json.member("erasure", request?.number)
                json.member("time", request?.time.text)
                json.member("repeated", isRepeated)
            })
    }

    /// - Parameter retention: how long mergers keep pieces, if the configuration says it.
    private static func sentences(
        _ request: ErasureRequest, isRepeated: Bool, _ retention: Duration?
    ) -> [String] {
        var sentences: [String] = []
        if isRepeated {
            sentences.append(
                "the person was asked for before, on \(request.time.text); what has come since is dropped already, and "
                    + "nothing was added")
        } else {
            sentences.append(
                "every merger that runs erases the person with one of its next rounds, and days in the bucket get new "
                    + "revisions; the merger's log says: a person was erased")
        }
        let days = retention.map { "at least \($0.nanoseconds / 86_400_000_000_000) days, " } ?? ""
        sentences.append(
            "the bucket's pieces of journals and checkpoints hold the person's lines until they are deleted (\(days)"
                + "merger.pieces_days); no one reads the lines from them")
        sentences.append(
            "journals, spools and quarantines on receivers' and agents' hosts are not reached, nor is what providers "
                + "received; what agents still send of the person is dropped")
        return sentences
    }
}
