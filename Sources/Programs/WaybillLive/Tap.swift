internal import NIOPosix
package import WaybillData
package import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
package import WaybillSystem

/// Events as lines of JSON, from a position of the journal on: the page's follower, without a page.
package struct Tap<Files: FileSystem>: ~Copyable {
    /// So much of the journal before the first event that is shown tells which names are not new.
    private static var knownByteCount: Int { 4 << 20 }

    private var follower: Follower<Files>
    private var line: ShownLine
    private var names = NameCatalog()
    private let filter: Filter
    private let outcomes: Outcomes
    private let isExplaining: Bool
    private let shown: ClosedRange<JournalPosition>

    /// - Parameters:
    ///   - isExplaining: whether each line has what the providers make of the event.
    ///   - shown: from where on events are shown, and from where on what is new in them is flagged.
    package init(
        data: DataDirectory<Files>, exports: [ExportOptions], mask: Mask, filter: Filter, isExplaining: Bool,
        from shown: ClosedRange<JournalPosition>
    ) throws(FileSystemError) {
        let oldest = try JournalTip.segments(of: data.journal, files: data.files)?.lowerBound ?? shown.lowerBound
        let known = JournalPosition(max(oldest.rawValue, shown.upperBound.rawValue - Self.knownByteCount))
        self.follower = Follower(
            journal: data.journal, from: min(shown.lowerBound, known), files: data.files,
            erased: try ErasedPeople.read(in: data), poison: try PoisonedLines.read(in: data))
        self.line = ShownLine(mask: mask)
        self.filter = filter
        self.outcomes = Outcomes(exports)
        self.isExplaining = isExplaining
        self.shown = shown
    }

    /// The lines of the next batch, each with a line feed; `nil` when there is none yet.
    package mutating func next(upTo end: JournalPosition) throws(FileSystemError) -> [[UInt8]]? {
        guard let batch = try self.follower.next(upTo: end)?.batch else { return nil }
        var lines: [[UInt8]] = []
        for row in batch.rows {
            self.line.load(row)
            let news = self.names.add(self.line)
            guard batch.position >= self.shown.lowerBound else { continue }
            let matches = self.filter.matches(self.line, refusals: { self.outcomes.refusals(of: row) })
            if matches { lines.append(self.text(of: row, batch.position >= self.shown.upperBound ? news : [])) }
        }
        return lines
    }

    private func text(of row: LiveRow, _ news: [String]) -> [UInt8] {
        let refusals = self.outcomes.refusals(of: row)
        let outcomes = self.isExplaining ? self.outcomes.outcomes(of: row, shown: self.line) : []
        return JSONWriter.object { json in
            RowWriter.write(row, self.line, news: news, refusals: refusals, fields: [], to: &json)
            json.member("event", verbatim: self.line.object)
            if self.isExplaining { RowWriter.writeOutcomes(outcomes, to: &json) }
        } + [0x0A]
    }

    /// The ranges that could not be read since the last call.
    package mutating func takeGaps() -> [JournalDamage] {
        self.follower.takeGaps()
    }
}

/// Up to where the journal is durable, for a program that waits for more.
package final class DurableEnd {
    private let data: DataDirectory<POSIXFileSystem>
    private var tip: JournalTip<POSIXFileSystem>
    private let client: StatusClient?
    private let group: MultiThreadedEventLoopGroup?
    /// Why the receiver does not say it; `nil` if it does, or none is asked.
    package private(set) var problem: StatusFailure?

    /// - Parameter receiver: `nil` to read as far as the journal is whole.
    package init(of data: DataDirectory<POSIXFileSystem>, receiver: NetworkAddress?) {
        self.data = data
        self.tip = JournalTip(journal: data.journal, files: data.files)
        let group = receiver.map { _ in MultiThreadedEventLoopGroup(numberOfThreads: 1) }
        self.group = group
        self.client = receiver.flatMap { address in group.map { StatusClient(address: address, group: $0) } }
    }

    /// The end now.
    package func now() throws(FileSystemError) -> JournalPosition {
        try self.end(self.ask(after: nil, isStopped: { false }))
    }

    /// The end once it is after `position`, or after a while.
    package func next(
        after position: JournalPosition, isStopped: () -> Bool
    ) throws(FileSystemError) -> JournalPosition {
        let answer = self.ask(after: position, isStopped: isStopped)
        let end = try self.end(answer)
        if end <= position, self.client == nil || self.problem != nil { Self.pause(.milliseconds(200)) }
        return end
    }

    private func end(_ answer: StatusClient.Answer?) throws(FileSystemError) -> JournalPosition {
        switch answer {
        case .success(let report):
            self.problem = nil
            let fileEnd = try JournalTip.fileEnd(of: self.data.journal, files: self.data.files)
            return min(fileEnd ?? JournalPosition(0), report.journalEnd)
        case .failure(let failure): self.problem = failure
        case nil: break
        }
        return try self.tip.find() ?? JournalPosition(0)
    }

    private func ask(after position: JournalPosition?, isStopped: () -> Bool) -> StatusClient.Answer? {
        guard let client else { return nil }
        let found = Monitor<StatusClient.Answer?>(nil)
        client.ask(after: position?.rawValue) { answer in found.update { $0 = answer } }
        while !isStopped() {
            let deadline = POSIXClock().monotonicTime() + .milliseconds(200)
            if let answer = found.wait(until: deadline, { $0 }) { return answer }
        }
        return nil
    }

    private static func pause(_ duration: Duration) {
        _ = Monitor(()).wait(until: POSIXClock().monotonicTime() + duration) { _ in Bool?.none }
    }
}
