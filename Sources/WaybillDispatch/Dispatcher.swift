/// The agent's core inside an app, for platforms where no agent can run beside it.
///
/// Constraints: what an agent promises holds here too (`Protocol/protocol.md`): nothing is deleted from the spool that
/// is not durable at the receiver, nothing is delivered twice, and what could not be delivered is there at the next
/// start. Between rounds there is no thread, no socket and no lock.
///
///     app ── track ──▶ spool/*.ndjson ──▶ round: connect, ship, ACK ──▶ DispatchResult
///                                           ▲ every 120 s, or dispatch(), or drain(until:)
///
/// A round's life: the spool's folder is locked, the agent's pump runs on a thread of its own until everything
/// that was in the spool is durable, no receiver answers for as long as the configuration has patience, or the
/// deadline comes; the connection ends with it. Rounds follow each other, never overlap. State is in `dispatch/` in the
/// spool: what the receiver holds is asked from it, so losing that folder loses nothing.
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
/// Safe to use from any task or thread.
public final class Dispatcher: Sendable {
    private let agent: AgentConfiguration
    private let patience: Duration
    private let rounds = Rounds()
    private let loop = Mutex<Task<Void, Never>?>(nil)

    /// Begins to dispatch, unless it is told to wait.
    ///
    /// - Throws: for a configuration that cannot work, and where an agent ships the spool.
    public init(_ configuration: Configuration) throws(DispatchFailure) {
        self.agent = try configuration.agent()
        self.patience = configuration.patience
        try Self.checkAlone(configuration.spool)
        guard let interval = configuration.mode.interval else { return }
        let finished = configuration.finished
        let task = Task { [weak self] in
            while !Task.isCancelled {
                // Gone with the app's last reference; then nothing is left to do.
                guard let result = await self?.dispatch() else { return }
                finished?(result)
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
    @discardableResult
    public func dispatch() async -> DispatchResult {
        await self.round(patience: self.patience)
    }

    /// Delivers until nothing is left, an error that patience does not mend, or the deadline.
    ///
    /// Unlike ``dispatch()`` it takes up what is tracked meanwhile. For the seconds that a system grants an app
    /// before it is suspended.
    @discardableResult
    public func drain(until deadline: ContinuousClock.Instant) async -> DispatchResult {
        var deliveredCount = 0
        while true {
            let rest = deadline - .now
            guard rest > .zero else { return Self.late(deliveredCount, 0) }
            let result = await withDeadline(deadline) { await self.round(patience: rest) }
            switch result {
            case .nothingToSend:
                return deliveredCount == 0 ? .nothingToSend : .delivered(deliveredCount, remaining: 0)
            case .delivered(let count, let remaining):
                deliveredCount += count
                // What no round delivers, the next one will not either.
                if remaining == 0 || count == 0 { return .delivered(deliveredCount, remaining: remaining) }
            case .failed(let failure):
                deliveredCount += failure.deliveredCount
                if failure.code == "stopped", deadline <= .now {
                    return Self.late(deliveredCount, failure.remainingCount)
                }
                return .failed(
                    DispatchFailure(
                        code: failure.code, message: failure.message, deliveredCount: deliveredCount,
                        remainingCount: failure.remainingCount))
            }
        }
    }

    /// Ends the dispatcher's own rounds; one that is under way stops at once, and what it had not delivered stays.
    public func stop() async {
        let task = self.loop.withLock { $0 }
        task?.cancel()
        await task?.value
    }

    private static func late(_ deliveredCount: Int, _ remainingCount: Int) -> DispatchResult {
        .failed(
            DispatchFailure(
                code: "deadline", message: "the deadline came first; the rest goes with the next round",
                deliveredCount: deliveredCount, remainingCount: remainingCount))
    }

    private func round(patience: Duration) async -> DispatchResult {
        var configuration = self.agent
        configuration.mode = .once(patience: patience)
        return await self.rounds.run { [configuration] in await Self.run(configuration) }
    }

    private static func run(_ configuration: AgentConfiguration) async -> DispatchResult {
        guard !Task.isCancelled else { return self.stopped(AgentSummary()) }
        // Results say it all; an app's own log may lead back into the spool.
        let logger = Logger(label: "waybill.dispatch", factory: { _ in SwiftLogNoOpLogHandler() })
        let agent = Agent(configuration: configuration, logger: logger)
        do {
            try await agent.run()
        } catch {
            return .failed(DispatchFailure(code: "system", message: "\(error)"))
        }
        switch agent.outcome {
        case .drained(let summary): return self.delivered(summary)
        case .stopped(let summary): return self.stopped(summary)
        case .unreachable(let reason, let summary):
            return .failed(
                DispatchFailure(
                    code: "unreachable", message: "no receiver took the events: \(reason); the next round tries again",
                    deliveredCount: summary.ackedLineCount, remainingCount: summary.remainingLineCount))
        case .failed(let error): return .failed(DispatchFailure(error))
        case .unsecurable(let error): return .failed(DispatchFailure(code: "tls", message: "\(error)"))
        case .unmeasurable, nil: preconditionFailure("a round serves no metrics, and ends")
        }
    }

    private static func delivered(_ summary: AgentSummary) -> DispatchResult {
        guard summary.ackedLineCount > 0 || summary.remainingLineCount > 0 else { return .nothingToSend }
        return .delivered(summary.ackedLineCount, remaining: summary.remainingLineCount)
    }

    private static func stopped(_ summary: AgentSummary) -> DispatchResult {
        .failed(
            DispatchFailure(
                code: "stopped", message: "the round was stopped; the rest goes with the next one",
                deliveredCount: summary.ackedLineCount, remainingCount: summary.remainingLineCount))
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

extension DispatchFailure {
    init(_ error: FileSystemError) {
        guard error.errno == SystemErrorText.inUse else {
            self.init(code: error.code, message: "\(error)")
            return
        }
        self.init(
            code: error.code,
            message: "an agent or another dispatcher ships this spool (\(error.path) is locked); stop one of them")
    }
}

/// One round after the other, in the order in which they were asked for.
private actor Rounds {
    private var last: Task<Void, Never>?

    /// Runs `body` when all before it are through; cancelling the caller cancels it, and its waiting.
    func run(_ body: @escaping @Sendable () async -> DispatchResult) async -> DispatchResult {
        let before = self.last
        let task = Task {
            if let before { await Self.end(of: before) }
            return await body()
        }
        self.last = Task {
            await before?.value
            _ = await task.value
        }
        return await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
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
    _ deadline: ContinuousClock.Instant, _ body: @escaping @Sendable () async -> DispatchResult
) async -> DispatchResult {
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
