/// The agent's core inside an app, for platforms where no agent can run beside it.
///
/// Constraints: what an agent promises holds here too (`Protocol/protocol.md`): nothing is deleted from the spool that
/// is not durable at the receiver, nothing is delivered twice, and what could not be delivered is there at the next
/// start. Between rounds there is no thread, no socket and no lock; a lookup of a name that a deadline cut short ends by
/// itself.
///
///     app ── track ──▶ spool/*.ndjson ──▶ round: connect, ship, ACK ──▶ DispatchResult
///                                           ▲ every 120 s, or dispatch(), or drain(until:)
///
/// A round's life: the spool's folder is locked, the agent's pump runs on a thread of its own until everything
/// that was in the spool is durable, no receiver answers for as long as the configuration has patience, or the
/// deadline comes; the connection ends with it. Where nothing waits for a receiver, there is no connection. Rounds
/// follow each other, never overlap, and none begins while the dispatcher is suspended but those of a drain. State is in
/// `dispatch/` in the spool: what the receiver holds is asked from it, so losing that folder loses nothing.
///
/// Either an agent ships a spool or a dispatcher does: whoever comes second is told who is there.
internal import Logging
internal import Synchronization
internal import WaybillAgent
internal import WaybillSystem
internal import WaybillTail

/// Delivers an app's spool to a receiver from within the app.
///
///     let dispatcher = try Dispatcher(.init(spool: spool, receivers: ["events.example.com:4390"]))
///     let result = await dispatcher.dispatch()                        // .delivered(17, remaining: 0)
///     await dispatcher.drain(until: .now + .seconds(20))              // in background time
///
/// It works as long as it is kept: with the last reference its own rounds end. Safe to use from any task or thread.
@available(watchOS, unavailable, message: "watchOS gives apps no sockets; hand the events to the app on the iPhone")
public final class Dispatcher: Sendable {
    private let agent: AgentConfiguration
    private let patience: Duration
    private let rounds = Rounds()
    private let loop = Mutex<Task<Void, Never>?>(nil)

