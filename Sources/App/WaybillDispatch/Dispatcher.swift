/// The agent's core inside an app, for platforms where no separate agent can run.
///
/// Constraints: an agent's promises hold here too (`Protocol/protocol.md`): only events durable at the receiver are
/// deleted from the spool, nothing is delivered twice, and undelivered events remain for the next start. Between rounds
/// there is no thread, no socket and no lock; a name lookup interrupted by a deadline ends on its own.
///
///     app ── track ──▶ spool/*.ndjson ──▶ round: connect, ship, ACK ──▶ DispatchResult
///                                           ▲ every 120 s, or flush(), or drain(until:)
///
/// Life of a round: the spool's folder is locked; the agent's pump runs on a separate thread until everything that was
/// in the spool is durable, no receiver answers within the configured patience, or the deadline passes; then the
/// connection is closed. If nothing is waiting, no connection is made. Rounds never overlap, and while the dispatcher
/// is suspended only those of a drain begin. State is stored in `dispatch/` in the spool. Losing that folder loses no
/// events, because the receiver is asked what it holds.
///
/// Either an agent or a dispatcher ships a spool: the second one gets an error that names the first.
internal import Logging
internal import WaybillAgent
internal import WaybillSystem
internal import WaybillTail

/// Delivers an app's spool to a receiver, from within the app.
///
///     let dispatcher = try Dispatcher(.init(spool: spool, receivers: ["events.example.com:4390"]))
///     let result = await dispatcher.flush()                        // .delivered(17, remaining: 0)
///     await dispatcher.drain(until: .now + .seconds(20))              // in background time
///
/// It works as long as it is retained: when it is deallocated, its automatic rounds end. It is safe to use from any
/// task or thread.
@available(watchOS, unavailable, message: "watchOS gives apps no sockets; hand the events to the app on the iPhone")
public final class Dispatcher: Sendable {
    private let agent: AgentConfiguration
    private let patience: Duration
    private let rounds = Rounds()
    private let turn = ReceiverTurn()
    private let loop = Lock<Task<Void, Never>?>(nil)

    /// Creates a dispatcher; in ``Mode/every(_:)`` mode it starts dispatching.
    ///
    /// - Throws: ``DispatchFailure`` with code "configuration" if the configuration is invalid, or "in-use" if an agent
    ///   or a round of another dispatcher is using the spool. If one uses it later, rounds fail with the same code.
    public init(_ configuration: Configuration) throws(DispatchFailure) {
        self.agent = try configuration.agent()
        self.patience = configuration.patience
        try Self.checkAlone(configuration.spool)
        guard let interval = configuration.mode.interval else { return }
        let finished = configuration.finished
        let task = Task { [weak self] in
            while !Task.isCancelled {
                // Deallocated with the app's last reference; nothing is left to do.
                guard await self?.ownRound(finished) != nil else { return }
                do {
                    try await Task.sleep(for: interval)
                } catch {
                    return
                }
            }
        }
        self.loop.withLock { $0 = task }
    }

    deinit {
        self.loop.withLock { $0?.cancel() }
    }

    /// Delivers the current contents of the spool; if a round is running, waits for it and then runs another.
    ///
    /// Events tracked meanwhile are sent in the next round. While the dispatcher is suspended, it does nothing and
    /// fails with code "suspended".
    @discardableResult
    public func flush() async -> DispatchResult {
        let result = await self.round(.dispatch(patience: self.patience), .whileAwake)
        return result ?? Self.suspended
    }

    /// Delivers until nothing is left, a permanent error occurs, or the deadline passes.
    ///
    /// Unlike ``flush()``, it also delivers events tracked meanwhile, and works while the dispatcher is suspended.
    /// Use it in the seconds that a system grants an app before it is suspended.
    @discardableResult
    public func drain(until deadline: ContinuousClock.Instant) async -> DispatchResult {
        let permit = self.rounds.permitUntilSuspended()
        let occasion = Occasion.drain(until: deadline)
        var deliveredCount = 0
        while true {
            guard !occasion.isLate else { return Self.stopped(AgentSummary(), occasion, deliveredCount) }
            let result = await withDeadline(deadline) { await self.round(occasion, permit) }
            switch result ?? Self.stopped(AgentSummary(), occasion) {
            case .nothingToSend:
                return deliveredCount == 0 ? .nothingToSend : .delivered(deliveredCount, remaining: 0)
            case .delivered(let count, let remaining):
                deliveredCount += count
                // If a round delivers nothing, the next one will not either.
                if remaining == 0 || count == 0 { return .delivered(deliveredCount, remaining: remaining) }
            case .failed(let failure):
                return .failed(
                    DispatchFailure(
                        code: failure.code, message: failure.message,
                        deliveredCount: deliveredCount + failure.deliveredCount,
                        remainingCount: failure.remainingCount))
            }
        }
    }

