internal import WaybillData
internal import WaybillSystem

/// What is to be done, from connections and from the receiver.
enum LiveWork: Sendable {
    case ask(LiveQuestion, reply: @Sendable (LiveAnswer) -> Void)
    /// A question for a stream; the number is the connection's.
    case open(Int, LiveQuestion, any StreamSink, refuse: @Sendable (LiveAnswer) -> Void)
    case closed(Int)
    case report(StatusClient.Answer, wasWaiting: Bool)
}

/// Where work waits for the worker.
final class LiveInbox: Sendable {
    private struct State {
        var work: [LiveWork] = []
        var isStopping = false
    }

    private let monitor = Monitor(State())

    func add(_ work: LiveWork) {
        self.monitor.update { $0.work.append(work) }
    }

    func stop() {
        self.monitor.update { $0.isStopping = true }
    }

    /// Waits for work; `nil` when the worker ends, nothing when the deadline passes first.
    func take(until deadline: MonotonicTime?) -> [LiveWork]? {
        let taken = self.monitor.wait(until: deadline) { state -> [LiveWork]?? in
            if state.isStopping { return .some(nil) }
            guard !state.work.isEmpty else { return nil }
            defer { state.work = [] }
            return .some(state.work)
        }
        return taken ?? []
    }
}

/// The thread that owns the state: it reads the journal while someone looks, and answers.
///
///     at rest (no stream, no question): it sleeps, nothing is read
///     a question: the receiver is asked how far the journal is durable ─▶ read up to there ─▶ answer
///     a stream: the receiver is asked for more, again and again ─▶ read ─▶ ten times a second, frames
struct LiveWorker<Files: FileSystem>: ~Copyable {
    static var streamCountMax: Int { 16 }
    /// With more on its way, a connection is sent nothing.
    static var pendingByteCountMax: Int { 128 << 10 }
    private static var tick: Duration { .milliseconds(100) }
    private static var statusInterval: Duration { .seconds(1) }
    /// A connection that takes nothing for so long ends.
    private static var stallMax: Duration { .seconds(60) }
    private static var retryPause: Duration { .milliseconds(500) }
    /// Between two requests that wait: a receiver commits more often than anybody looks.
    private static var askPause: Duration { .milliseconds(30) }

    private struct Open {
        var stream: LiveStream
        let sink: any StreamSink
        var takenAt: MonotonicTime
    }

    private enum Waiting {
        case question(LiveQuestion, reply: @Sendable (LiveAnswer) -> Void)
        case stream(Int, LiveQuestion, any StreamSink, refuse: @Sendable (LiveAnswer) -> Void)

        var cursor: LineID? {
            if case .stream(_, .stream(_, _, let after), _, _) = self { return after }
            return nil
        }
    }

    private var state: LiveState<Files>
    private var tip: JournalTip<Files>
    private let inbox: LiveInbox
    private let client: StatusClient?
    private let clock: any SystemClock
    private let files: Files

    private var streams: [Int: Open] = [:]
    private var waiting: [Waiting] = []
    /// Connections that ended before their streams began.
    private var left: Set<Int> = []
    private var durable: JournalPosition?
    private var problem: String?
    /// Whether everything up to ``durable`` was read.
    private var isUpToDate = true
    private var isAsking = false
    private var isWaitingForMore = false
    private var nextAsk: MonotonicTime?
    private var askedAt: MonotonicTime?
    private var nextTick: MonotonicTime
    private var nextStatus: MonotonicTime

    init(
        state: consuming LiveState<Files>, inbox: LiveInbox, client: StatusClient?, clock: any SystemClock
    ) {
        self.files = state.data.files
        self.tip = JournalTip(journal: state.data.journal, files: state.data.files)
        self.state = state
        self.inbox = inbox
        self.client = client
        self.clock = clock
        self.nextTick = clock.monotonicTime()
        self.nextStatus = self.nextTick
    }

    mutating func run(_ manager: ServiceManager) {
        var heartbeat = Heartbeat(manager, clock: self.clock)
        while let work = self.inbox.take(until: heartbeat.wake(before: self.deadline)) {
            heartbeat.beat()
            for work in work { self.take(work) }
            self.ask()
            self.read()
            self.answer()
            self.sendFrames()
        }
        for open in self.streams.values { open.sink.end() }
        self.refuseWaiting(Access.Refusal(503, "this server is stopping"))
    }