    /// Begins to dispatch, unless it is told to wait.
    ///
    /// - Throws: "configuration" for what cannot work, and "in-use" where an agent, or a round of another dispatcher,
    ///   has the spool now. One that takes it later fails the rounds with the same code.
    public init(_ configuration: Configuration) throws(DispatchFailure) {
        self.agent = try configuration.agent()
        self.patience = configuration.patience
        try Self.checkAlone(configuration.spool)
        guard let interval = configuration.mode.interval else { return }
        let finished = configuration.finished
        let task = Task { [weak self] in
            while !Task.isCancelled {
                // Gone with the app's last reference; then nothing is left to do.
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

    /// Delivers what is in the spool now; waits for a round that is under way, and then runs its own.
    ///
    /// What is tracked meanwhile goes with the next round. While the dispatcher is suspended, it does nothing and fails
    /// with the code "suspended".
    @discardableResult
    public func dispatch() async -> DispatchResult {
        let result = await self.round(.dispatch(patience: self.patience), .whileAwake)
        return result ?? Self.suspended
    }

    /// Delivers until nothing is left, an error that patience does not mend, or the deadline.
    ///
    /// Unlike ``dispatch()`` it takes up what is tracked meanwhile, and works also while the dispatcher is suspended. For
    /// the seconds that a system grants an app before it is suspended.
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
                // What no round delivers, the next one will not either.
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

    /// Ends the round that is under way, and lets none begin until ``resume()``, but those of a ``drain(until:)`` that is
    /// asked for from now on.
    ///
    /// When it returns, no file of the spool is locked. For an app that leaves the foreground: iOS kills a process that
    /// it suspends while it holds a lock in a shared container. What a round had not delivered stays. A dispatcher that
    /// is suspended already stays so, and a drain of it is ended.
    public func suspend() async {
        await self.rounds.suspend()
    }

    /// Lets rounds begin again; the dispatcher's own go on with their interval.
    public func resume() {
        self.rounds.resume()
    }

    /// Ends the dispatcher's own rounds; one that is under way stops at once, and what it had not delivered stays.
    public func stop() async {
        let task = self.loop.withLock { $0 }
        task?.cancel()
        await task?.value
    }

    /// What a round is for.
    private enum Occasion: Sendable {
        case dispatch(patience: Duration)
        case drain(until: ContinuousClock.Instant)

        var mode: AgentMode {
            switch self {
            case .dispatch(let patience): .round(.whatWasThere, patience: patience)
            // More than there is time for: the deadline ends it, and says so.
            case .drain(let deadline): .round(.untilNothingIsLeft, patience: deadline - .now + .seconds(60))
            }
        }

        var isLate: Bool {
            switch self {
            case .dispatch: false
            case .drain(let deadline): deadline <= .now
            }
        }
    }

    /// One of the dispatcher's own rounds, unless it is suspended.
    private func ownRound(_ finished: (@Sendable (DispatchResult) -> Void)?) async {
        guard let result = await self.round(.dispatch(patience: self.patience), .whileAwake) else { return }
        finished?(result)
    }

    private func round(_ occasion: Occasion, _ permit: Rounds.Permit) async -> DispatchResult? {
        await self.rounds.run(permit) { [agent] in
            var configuration = agent
            configuration.mode = occasion.mode
            return await Self.run(configuration, occasion)
        }
    }

    private static func run(_ configuration: AgentConfiguration, _ occasion: Occasion) async -> DispatchResult {
        guard !Task.isCancelled else { return self.stopped(AgentSummary(), occasion) }
        // Results say it all; an app's own log may lead back into the spool.
        let logger = Logger(label: "waybill.dispatch", factory: { _ in SwiftLogNoOpLogHandler() })
        let agent = Agent(configuration: configuration, logger: logger)
        do {
            try await agent.run()
        } catch {
            return .failed(DispatchFailure(code: .system, message: "\(error)"))
        }
        switch agent.outcome {
        case .drained(let summary): return self.delivered(summary)
        case .stopped(let summary): return self.stopped(summary, occasion)
        case .unreachable(let reason, let summary):
            return .failed(
                DispatchFailure(
                    code: .unreachable, message: "no receiver took the events: \(reason); the next round tries again",
                    deliveredCount: summary.ackedLineCount, remainingCount: summary.remainingLineCount))
        case .failed(let error): return .failed(DispatchFailure(error))
        case .unsecurable(let error): return .failed(DispatchFailure(code: .tls, message: "\(error)"))
        case .unmeasurable, nil: preconditionFailure("a round serves no metrics, and ends")
        }
    }

    private static func delivered(_ summary: AgentSummary) -> DispatchResult {
        guard summary.ackedLineCount > 0 || summary.remainingLineCount > 0 else { return .nothingToSend }
        return .delivered(summary.ackedLineCount, remaining: summary.remainingLineCount)
    }

    /// The round was cancelled: by its deadline, by the app, or by ``suspend()``.
    private static func stopped(
        _ summary: AgentSummary, _ occasion: Occasion, _ earlierCount: Int = 0
    ) -> DispatchResult {
        let message =
            occasion.isLate
            ? "the deadline came first; the rest goes with the next round"
            : "the round was stopped; the rest goes with the next one"
        let failure = summary.lastFailure.map { ". The last failure: \($0)" } ?? ""
        return .failed(
            DispatchFailure(
                code: occasion.isLate ? .deadline : .stopped, message: message + failure,
                deliveredCount: earlierCount + summary.ackedLineCount, remainingCount: summary.remainingLineCount))
    }

    private static var suspended: DispatchResult {
        .failed(DispatchFailure(code: .suspended, message: "the dispatcher is suspended; call resume() first"))
    }

    /// Refuses a spool that an agent ships now.
    private static func checkAlone(_ spool: String) throws(DispatchFailure) {
        let files = POSIXFileSystem()
        do throws(FileSystemError) {
            try files.createDirectories(spool)
            var claims = SpoolClaims([GlobPattern.quoted(spool)], on: files)
            try claims.claim()
        } catch {
            throw DispatchFailure(error)
        }
    }
}

/// One round after the other, in the order in which they were asked for.
private final class Rounds: Sendable {
    /// When a round may begin.
    enum Permit: Sendable {
        /// Unless the dispatcher is suspended.
        case whileAwake
        /// Also then, until it is suspended for so many times.
        case untilSuspended(count: Int)
    }

    private struct State {
        var last: Task<Void, Never>?
        /// Under way, or waiting for their turn.
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

    private let state = Mutex(State())

    func permitUntilSuspended() -> Permit {
        self.state.withLock { .untilSuspended(count: $0.suspensionCount + 1) }
    }

    /// Runs `body` when all before it are through; cancelling the caller cancels it, and its waiting.
    ///
    /// - Returns: `nil` where it may not begin.
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
                // From here on, whoever suspends cancels the task.
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

    /// Returns when no round is under way.
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

    /// Returns when a round is through, or the caller is cancelled.
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
            // The round was faster.
        }
    }
    defer { alarm.cancel() }
    return await withTaskCancellationHandler {
        await task.value
    } onCancel: {
        task.cancel()
    }
}
