internal import WaybillData
internal import WaybillJSON

/// One page's place in the events, and how much it may still be sent.
///
/// A page gets 400 rows a second, and up to 5,000 at once after it was quiet: a person reads no faster. What is after
/// that is counted. A page that comes back gets all that it has missed and that is still kept.
package struct LiveStream: Sendable {
    static let rowCountPerFrame = 100
    static let frameByteCountMax = 64 << 10
    static let creditMax = 5_000
    /// What a tick adds; there are ten a second.
    static let creditPerTick = 40
    /// Of a page that comes back: as many rows as the ring has.
    static let resumeCredit = 20_000

    let filter: Filter
    let fields: [[String]]
    /// The ordinal of the next event to look at.
    fileprivate var next: Int
    /// The ordinals of events that match and were not sent.
    fileprivate var pending: ArraySlice<Int> = []
    fileprivate var credit: Int
    /// What it has seen last.
    fileprivate var cursor: LineID
    /// The newest gap that it knows of.
    fileprivate var gapNumber: Int
    /// A range that was removed before the page asked for it.
    fileprivate var gone: (from: JournalPosition, to: JournalPosition)?
    /// Since the last frame: events looked at, those that match, and those that are not sent.
    fileprivate var seen = 0
    fileprivate var matched = 0
    fileprivate var dropped = 0
}

extension LiveState {
    /// Begins a stream after what a page has seen last; without that, with what comes next.
    package func stream(_ filter: Filter, fields: [[String]], after cursor: LineID?) -> LiveStream {
        var stream = LiveStream(
            filter: filter, fields: fields, next: self.ring.end, credit: LiveStream.creditMax, cursor: self.cursor,
            gapNumber: self.newestGap)
        guard let cursor else { return stream }
        stream.cursor = cursor
        stream.next = self.ring.ordinal(after: cursor)
        stream.credit = LiveStream.resumeCredit
        if cursor < self.ring.floor {
            stream.gone = (cursor.batch, self.ring.floor.batch)
        } else if let position = self.position, cursor.batch > position {
            // It is from another journal.
            stream.gone = (position, cursor.batch)
        }
        return stream
    }

    /// What a stream is sent next, or `nil` if it has seen everything; call it while the connection takes more.
    ///
    /// - Parameter isTick: whether a tenth of a second has passed.
    package mutating func frame(for stream: inout LiveStream, isTick: Bool) -> [UInt8]? {
        if isTick, stream.credit < LiveStream.creditMax { stream.credit += LiveStream.creditPerTick }
        if let gone = stream.gone {
            stream.gone = nil
            return Self.gone(gone.from, gone.to)
        }
        if let gap = self.gaps.first(where: { $0.number > stream.gapNumber }) {
            stream.gapNumber = gap.number
            return Self.gone(gap.from, gap.to)
        }
        self.look(for: &stream)
        let canSend = !stream.pending.isEmpty && stream.credit > 0
        guard stream.seen > 0 || stream.dropped > 0 || canSend else { return nil }
        return self.rows(for: &stream)
    }

    /// Goes through what came since the last frame.
    private mutating func look(for stream: inout LiveStream) {
        if stream.next < self.ring.start {
            stream.seen += self.ring.start - stream.next
            stream.dropped += self.ring.start - stream.next
            stream.next = self.ring.start
        }
        let kept = stream.pending.drop { $0 < self.ring.start }
        stream.dropped += stream.pending.count - kept.count
        stream.pending = kept
        while stream.next < self.ring.end {
            let row = self.ring[stream.next]
            self.line.load(row)
            if stream.filter.matches(self.line, refusals: { self.outcomes.refusals(of: row) }) {
                stream.pending.append(stream.next)
                stream.matched += 1
            }
            stream.seen += 1
            stream.next += 1
        }
        // The newest are sent, the last of them when there is credit again.
        let surplus = max(0, stream.pending.count - max(stream.credit, LiveStream.creditPerTick))
        stream.dropped += surplus
        stream.pending = stream.pending.dropFirst(surplus)
    }

    private mutating func rows(for stream: inout LiveStream) -> [UInt8] {
        var rows = JSONWriter()
        rows.beginArray()
        var count = 0
        while count < LiveStream.rowCountPerFrame, rows.output.count < LiveStream.frameByteCountMax, stream.credit > 0,
            let ordinal = stream.pending.popFirst()
        {
            let row = self.ring[ordinal]
            self.line.load(row)
            self.write(row, stream.fields, to: &rows)
            stream.cursor = row.id
            stream.credit -= 1
            count += 1
        }
        rows.endArray()
        if stream.pending.isEmpty, stream.next > self.ring.start { stream.cursor = self.ring[stream.next - 1].id }
        defer { (stream.seen, stream.matched, stream.dropped) = (0, 0, 0) }
        let data = JSONWriter.object { json in
            json.member("seen", stream.seen)
            json.member("matched", stream.matched)
            json.member("dropped", stream.dropped)
            json.member("rows", verbatim: rows.output.bytes)
        }
        return Self.message("rows", id: stream.cursor, data)
    }

    private static func gone(_ from: JournalPosition, _ to: JournalPosition) -> [UInt8] {
        let data = JSONWriter.object { json in
            json.member("from", from.rawValue)
            json.member("to", to.rawValue)
        }
        return Self.message("gone", id: nil, data)
    }

    /// One message of an event stream; JSON that is written here has no line feed.
    package static func message(_ event: String, id: LineID? = nil, _ data: [UInt8]) -> [UInt8] {
        Array((id.map { "id: \($0)\n" } ?? "").utf8) + Array("event: \(event)\ndata: ".utf8) + data + [0x0A, 0x0A]
    }
}
