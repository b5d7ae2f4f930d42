internal import WaybillCompression
internal import WaybillProtocol
internal import WaybillSystem

/// Another agent at the same receiver: one that ships lines of its own, or one that meddles with a stream that is not
/// its own.
final class Stranger: CallingSide {
    enum Aim {
        /// Ships some batches, so that the receiver's journal grows.
        case grow(batchCount: Int)
        /// Writes, skips or seals in a stream of another agent.
        case meddle(StreamDescription)
        /// Tries what another principal may not do to an agent's stream.
        case intrude(StreamDescription, Intrusion)
    }

    unowned let site: SiteLife
    var life: any Life { self.site }
    let toAgent: Pipe
    private(set) var ids: [StreamNumber: StreamID] = [:]
    private let aim: Aim
    private var server: (any AnsweringSide)?
    let receiver: SimulatedReceiver
    /// Whether it has answered a demand for a proof.
    var hasClaimed = false
    private var unparsed: [UInt8] = []
    private var isOver = false
    private let number = StreamNumber(1)

    init(_ site: SiteLife, at receiver: SimulatedReceiver, to aim: Aim) {
        self.site = site
        self.receiver = receiver
        self.aim = aim
        self.toAgent = Pipe(site)
        self.toAgent.arrived = { [weak self] in self?.arrived($0) }
        self.toAgent.ended = { [weak self] in self?.leave() }
        self.toAgent.broke = { [weak self] in self?.leave() }
    }

    func start() {
        guard let server = self.receiver.accept(self) else { return self.leave() }
        self.server = server
        let hello = Hello(
            versions: LineProtocol.versions, agent: "stranger-\(self.site.nextName())", instance: "0123456789abcdef",
            token: Ownership.token(of: self.principal), encodings: ["zlib"])
        self.send(.hello(hello))
        // Whatever comes of it: it does not hold its streams for long.
        self.site.schedule.after(.seconds(5)) { [weak self] in self?.leave() }
    }

    func leave() {
        guard !self.isOver else { return }
        self.isOver = true
        self.toAgent.release()
        self.server?.peerEnded()
        self.server = nil
        self.site.left(self)
    }

    func loseReceiver() {
        self.server = nil
        self.leave()
    }

    var principal: String { Ownership.others }

    func heard(_ message: Message, before next: Message?) -> [Message] { [message] }

    private func send(_ message: Message, payload: [UInt8] = []) {
        self.server?.arrived(message.encoded + payload)
    }

    private func arrived(_ bytes: [UInt8]) {
        self.unparsed += bytes
        while !self.isOver, let (message, byteCount) = Message.first(in: self.unparsed[...]) {
            self.unparsed.removeFirst(byteCount)
            self.take(message)
        }
    }

    private func take(_ message: Message) {
        switch (message, self.aim) {
        case (.ready, .grow):
            let id = StreamID(unchecked: "stranger-\(self.site.nextName())")
            let bundle = self.site.ownership.isKept ? Ownership.othersBundle : "com.example.web"
            self.open(
                StreamDescription(
                    id: id, source: "/elsewhere", environment: "prod", bundle: bundle, format: .ndjson,
                    timeMember: "time", nameMember: "name"))
        case (.ready, .meddle(let description)): self.open(description)
        case (.ready, .intrude(let description, let intrusion)): self.open(self.claimed(description, intrusion))
        case (.at(_, let offset, _, _), .grow(let batchCount)):
            var offset = offset
            for _ in 0..<batchCount { offset = self.ship(from: offset) }
        case (.at(_, let offset, _, _), .meddle(let description)): self.meddle(description, from: offset)
        case (.at(_, let offset, _, _), .intrude(let description, let intrusion)):
            self.intrude(description, intrusion, from: offset)
        case (.nak(_, let offset, let code, _), .intrude(let description, let intrusion)):
            self.insist(description, intrusion, at: offset, code)
        case (.nak, _), (.err, _), (.bye, _), (.sealed, _): self.leave()
        default: break
        }
    }

