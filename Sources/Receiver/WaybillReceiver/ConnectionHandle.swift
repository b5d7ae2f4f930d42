internal import NIOCore
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// How the committer reaches a connection: answers hop to its event loop once per group.
package final class ConnectionHandle: Sendable {
    let admitted: AdmittedAgent
    let origin: ConnectionOrigin
    var peer: String { self.origin.text }
    /// The peer's IP address, without its port.
    var address: String { self.origin.host }
    /// What the agent has shown; judged again when the register changes.
    let credentials: AgentCredentials
    /// Who is charged for what it brings.
    var account: Account { self.admitted.account }

    /// When its agent was let in.
    let since: WallTime
    /// Lines that it has made durable.
    private let lines = Atomic(0)
    /// When the last of its batches became durable; 0 before the first.
    private let lastBatch = Atomic<Int64>(0)
    /// When anything of it was last heard, on the event loops' clock.
    private let lastHeard: Atomic<Int64>
    private let rate = Lock(LineRate())
    /// The agent's program and version, as it says; cleaned for people.
    let software: String?
    /// How far the agent's clock is ahead of this one, less the time that `HELLO` took; `nil` if it did not say.
    let clockDifference: Duration?

    private let eventLoop: any EventLoop
    private let handler: NIOLoopBound<ConnectionHandler>

    init(
        _ admitted: AdmittedAgent, _ hello: Hello, origin: ConnectionOrigin, credentials: AgentCredentials,
        since: WallTime, handler: ConnectionHandler, eventLoop: any EventLoop
    ) {
        self.software = PeerText.clean(hello.software)
        self.clockDifference = hello.milliseconds.map { .milliseconds($0 - since.milliseconds) }
        self.lastHeard = Atomic(Int64(clamping: eventLoop.now.uptimeNanoseconds))
        self.admitted = admitted
        self.origin = origin
        self.credentials = credentials
        self.since = since
        self.eventLoop = eventLoop
        self.handler = NIOLoopBound(handler, eventLoop: eventLoop)
    }

    var lineCount: Int { self.lines.load(ordering: .relaxed) }

    var lastBatchTime: WallTime? {
        let time = self.lastBatch.load(ordering: .relaxed)
        return time == 0 ? nil : WallTime(milliseconds: time)
    }

    /// Lines that became durable each second, over the last ten.
    func linesPerSecond(at time: WallTime) -> Int { self.rate.withLock { $0.perSecond(at: time) } }

    /// For how long nothing of it was heard.
    var silence: Duration {
        .nanoseconds(
            max(0, Int64(clamping: self.eventLoop.now.uptimeNanoseconds) - self.lastHeard.load(ordering: .relaxed)))
    }

    /// A message of it has arrived.
    func heard(at time: NIODeadline) {
        self.lastHeard.store(Int64(clamping: time.uptimeNanoseconds), ordering: .relaxed)
    }

    /// A batch of it became durable.
    func brought(lineCount: Int, at time: WallTime) {
        self.lines.add(lineCount, ordering: .relaxed)
        self.rate.withLock { $0.add(lineCount, at: time) }
        self.lastBatch.store(time.milliseconds, ordering: .relaxed)
    }

    /// - Parameter end: the journal's durable end.
    func deliver(_ replies: [Reply], end: UInt64) {
        self.eventLoop.execute { self.handler.value.receive(replies, end: end) }
    }

    /// The store has more of the journal; called on the connection's event loop.
    func storageAdvanced() {
        self.handler.value.storageAdvanced()
    }

    /// Tells the agent what of its lines was put into the quarantine.
    func tell(_ counts: [QuarantineCount]) {
        self.eventLoop.execute { self.handler.value.tell(counts) }
    }

    /// Closes the connection because the receiver can acknowledge nothing.
    func refuse(_ text: String) {
        self.eventLoop.execute { self.handler.value.end(.unavailable, text: text) }
    }

    /// Closes the connection because its agent has reconnected.
    func supersede() {
        self.end(.agentInUse, text: "the agent has connected again; this connection is closed")
    }

    /// Closes the connection with an error.
    func end(_ code: ErrorCode, text: String) {
        self.eventLoop.execute { self.handler.value.end(code, text: text) }
    }

    /// Closes the connection if its agent would not be let in now as it was.
    ///
    /// - Parameter isChanged: whether the register is another one.
    func recheck(isChanged: Bool) {
        self.eventLoop.execute { self.handler.value.recheck(isChanged: isChanged) }
    }
}

/// What a peer says about itself, for people: short, and without anything that a terminal obeys.
enum PeerText {
    static let countMax = 64

    /// `nil` for nothing.
    static func clean(_ text: String?) -> String? {
        guard let text, !text.isEmpty else { return nil }
        let scalars = text.unicodeScalars.prefix(Self.countMax).map { (0x20...0x7E).contains($0.value) ? $0 : "?" }
        return String(String.UnicodeScalarView(scalars))
    }
}

/// Lines a second over about the last ten seconds; it changes with each batch, and costs nothing meanwhile.
///
///        before            now
///     ├──────────────┼───────────┤- - -┤        10 s each
///            └── the last 10 s ──┘              of `before`, the share that is still in them
struct LineRate: Hashable, Sendable {
    static let windowMilliseconds: Int64 = 10_000

    private var window: Int64 = 0
    private var count = 0
    private var countBefore = 0

    mutating func add(_ count: Int, at time: WallTime) {
        let window = time.milliseconds / Self.windowMilliseconds
        if window != self.window {
            self.countBefore = window == self.window + 1 ? self.count : 0
            self.count = 0
            self.window = window
        }
        self.count += count
    }

    func perSecond(at time: WallTime) -> Int {
        let window = time.milliseconds / Self.windowMilliseconds
        let elapsed = time.milliseconds - window * Self.windowMilliseconds
        let (count, before) =
            switch window - self.window {
            case 0: (self.count, self.countBefore)
            case 1: (0, self.count)
            default: (0, 0)
            }
        let rest = Double(Self.windowMilliseconds - elapsed) / Double(Self.windowMilliseconds)
        return Int(((Double(count) + Double(before) * rest) * 1000 / Double(Self.windowMilliseconds)).rounded())
    }
}