    /// Delivers like ``flush()``, and ships disputed events under another id.
    ///
    /// Events are disputed when a receiver holds others under their id: a phone was cloned, or someone else used the
    /// app's token. They stay in the spool, and a round that meets them fails with code "unreachable". After 7 days of
    /// disagreement at every receiver a round does this by itself. Events that a receiver did accept are stored there
    /// twice.
    @discardableResult
    public func reship() async -> DispatchResult {
        await self.round(.reship(patience: self.patience), .whileAwake) ?? Self.suspended
    }

    /// How long every receiver must have disagreed before a round ships events under another id.
    static let disputePatience = Reshipment.patience

    /// Ends the current round; until ``resume()``, only rounds of a later ``drain(until:)`` begin.
    ///
    /// When it returns, no file of the spool is locked. Call it when the app leaves the foreground: iOS kills a process
    /// that it suspends while the process holds a lock in a shared container. Undelivered events stay in the spool. If
    /// the dispatcher is already suspended, this ends a running drain.
    public func suspend() async {
        await self.rounds.suspend()
    }

    /// Allows rounds again; automatic rounds continue with their interval.
    public func resume() {
        self.rounds.resume()
    }

    /// Ends the automatic rounds; a running one stops at once, and undelivered events stay in the spool.
    public func stop() async {
        let task = self.loop.withLock { $0 }
        task?.cancel()
        await task?.value
    }

    /// The purpose of a round.
    private enum Occasion: Sendable {
        case dispatch(patience: Duration)
        case drain(until: ContinuousClock.Instant)
        case reship(patience: Duration)

        var mode: AgentMode {
            switch self {
            case .dispatch(let patience): .round(.whatWasThere, patience: patience)
            // What is renamed is found by a later scan.
            case .reship(let patience): .round(.untilNothingIsLeft, patience: patience)
            // More than fits before the deadline, which then ends the round and is reported.
            case .drain(let deadline): .round(.untilNothingIsLeft, patience: deadline - .now + .seconds(60))
            }
        }

        var isLate: Bool {
            switch self {
            case .dispatch, .reship: false
            case .drain(let deadline): deadline <= .now
            }
        }
    }

    /// Runs an automatic round, unless the dispatcher is suspended.
    private func ownRound(_ finished: (@Sendable (DispatchResult) -> Void)?) async {
        guard let result = await self.round(.dispatch(patience: self.patience), .whileAwake) else { return }
        finished?(result)
    }

    private func round(_ occasion: Occasion, _ permit: Rounds.Permit) async -> DispatchResult? {
        await self.rounds.run(permit) { [agent, turn] in
            var configuration = agent
            configuration.run.mode = occasion.mode
            if case .reship = occasion { configuration.reshipRule = .atOnce }
            configuration.receivers = turn.order(configuration.receivers)
            return await Self.run(configuration, occasion, turn)
        }
    }

    private static func run(
        _ configuration: AgentConfiguration, _ occasion: Occasion, _ turn: ReceiverTurn
    ) async -> DispatchResult {
        guard !Task.isCancelled else { return self.stopped(AgentSummary(), occasion) }
        // The result contains everything; an app's log might write to the spool again.
        let logger = Logger(label: "waybill.dispatch", factory: { _ in SwiftLogNoOpLogHandler() })
        let agent = Agent(configuration: configuration, logger: logger)
        do {
            try await agent.run()
        } catch {
            return .failed(DispatchFailure(code: .system, message: "\(error)"))
        }
        if let summary = agent.outcome?.summary, summary.disputedStreamCount > 0 { turn.end() }
        switch agent.outcome {
        case .drained(let summary): return self.delivered(summary)
        case .stopped(let summary): return self.stopped(summary, occasion)
        case .unreachable(let reason, let summary):
            return .failed(
                DispatchFailure(
                    code: .unreachable, message: "no receiver accepted events: \(reason); the next round tries again",
                    deliveredCount: summary.ackedLineCount, remainingCount: summary.remainingLineCount))
        case .failed(let error): return .failed(DispatchFailure(error))
        case .unsecurable(let error): return .failed(DispatchFailure(code: .tls, message: "\(error)"))
        case .unmeasurable, .misnamed, nil: preconditionFailure("a round has no metrics, a key's name, and an end")
        }
    }

    private static func delivered(_ summary: AgentSummary) -> DispatchResult {
        guard summary.ackedLineCount > 0 || summary.remainingLineCount > 0 else { return .nothingToSend }
        return .delivered(summary.ackedLineCount, remaining: summary.remainingLineCount)
    }

