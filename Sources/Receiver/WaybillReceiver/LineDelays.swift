internal import WaybillExport
internal import WaybillHost
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// How long lines took from their time, as their app wrote it, to the durable journal.
///
/// One line per batch is read, the first: the oldest of it, as a rule. Apps' clocks may be wrong: what seems to come from
/// the future took no time. A line without a time, or one that is longer than 16 KiB, is not counted.
struct LineDelays {
    private var readers = EventReaders()
    private let histogram: DurationHistogram

    private static let lineByteCountMax = 16 << 10

    init(_ histogram: DurationHistogram) {
        self.histogram = histogram
    }

    /// A batch is durable since `time`.
    mutating func note(_ raw: UnsafeRawBufferPointer, of description: StreamDescription, at time: WallTime) {
        let head = raw.prefix(Self.lineByteCountMax)
        guard let end = head.firstIndex(of: 0x0A) else { return }
        let line = UnsafeRawBufferPointer(rebasing: head[..<end])
        guard case .event(let facts) = self.readers.reader(for: description).read(line) else { return }
        self.histogram.add(.milliseconds(max(0, time.milliseconds - facts.time.milliseconds)))
    }
}