    /// When something is to be done without new work; `nil` at rest.
    private var deadline: MonotonicTime? {
        if !self.isUpToDate { return self.clock.monotonicTime() }
        guard !self.streams.isEmpty else { return nil }
        return min(self.nextTick, self.nextAsk ?? self.nextTick)
    }

    private mutating func take(_ work: LiveWork) {
        switch work {
        case .ask(let question, let reply): self.waiting.append(.question(question, reply: reply))
        case .open(let number, let question, let sink, let refuse):
            self.waiting.append(.stream(number, question, sink, refuse: refuse))
        case .closed(let number):
            if self.streams.removeValue(forKey: number) == nil,
                self.waiting.contains(where: { if case .stream(number, _, _, _) = $0 { true } else { false } })
            {
                self.left.insert(number)
            }
        case .report(let answer, let wasWaiting): self.take(answer, wasWaiting: wasWaiting)
        }
    }

    // MARK: The receiver

    /// Asks the receiver how far the journal is durable, if someone wants to know.
    private mutating func ask() {
        guard let client, !self.streams.isEmpty || !self.waiting.isEmpty else { return }
        let now = self.clock.monotonicTime()
        let inbox = self.inbox
        let isDue = self.nextAsk.map { $0 <= now } ?? true
        guard isDue else { return }
        self.nextAsk = nil
        let isStale = self.askedAt.map { now - $0 > Self.statusInterval } ?? true
        if !self.isAsking, isStale || (self.streams.isEmpty && !self.waiting.isEmpty) {
            self.isAsking = true
            self.askedAt = now
            client.ask(after: nil) { inbox.add(.report($0, wasWaiting: false)) }
        }
        if !self.isWaitingForMore, !self.streams.isEmpty, let durable = self.durable {
            self.isWaitingForMore = true
            client.ask(after: durable.rawValue) { inbox.add(.report($0, wasWaiting: true)) }
        }
    }

    private mutating func take(_ answer: StatusClient.Answer, wasWaiting: Bool) {
        if wasWaiting { self.isWaitingForMore = false } else { self.isAsking = false }
        let now = self.clock.monotonicTime()
        switch answer {
        case .success(let report):
            self.problem = nil
            self.nextAsk = now + Self.askPause
            self.state.take(report, now: self.clock.wallTime())
            // What was whole while the receiver did not answer stays, for it was shown.
            let end = max(report.journalEnd, self.durable ?? JournalPosition(0))
            self.setDurable { files, journal, _ throws(FileSystemError) in
                // The address of another receiver must not lead past the file's end.
                try JournalTip.fileEnd(of: journal, files: files).map { min($0, end) }
            }
        case .failure(let failure):
            self.problem = "the receiver does not say how far the journal is durable: \(failure)"
            // A question is answered with what is whole: no one writes, or no one says.
            self.nextAsk = now + Self.retryPause
            self.setDurable { _, _, tip throws(FileSystemError) in try tip.find() }
        }
    }

    private mutating func setDurable(
        _ find: (Files, String, inout JournalTip<Files>) throws(FileSystemError) -> JournalPosition?
    ) {
        do throws(FileSystemError) {
            let end = try find(self.files, self.state.data.journal, &self.tip) ?? JournalPosition(0)
            self.durable = end
            try self.state.begin(upTo: end, resuming: self.waiting.compactMap(\.cursor).min())
            self.isUpToDate = false
        } catch {
            self.fail(error)
        }
    }

    // MARK: The journal

    private mutating func read() {
        let isAlone = self.client == nil || self.problem != nil
        if isAlone, !self.isAsking, !self.waiting.isEmpty || (!self.streams.isEmpty && self.isTickDue) {
            self.setDurable { _, _, tip throws(FileSystemError) in try tip.find() }
        }
        guard !self.isUpToDate, let durable = self.durable else { return }
        do throws(FileSystemError) {
            self.isUpToDate = try self.state.advance(
                upTo: durable, now: self.clock.wallTime(), batchCountMax: 16)
        } catch {
            self.fail(error)
        }
    }

