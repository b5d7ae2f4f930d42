internal import NIOCore
internal import NIOPosix
internal import WaybillAgent
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem
internal import WaybillTLS

/// The door's connections to its receiver, and the requests that wait for one.
///
///     request ─▶ waiting, in turn ─▶ a line that rests ─▶ StreamExchange ─▶ answer
///
/// Bounded: lines; requests that wait, of all clients and of each; the time of each. One request of a client is on its way at
/// a time, and one principal has at most three quarters of the lines and of the places to wait, so that neither holds up the
/// others. While the receiver is away, requests are refused at once.
///
/// Confined to one event loop.
final class StreamPool {
    /// A request that waits or is on its way.
    private final class Entry {
        let task: StreamTask
        var line: ReceiverLine?
        var deadline: Scheduled<Void>?

        init(_ task: StreamTask) {
            self.task = task
        }
    }

    private enum Slot {
        case empty
        case connecting
        case line(ReceiverLine)
    }

    /// Asks for the receiver itself, whose answer must be from after the question.
    typealias Question = (Result<Ready, StreamRefusal>) -> Void

    /// Requests of one client, and of all, that wait.
    private static let waitingOfClientMax = 4
    private static let waitingCountMax = 1024
    private static let questionCountMax = 1024
    private static let connectTimeout = TimeAmount.seconds(10)

    private let configuration: StreamsConfiguration
    private let tls: TLSClient?
    private let eventLoop: any EventLoop
    private let telemetry: StreamTelemetry
    private let instance: String
    private var share: PrincipalShare
    private let token: @Sendable () -> Result<Secret?, StreamRefusal>
    private var slots: [Slot]
    private var waiting: [Entry] = []
    private var active: [ClientName: Entry] = [:]
    private var questions: [Question] = []
    /// Those that the connection in progress answers.
    private var asked: [Question] = []
    private var backoff: Backoff
    private var retryAt = NIODeadline.uptimeNanoseconds(0)
    private var lastFailure = "no connection"
    private var isStopping = false

    init(
        _ configuration: StreamsConfiguration, tls: TLSClient?, eventLoop: any EventLoop, telemetry: StreamTelemetry,
        seed: UInt64, token: @escaping @Sendable () -> Result<Secret?, StreamRefusal>
    ) {
        self.configuration = configuration
        self.tls = tls
        self.eventLoop = eventLoop
        self.telemetry = telemetry
        self.share = PrincipalShare(among: configuration.agents)
        self.instance = Hexadecimal.text(seed, digitCount: 16)
        self.token = token
        self.slots = Array(repeating: .empty, count: configuration.connectionCountMax)
        self.backoff = Backoff(from: .milliseconds(250), to: .seconds(5), SeededGenerator(seed: seed))
    }

    // MARK: Requests

    func submit(_ task: StreamTask) {
        let refuse = { (refusal: StreamRefusal) in task.done(StreamOutcome(result: .failure(refusal))) }
        guard !self.isStopping else { return refuse(StreamRefusal(.unavailable, "the door is stopping")) }
        if let refusal = self.refusal(of: task.client.name) { return refuse(refusal) }
        let entry = Entry(task)
        let bound = NIOLoopBound((self, entry), eventLoop: self.eventLoop)
        entry.deadline = self.eventLoop.scheduleTask(in: .nanoseconds(self.configuration.answerDuration.nanoseconds)) {
            let (pool, entry) = bound.value
            pool.isLate(entry)
        }
        self.waiting.append(entry)
        self.schedule()
    }

    /// Why no more requests of a client may wait.
    private func refusal(of client: ClientName) -> StreamRefusal? {
        let own = self.waiting.count { $0.task.client.name == client }
        guard own < Self.waitingOfClientMax else {
            return StreamRefusal(.busy, "this client has \(own) requests that wait")
        }
        guard self.waiting.count < Self.waitingCountMax else {
            return StreamRefusal(.unavailable, "too many requests wait for the receiver")
        }
        let ofPrincipal = self.waiting.count { $0.task.client.principal == client.principal }
        guard ofPrincipal < self.share.of(Self.waitingCountMax) else {
            return StreamRefusal(.unavailable, "too many requests of this principal wait for the receiver")
        }
        return nil
    }

