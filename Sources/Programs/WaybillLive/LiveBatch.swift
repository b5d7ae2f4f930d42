package import WaybillData
package import WaybillExport
package import WaybillSystem

/// The events of one batch of the journal, with the bytes that they are in.
package final class LiveBatch: Sendable {
    /// Where an event is in the batch.
    struct Span: Sendable {
        let start: UInt32
        let end: UInt32
        /// Its number among the lines of the batch.
        let line: UInt32
        /// When it happened.
        let time: WallTime
        /// What was seen for the first time with it.
        var news: [String] = []
    }

    package let position: JournalPosition
    package let reader: EventReader
    /// The path of the file that the agent read, as the stream's description has it.
    package let path: String
    package let receivedAt: WallTime
    /// Where the batch begins in its stream.
    package let offset: UInt64
    let spans: [Span]
    let bytes: [UInt8]

    init(
        position: JournalPosition, reader: EventReader, path: String, receivedAt: WallTime, offset: UInt64,
        spans: [Span], bytes: [UInt8]
    ) {
        self.position = position
        self.reader = reader
        self.path = path
        self.receivedAt = receivedAt
        self.offset = offset
        self.spans = spans
        self.bytes = bytes
    }

    /// The name of its stream.
    package var stream: String { self.reader.source.stream?.id ?? "" }

    /// The events in order.
    package var rows: [LiveRow] { self.spans.indices.map { LiveRow(batch: self, index: $0) } }
}

/// One event of a batch.
package struct LiveRow: Sendable {
    package let batch: LiveBatch
    let index: Int

    private var span: LiveBatch.Span { self.batch.spans[self.index] }

    package var id: LineID { LineID(batch: self.batch.position, line: Int(self.span.line)) }
    package var time: WallTime { self.span.time }
    package var news: [String] { self.span.news }
    /// Where it begins in its stream.
    package var streamOffset: UInt64 { self.batch.offset + UInt64(self.span.start) }
    /// Milliseconds from when it happened to when it was received; `nil` if the receiver's clock was doubted.
    package var delay: Int? {
        self.batch.receivedAt == .unknown ? nil : Int(self.batch.receivedAt.milliseconds - self.time.milliseconds)
    }

    /// Calls `body` with the line as it was shipped, without its line feed: with members that must not be shown.
    func withOriginal<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        self.batch.bytes.withUnsafeBytes { bytes in
            body(UnsafeRawBufferPointer(rebasing: bytes[Int(self.span.start)..<Int(self.span.end)]))
        }
    }
}