    private var isTickDue: Bool { self.clock.monotonicTime() >= self.nextTick }

    private mutating func fail(_ error: FileSystemError) {
        self.problem = "the journal cannot be read: \(error)"
        self.isUpToDate = true
        self.refuseWaiting(Access.Refusal(500, "the journal cannot be read: \(error)"))
    }

    private mutating func refuseWaiting(_ refusal: Access.Refusal) {
        for waiting in self.waiting {
            switch waiting {
            case .question(_, let reply): reply(LiveAnswer(refusal))
            case .stream(_, _, _, let refuse): refuse(LiveAnswer(refusal))
            }
        }
        self.waiting = []
        self.left = []
    }

    // MARK: Answers

    private mutating func answer() {
        guard !self.waiting.isEmpty, self.isUpToDate, self.durable != nil, !self.isAsking else { return }
        let waiting = self.waiting
        self.waiting = []
        for waiting in waiting {
            switch waiting {
            case .question(let question, let reply): reply(self.answer(to: question))
            case .stream(let number, .stream(let filter, let fields, let cursor), let sink, let refuse):
                guard !self.left.contains(number) else { continue }
                guard self.streams.count < Self.streamCountMax else {
                    let text = "\(Self.streamCountMax) pages have a stream open already; close one of them"
                    refuse(LiveAnswer(Access.Refusal(503, text)))
                    continue
                }
                let now = self.clock.monotonicTime()
                if self.streams.isEmpty { (self.nextTick, self.nextStatus) = (now, now) }
                sink.begin()
                let stream = self.state.stream(filter, fields: fields, after: cursor)
                self.streams[number] = Open(stream: stream, sink: sink, takenAt: now)
            case .stream: break
            }
        }
        self.left = []
    }

    private mutating func answer(to question: LiveQuestion) -> LiveAnswer {
        do throws(FileSystemError) {
            guard let json = try self.json(for: question) else {
                return LiveAnswer(
                    Access.Refusal(404, "this event is not kept here any more; look for it in the archive"))
            }
            return LiveAnswer(json: json)
        } catch {
            return LiveAnswer(Access.Refusal(500, "the journal cannot be read: \(error)"))
        }
    }

    private mutating func json(for question: LiveQuestion) throws(FileSystemError) -> [UInt8]? {
        switch question {
        case .status: return self.state.status(now: self.clock.wallTime(), problem: self.problem)
        case .events(let filter, let before, let limit, let fields):
            return self.state.events(filter, before: before, limit: limit, fields: fields)
        case .eventAt(let place): return try self.state.event(at: place, upTo: self.durable ?? JournalPosition(0))
        case .eventNamed(let id): return self.state.event(named: id)
        case .person(let key, let before): return try self.state.person(key, before: before)
        case .names: return self.state.names.json
        case .refusals: return self.state.kept.refusalsJSON
        case .stream, .report: return nil
        }
    }

    // MARK: Streams

    private mutating func sendFrames() {
        let now = self.clock.monotonicTime()
        guard !self.streams.isEmpty, now >= self.nextTick else { return }
        self.nextTick = now + Self.tick
        var status: [UInt8]?
        if now >= self.nextStatus {
            self.nextStatus = now + Self.statusInterval
            let json = self.state.status(now: self.clock.wallTime(), problem: self.problem, quarantinedMax: 4)
            status = LiveState<Files>.message("status", json)
        }
        for (number, open) in self.streams {
            guard open.sink.pendingByteCount < Self.pendingByteCountMax else {
                if now - open.takenAt > Self.stallMax {
                    open.sink.end()
                    self.streams[number] = nil
                }
                continue
            }
            var stream = open.stream
            var isTick = true
            while open.sink.pendingByteCount < Self.pendingByteCountMax,
                let frame = self.state.frame(for: &stream, isTick: isTick)
            {
                isTick = false
                open.sink.send(frame)
            }
            if let status, open.sink.pendingByteCount < Self.pendingByteCountMax { open.sink.send(status) }
            self.streams[number]?.stream = stream
            self.streams[number]?.takenAt = now
        }
    }
}