    /// Asks who the receiver is, and how far its journal goes now.
    func ask(_ question: @escaping Question) {
        guard !self.isStopping, self.questions.count < Self.questionCountMax else {
            return question(.failure(StreamRefusal(.unavailable, "too many requests wait for the receiver")))
        }
        self.questions.append(question)
        self.answerQuestions()
    }

    /// Ends what is on its way; what it made durable is told by the next request.
    func stop() {
        self.isStopping = true
        let refusal = StreamRefusal(.unavailable, "the door is stopping")
        self.refuseWaiting(refusal)
        for question in self.questions { question(.failure(refusal)) }
        self.questions = []
        for case .line(let line) in self.slots {
            line.giveUp(refusal)
            line.close("the door is stopping")
        }
    }

    private func isLate(_ entry: Entry) {
        let refusal = StreamRefusal(.timeout, "the receiver did not answer within \(self.configuration.answerDuration)")
        if let line = entry.line { return line.giveUp(refusal) }
        guard let index = self.waiting.firstIndex(where: { $0 === entry }) else { return }
        self.waiting.remove(at: index)
        entry.task.done(StreamOutcome(result: .failure(refusal)))
    }

    private func refuseWaiting(_ refusal: StreamRefusal) {
        let waiting = self.waiting
        self.waiting = []
        for entry in waiting {
            entry.deadline?.cancel()
            entry.task.done(StreamOutcome(result: .failure(refusal)))
        }
    }

    // MARK: Turns

    /// The list of clients was read again.
    func use(_ principals: [Principal]) {
        self.share = PrincipalShare(among: principals)
    }

    /// The first request that may begin: its client has no other one on its way, and its principal not too many.
    private var next: Int? {
        let lineCountMax = self.share.of(self.slots.count)
        return self.waiting.firstIndex { entry in
            let client = entry.task.client.name
            guard self.active[client] == nil else { return false }
            return self.active.keys.count { $0.principal == client.principal } < lineCountMax
        }
    }

    private func schedule() {
        while let next = self.next {
            if let line = self.restingLine {
                let entry = self.waiting.remove(at: next)
                self.begin(entry, on: line)
            } else if let slot = self.freeSlot {
                guard NIODeadline.now() >= self.retryAt else {
                    return self.hasLines ? () : self.refuseWaiting(self.away)
                }
                self.connect(slot)
                // One more line at a time: the next request may find it.
                return
            } else {
                return
            }
        }
    }

    private var restingLine: ReceiverLine? {
        for case .line(let line) in self.slots where line.isResting { return line }
        return nil
    }

    /// An empty slot; `nil` while a connection is being made.
    private var freeSlot: Int? {
        var free: Int?
        for (index, slot) in self.slots.enumerated().reversed() {
            switch slot {
            case .connecting: return nil
            case .empty: free = index
            case .line: break
            }
        }
        return free
    }

    private var hasLines: Bool { self.slots.contains { if case .line = $0 { true } else { false } } }

    private var away: StreamRefusal {
        let rest = max(1, (self.retryAt - .now()).nanoseconds / 1_000_000_000 + 1)
        return StreamRefusal(
            .unavailable, "the receiver cannot be reached: \(self.lastFailure)", headers: ["Retry-After": "\(rest)"])
    }

    private func begin(_ entry: Entry, on line: ReceiverLine) {
        entry.line = line
        let client = entry.task.client.name
        self.active[client] = entry
        let done = entry.task.done
        line.begin(
            StreamTask(request: entry.task.request, client: entry.task.client) { outcome in
                entry.deadline?.cancel()
                self.active[client] = nil
                done(outcome)
            })
    }

    // MARK: Lines

