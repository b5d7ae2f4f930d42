internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// The connection to a receiver: its link, what was said on it, and when there is another one.
///
///     disconnected ──begin──▶ connecting ──READY──▶ ready ──end──▶ disconnected, until a time
///
/// Each connection and each pause between two has a number, its generation, so that an event of an earlier one is known.
struct AgentConnection: ~Copyable {
    enum Phase: Equatable {
        case disconnected(retryAt: MonotonicTime)
        case connecting
        case ready
    }

    private let open: LinkOpener
    /// Tells this run of the agent from others under its name.
    private let instance: String
    private var link: (any AgentLink)?
    private(set) var generation = 0
    private(set) var phase: Phase
    /// What was sent and answered.
    var session = SenderSession()
    private var received: [UInt8] = []
    /// How many of these bytes were decoded.
    private var decodedByteCount = 0

    init(instance: String, at now: MonotonicTime, open: @escaping LinkOpener) {
        self.open = open
        self.instance = instance
        self.phase = .disconnected(retryAt: now)
    }

    var isReady: Bool { self.phase == .ready }
    /// Whether there is a link, and no one has closed it.
    var isOpen: Bool { self.link != nil }
    /// Whether a connection was ever begun.
    var hasBegun: Bool { self.generation > 0 }
    /// Whether batches are not acknowledged yet.
    var isInFlight: Bool { self.session.inFlightByteCount > 0 }

    // MARK: Begin and end

    func isDue(at now: MonotonicTime) -> Bool {
        if case .disconnected(let retryAt) = self.phase { retryAt <= now } else { false }
    }

    /// There is no receiver to connect to before that time.
    mutating func postpone(until time: MonotonicTime) { self.phase = .disconnected(retryAt: time) }

    mutating func begin(to address: NetworkAddress) {
        self.renew()
        self.phase = .connecting
        self.link = self.open(address, self.generation)
    }

    /// Says who this agent is.
    mutating func greet(
        _ configuration: AgentConfiguration, token: String?, at now: WallTime
    ) -> SenderSession.Action {
        self.session.start(
            Hello(
                versions: LineProtocol.versions, agent: configuration.name.description, instance: self.instance,
                token: token, key: configuration.naming.deviceKey?.text, encodings: ["zlib"],
                software: configuration.run.software, milliseconds: max(0, now.milliseconds)))
    }

    /// The receiver has accepted this agent.
    mutating func accepted() { self.phase = .ready }

    /// What was on its way is sent again on another connection.
    mutating func end(retryAt time: MonotonicTime) {
        self.close()
        self.renew()
        self.phase = .disconnected(retryAt: time)
    }

    /// Closes the link for the last time.
    mutating func close() {
        self.link?.close()
        self.link = nil
    }

    private mutating func renew() {
        self.generation += 1
        self.session = SenderSession()
        self.received.removeAll()
        self.decodedByteCount = 0
    }

    // MARK: What is said

    func send(_ message: Message) { self.link?.send(message) }

    mutating func send(_ batch: RawBatch) {
        self.session.batchSent(batch.header)
        self.link?.send(batch)
    }

    /// Requests more bytes.
    func read() { self.link?.read() }

    func lookAtPeer() { self.link?.lookAtPeer() }

    mutating func received(_ bytes: [UInt8]) { self.received.append(contentsOf: bytes) }

    /// What follows from the messages received; `nil` until more bytes come.
    mutating func nextAction() throws(WireError) -> SenderSession.Action? {
        while self.isOpen, let message = try self.nextMessage() {
            if let action = self.session.receive(message) { return action }
        }
        return nil
    }

    private mutating func nextMessage() throws(WireError) -> Message? {
        let start = self.decodedByteCount
        let found = try self.received.withBytes { (bytes) throws(WireError) in
            try Message.decode(prefixOf: UnsafeRawBufferPointer(rebasing: bytes[start...]))
        }
        guard let (message, byteCount) = found else {
            self.received.removeFirst(start)
            self.decodedByteCount = 0
            return nil
        }
        self.decodedByteCount += byteCount
        return message
    }

    /// The printable beginning of what a stranger says instead of a message; `nil` if a receiver says it, or if there is
    /// none.
    var strangersWords: String? {
        guard !self.isReady else { return nil }
        let line = self.received[self.decodedByteCount...].prefix { $0 != 0x0A && $0 != 0x0D }.prefix(40)
        guard !line.isEmpty else { return nil }
        let isPlain = { (byte: UInt8) -> Bool in byte >= 0x20 && byte <= 0x7E && byte != 0x22 }
        return String(decoding: line.map { isPlain($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
    }
}
