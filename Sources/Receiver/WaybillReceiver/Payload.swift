internal import NIOCore
internal import WaybillProtocol
internal import WaybillSystem

/// The payload of a batch while it arrives.
struct Payload {
    let header: BatchHeader
    let id: StreamID
    /// Its name in the budget; 0 for a short batch.
    let number: Int
    let builder: SharedBytesBuilder
    /// How many of its bytes there is room for.
    private(set) var grantedByteCount = 0
    /// Since when the peer may send; `nil` while it waits for room, which is not the peer's time.
    private var readingSince: NIODeadline?
    private var readFor = TimeAmount.zero

    init(_ header: BatchHeader, _ id: StreamID, number: Int) {
        self.header = header
        self.id = id
        self.number = number
        self.builder = SharedBytesBuilder(capacity: header.wireByteCount)
    }

    /// The room that its next bytes need: all of a short batch.
    var nextPieceByteCount: Int {
        let rest = self.header.wireByteCount - self.grantedByteCount
        return self.header.isShort ? rest : min(rest, AdmissionBudget.pieceByteCount)
    }

    /// There is room for its next bytes.
    mutating func grant(_ now: NIODeadline) {
        self.grantedByteCount += self.nextPieceByteCount
        self.readingSince = now
    }

    /// All that there is room for has arrived.
    mutating func pause(_ now: NIODeadline) {
        self.readFor = self.readTime(now)
        self.readingSince = nil
    }

    private func readTime(_ now: NIODeadline) -> TimeAmount {
        self.readingSince.map { self.readFor + (now - $0) } ?? self.readFor
    }

    /// Whether its peer has sent slowly, in the time that it could send.
    func isSlow(_ now: NIODeadline, _ timeouts: ReceiverShared.Timeouts) -> Bool {
        let needed = Int64(self.builder.count) * 1_000_000_000 / Int64(timeouts.payloadByteRateMin)
        return self.readTime(now) > timeouts.payloadGrace + .nanoseconds(needed)
    }
}