    private func connect(_ slot: Int) {
        self.slots[slot] = .connecting
        self.connect(as: "\(self.configuration.agent)-\(slot + 1)") { line, event in
            switch event {
            case .ready:
                self.slots[slot] = .line(line)
                self.telemetry.connected(self.configuration.receiver.description)
                self.backoff.succeed()
                self.schedule()
            case .rested:
                if line.isWorn { line.close("the door has opened enough streams on this connection") }
                self.schedule()
            case .closed(let reason):
                if case .line(let present) = self.slots[slot], present === line {
                    self.slots[slot] = .empty
                    self.telemetry.disconnected()
                    // The receiver knows the door's agents by their names, and misses one that does not come back.
                    if line.isWorn, !self.isStopping { self.connect(slot) } else { self.schedule() }
                } else {
                    self.slots[slot] = .empty
                    self.failed(reason)
                }
            }
        }
    }

    private func failed(_ reason: String) {
        self.lastFailure = reason
        self.retryAt = .now() + .nanoseconds(self.backoff.fail().nanoseconds)
        self.telemetry.away(self.configuration.receiver.description, reason)
        if !self.hasLines { self.refuseWaiting(self.away) }
    }

    /// Greets the receiver on a connection of its own, which opens no stream.
    private func answerQuestions() {
        guard self.asked.isEmpty, !self.questions.isEmpty else { return }
        guard NIODeadline.now() >= self.retryAt else {
            let questions = self.questions
            self.questions = []
            for question in questions { question(.failure(self.away)) }
            return
        }
        (self.asked, self.questions) = (self.questions, [])
        self.connect(as: "\(self.configuration.agent)~probe") { line, event in
            switch event {
            case .ready(let ready):
                self.backoff.succeed()
                self.telemetry.reached(self.configuration.receiver.description)
                let asked = self.asked
                self.asked = []
                for question in asked { question(.success(ready)) }
                line.close("asked")
                self.answerQuestions()
            case .rested: break
            case .closed(let reason):
                guard line.ready == nil else { return }
                self.failed(reason)
                let asked = self.asked
                self.asked = []
                for question in asked { question(.failure(self.away)) }
                self.answerQuestions()
            }
        }
    }

    private func connect(as agent: String, _ events: @escaping (ReceiverLine, ReceiverLine.Event) -> Void) {
        let address = self.configuration.receiver
        let token: Secret?
        switch self.token() {
        case .success(let found): token = found
        case .failure(let refusal):
            // Without a connection there is a line that never was.
            let line = ReceiverLine(hello: Self.hello(agent, self.instance, nil), peer: nil, events: events)
            return events(line, .closed(reason: refusal.cause))
        }
        let peer = self.tls.map { TLSPeer(client: $0, address: address) }
        let line = ReceiverLine(hello: Self.hello(agent, self.instance, token), peer: peer, events: events)
        let bound = NIOLoopBound(line, eventLoop: self.eventLoop)
        let tls = self.tls
        ClientBootstrap(group: self.eventLoop)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.socketOption(.so_keepalive), value: 1)
            // Until the line has its place in the pipeline.
            .channelOption(.autoRead, value: false)
            .connectTimeout(Self.connectTimeout)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let tls { try channel.pipeline.syncOperations.addHandler(tls.handler(for: address)) }
                }
            }
            .connect(host: address.host, port: address.port)
            .whenComplete { result in
                switch result {
                case .success(let channel):
                    Self.begin(bound.value, on: channel)
                case .failure(let error): bound.value.failed(ConnectionFailure.text(of: error, to: address))
                }
            }
    }

    private static func begin(_ line: ReceiverLine, on channel: any Channel) {
        do {
            try channel.pipeline.syncOperations.addHandler(line)
        } catch {
            channel.close(promise: nil)
            return line.failed(ConnectionFailure.reason(of: error))
        }
        do {
            try line.connected()
        } catch {
            // The line hears of it.
            channel.close(promise: nil)
        }
    }

    private static func hello(_ agent: String, _ instance: String, _ token: Secret?) -> Hello {
        Hello(
            versions: LineProtocol.versions, agent: agent, instance: instance, token: token?.revealed,
            encodings: ["zlib"])
    }
}

/// What one principal may have of what all share.
struct PrincipalShare {
    private let isAlone: Bool

    /// - Parameter principals: of these a forwarder is a door, and not let in.
    init(among principals: [Principal]) {
        self.isAlone = principals.count { !$0.mayForward } < 2
    }

    func of(_ count: Int) -> Int { self.isAlone ? count : max(1, count * 3 / 4) }
}