    /// The failure of a round cancelled by its deadline, by the app, or by ``suspend()``.
    private static func stopped(
        _ summary: AgentSummary, _ occasion: Occasion, _ earlierCount: Int = 0
    ) -> DispatchResult {
        let message =
            occasion.isLate
            ? "the deadline passed; the rest is sent in the next round"
            : "the round was stopped; the rest is sent in the next one"
        let failure = summary.lastFailure.map { ". The last failure: \($0)" } ?? ""
        return .failed(
            DispatchFailure(
                code: occasion.isLate ? .deadline : .stopped, message: message + failure,
                deliveredCount: earlierCount + summary.ackedLineCount, remainingCount: summary.remainingLineCount))
    }

    private static var suspended: DispatchResult {
        .failed(DispatchFailure(code: .suspended, message: "the dispatcher is suspended; call resume() first"))
    }

    /// Throws if an agent is shipping the spool.
    private static func checkAlone(_ spool: String) throws(DispatchFailure) {
        let files = POSIXFileSystem(.spool)
        do throws(FileSystemError) {
            try files.createDirectories(spool)
            var claims = SpoolClaims([GlobPattern.quoted(spool)], on: files)
            try claims.claim()
            guard !claims.isShort else { throw FileSystemError("lock", path: spool, errno: Errno.tooManyFiles) }
        } catch {
            throw DispatchFailure(error)
        }
    }
}

/// Which receiver is tried first: after a round with disputed events, the next one.
private final class ReceiverTurn: Sendable {
    private let turn = Lock(0)

    func order(_ receivers: [NetworkAddress]) -> [NetworkAddress] {
        let first = self.turn.withLock { $0 % receivers.count }
        return Array(receivers[first...] + receivers[..<first])
    }

    func end() {
        self.turn.withLock { $0 += 1 }
    }
}

/// Runs rounds one after the other, in the order of requests.
private final class Rounds: Sendable {
    /// When a round may begin.
    enum Permit: Sendable {
        /// Only while the dispatcher is not suspended.
        case whileAwake
        /// Even while suspended, until the dispatcher has been suspended this many times.
        case untilSuspended(count: Int)
    }

    private struct State {
        var last: Task<Void, Never>?
        /// The rounds that are running or waiting for their turn.
        var tasks: [Int: Task<DispatchResult?, Never>] = [:]
        var roundCount = 0
        var isSuspended = false
        var suspensionCount = 0

        func admits(_ permit: Permit) -> Bool {
            switch permit {
            case .whileAwake: !self.isSuspended
            case .untilSuspended(let count): self.suspensionCount < count
            }
        }
    }

    private let state = Lock(State())

    func permitUntilSuspended() -> Permit {
        self.state.withLock { .untilSuspended(count: $0.suspensionCount + 1) }
    }

    /// Runs `body` after all earlier rounds have ended; cancelling the caller cancels it, or its waiting.
    ///
    /// - Returns: `nil` if the round may not begin.
    func run(_ permit: Permit, _ body: @escaping @Sendable () async -> DispatchResult) async -> DispatchResult? {
        guard let (number, task) = self.begin(permit, body) else { return nil }
        defer { self.state.withLock { $0.tasks[number] = nil } }
        return await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
    }

    private func begin(
        _ permit: Permit, _ body: @escaping @Sendable () async -> DispatchResult
    ) -> (Int, Task<DispatchResult?, Never>)? {
        self.state.withLock { state in
            guard state.admits(permit) else { return nil }
            let before = state.last
            let task = Task<DispatchResult?, Never> {
                if let before { await Self.end(of: before) }
                // From here on, suspending cancels the task.
                guard self.admits(permit) else { return nil }
                return await body()
            }
            state.last = Task {
                await before?.value
                _ = await task.value
            }
            state.roundCount += 1
            state.tasks[state.roundCount] = task
            return (state.roundCount, task)
        }
    }

    private func admits(_ permit: Permit) -> Bool {
        self.state.withLock { $0.admits(permit) }
    }

    /// Returns when no round is running.
    func suspend() async {
        let (tasks, last) = self.state.withLock { state in
            state.isSuspended = true
            state.suspensionCount += 1
            return (Array(state.tasks.values), state.last)
        }
        for task in tasks { task.cancel() }
        await last?.value
    }

    func resume() {
        self.state.withLock { $0.isSuspended = false }
    }

    /// Returns when a round has ended, or the caller is cancelled.
    private static func end(of round: Task<Void, Never>) async {
        let (ends, end) = AsyncStream.makeStream(of: Never.self)
        Task {
            await round.value
            end.finish()
        }
        for await _ in ends {}
    }
}

/// Runs `body`, and cancels it at the deadline.
private func withDeadline(
    _ deadline: ContinuousClock.Instant, _ body: @escaping @Sendable () async -> DispatchResult?
) async -> DispatchResult? {
    let task = Task { await body() }
    let alarm = Task {
        do {
            try await Task.sleep(until: deadline, clock: .continuous)
            task.cancel()
        } catch {
            // The round ended before the deadline.
        }
    }
    defer { alarm.cancel() }
    return await withTaskCancellationHandler {
        await task.value
    } onCancel: {
        task.cancel()
    }
}
