package import NIOCore
package import WaybillData
internal import WaybillExport
package import WaybillJSON
internal import WaybillProjection
package import WaybillSystem

/// The parts of a status that a receiver and a merger have in common.
package enum HostStatus {
    /// An answer comes after this long, whether or not anything became durable.
    private static let patience = TimeAmount.seconds(8)

    /// Who waits for the journal gets the disk's usage as it was measured last.
    ///
    /// - Parameter json: makes the answer.
    package static func answer(
        after position: Int?, on channel: any Channel, _ feed: JournalFeed, _ usage: DiskUsage,
        _ json: @escaping @Sendable (DiskUsage.Result?) -> [UInt8]
    ) -> EventLoopFuture<[UInt8]>? {
        guard let position else { return usage.measure(on: channel.eventLoop).map { json($0) } }
        let watch = feed.watch
        let promise = channel.eventLoop.makePromise(of: Void.self)
        let wait = watch.wait(beyond: JournalPosition(position)) { promise.succeed() }
        switch wait {
        case .answered: break
        case .refused:
            promise.succeed()
            return nil
        case .waiting(let number):
            let timeout = channel.eventLoop.scheduleTask(in: Self.patience) { watch.cancel(number) }
            channel.closeFuture.whenComplete { _ in watch.cancel(number) }
            promise.futureResult.whenComplete { _ in timeout.cancel() }
        }
        return promise.futureResult.map { json(usage.last) }
    }
}

extension HostTelemetry.ProjectionStanding {
    /// Writes the projection's part of a status.
    package func write(
        _ name: String, journalEnd end: JournalPosition, _ feed: JournalFeed, now: WallTime, to json: inout JSONWriter
    ) {
        let tally = self.tally
        let pending = max(0, end.rawValue - self.position.rawValue)
        json.member("name", name)
        json.member("state", self.failure != nil ? "failing" : self.isHeld ? "waiting" : "ok")
        json.member("error", self.failure?.description)
        json.member("behind_bytes", pending)
        json.member("behind_seconds", self.secondsBehind(feed, pending, now))
        json.member("lines", tally.lineCount)
        json.member("archived", tally.archived)
        json.member("exported", tally.exported)
        json.member("held", tally.held)
        let refused = RefusalReason.allCases.map { ($0.rawValue, tally.outcomes[.refused($0)]) }.filter { $0.1 > 0 }
        json.member("refused", Dictionary(uniqueKeysWithValues: refused))
        let skipped = NotExported.allCases.map { ($0.rawValue, tally.skips[$0]) }.filter { $0.1 > 0 }
        json.member("skipped", Dictionary(uniqueKeysWithValues: skipped))
        // An export counts the lines that the archive puts into the quarantine, without their reasons.
        let reasons = QuarantineReason.allCases.map { ($0.rawValue, tally.outcomes[.quarantined($0)]) }
        json.member("quarantined", Dictionary(uniqueKeysWithValues: reasons.filter { $0.1 > 0 }))
        json.member("unaccounted", tally.unaccountedLineCount)
        json.member("open_parts", name == "archive" ? nil : tally.openPartCount)
        json.member("open_records", name == "archive" ? nil : tally.openRecordCount)
        json.member("oldest_open", tally.oldestOpen.map { Int($0.milliseconds) })
        json.member("pending", pending)
    }

    /// How long the oldest batch that is not in the projection's files has been in the journal; `nil` if that is not
    /// known, at most as long as said if it is no longer in memory.
    private func secondsBehind(_ feed: JournalFeed, _ pending: Int, _ now: WallTime) -> Int? {
        guard pending > 0 else { return 0 }
        let since: WallTime
        switch feed.waiting(after: self.position) {
        case .nothing: return 0
        case .since(let time): since = time
        case .unknown:
            guard let time = self.receivedAt else { return nil }
            since = time
        }
        return Int(max(0, now.milliseconds - since.milliseconds) / 1000)
    }
}

extension DiskUsage.Result? {
    /// Writes the disk's part of a status.
    package func write(_ conditions: HostConditions, to json: inout JSONWriter) {
        let (usage, reserve) = (self, conditions.reserve.standing)
        json.member("free", reserve?.freeByteCount)
        json.member("total", reserve?.totalByteCount)
        json.member("reserve", reserve?.reservedByteCount)
        json.member("measured", usage.map { Int($0.time.milliseconds) })
        json.member("complete", usage?.isComplete ?? false)
        json.member("parts", objects: usage?.parts ?? []) { json, part in
            json.member("name", part.name)
            json.member("bytes", part.byteCount)
            json.member("files", part.fileCount)
        }
    }
}