    func open(_ description: StreamDescription, _ claim: OpenClaim = .none) {
        self.ids[self.number] = description.id
        self.send(.open(self.number, description, claim))
    }

    /// Ships one line that no one else has.
    func ship(from offset: StreamOffset) -> StreamOffset {
        let token = self.site.nextToken()
        let filler = String(repeating: "s", count: self.site.dice.int(0...200))
        let line = Array(
            "{\"time\":\"2026-11-20T09:00:00.000Z\",\"name\":\"x\",\"n\":\"\(token)\",\"f\":\"\(filler)\"}".utf8)
        return self.ship(line, from: offset)
    }

    func ship(_ line: [UInt8], from offset: StreamOffset) -> StreamOffset {
        self.site.ledger.allow(line[...])
        let raw = line + [0x0A]
        guard let id = self.ids[self.number] else { return offset }
        var deflater = Deflater(level: 1)
        var wire = [UInt8](repeating: 0, count: deflater.byteCountMax(of: raw.count))
        let count = wire.withMutableBytes { wire in raw.withBytes { deflater.deflate($0, into: wire) } }
        wire.removeLast(wire.count - count)
        var header = BatchHeader(
            stream: self.number, offset: offset, rawByteCount: raw.count, lineCount: 1, wireByteCount: count,
            checksum: 0)
        header.checksum = wire.withBytes { FrameChecksum.checksum(of: header.checksummedText(id: id), $0) }
        self.send(.batch(header), payload: wire)
        return header.end
    }

    /// What one agent can do to another's stream while no principals are told apart.
    private func meddle(_ description: StreamDescription, from offset: StreamOffset) {
        let isSegment = description.format == .waybill
        // What was skipped of a log is shipped again in its next incarnation: it would be stored twice.
        let isUntouched = offset == StreamOffset(0)
        self.site.tainted.insert(description.id)
        var end = offset
        if isSegment || isUntouched {
            switch self.site.dice.int(0..<4) {
            case 0: end = self.ship(from: offset)
            case 1: end = self.skip(from: offset, .truncated)
            case 2: end = self.skip(from: offset, .tooLong, of: description)
            default: break
            }
        }
        if end == offset || self.site.dice.chance(500) { self.seal(end) }
        self.site.note("a stranger moves \(description.id) from \(offset.rawValue) to \(end.rawValue)")
        self.leaveSoon()
    }

    func leaveSoon() {
        self.site.schedule.after(self.site.dice.milliseconds(50...2_000)) { [weak self] in self?.leave() }
    }

    func seal(_ length: StreamOffset) {
        self.send(.seal(self.number, length: length))
    }

    /// Skips some bytes; of a segment with this description often all that it has, with its own last bytes.
    func skip(
        from offset: StreamOffset, _ reason: SkipReason, of description: StreamDescription? = nil
    ) -> StreamOffset {
        let byteCount = UInt64(self.site.dice.int(1...3_000))
        let file = self.site.agent.segments.first { $0.id == description?.id }?.bytes ?? []
        let rest = UInt64(file.count).subtractingReportingOverflow(offset.rawValue)
        let isBought = byteCount % 2 == 0 && !rest.overflow && rest.partialValue > 0
        let end = StreamOffset(isBought ? UInt64(file.count) : offset.rawValue + byteCount)
        let tailByteCount = StreamProof.byteCount(at: end)
        let tail = isBought ? file.suffix(tailByteCount) : [UInt8](repeating: 0x0A, count: tailByteCount)[...]
        guard
            let range = SkippedRange(
                offset: offset, byteCount: end.rawValue - offset.rawValue, reason: reason,
                tail: reason == .truncated ? nil : Array(tail))
        else { return offset }
        self.send(.skip(self.number, range))
        return end
    }
}
