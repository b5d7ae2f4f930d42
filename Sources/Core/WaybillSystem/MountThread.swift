/// Makes the calls on one mount, one after the other, for callers that wait for a limited time.
///
///     free ─▶ asked ─▶ begun ─▶ done ─▶ free          the caller takes the result
///                        └─▶ given up … returned ─▶ free          the result is undone: a late file is closed
///
/// While a call does not return, further ones fail at once. They continue failing until ``settle(_:)``, so that what looks
/// at many files in one go does not see some of a mount and others not. The thread is detached: nothing waits for it,
/// and there is never more than one call in it.
///
/// A mount that hangs again and again is left alone for longer each time, so that its callers have time for others.
package final class MountThread: Sendable {
    /// A call that did not return in time.
    struct Hang: Hashable, Sendable {
        let mount: String
        /// When the call began.
        let since: MonotonicTime
    }

    private struct Job: Sendable {
        let run: @Sendable () -> Void
        let undo: @Sendable () -> Void
    }

    private struct State: Sendable {
        enum Turn: Sendable {
            case free
            case asked(Job)
            case begun(at: MonotonicTime)
            case done
        }

        var turn = Turn.free
        var isGivenUp = false
        var hang: Hang?
        /// Files to close once no call is on its way.
        var closings: [@Sendable () -> Void] = []
        var hasThread = false
        var isEnded = false
        /// Hangs in a row, each soon after the one before.
        var hangCount = 0
        var returnedAt: MonotonicTime?
        var settledAt: MonotonicTime?

        var isFree: Bool {
            if case .free = self.turn { true } else { false }
        }

        /// How long the mount is left alone after it has answered.
        var pause: Duration {
            self.hangCount == 0 ? .zero : min(MountThread.pauseMax, .seconds(1 << min(self.hangCount, 6)))
        }
    }

    /// What a call came back with.
    ///
    /// `@unchecked Sendable`: the thread writes it, and the caller reads it after `state` says that the turn is done.
    private final class Answer<Value>: @unchecked Sendable {
        var result: Result<Value, FileSystemError>?
    }

    private static let pauseMax = Duration.seconds(60)
    /// A hang that begins so soon after the last one makes the pause longer.
    private static let relapse = Duration.seconds(60)

    private let state = Monitor(State())

    var hang: Hang? { self.state.withLock { $0.hang } }

    /// Makes a call.
    ///
    /// - Parameters:
    ///   - patience: how long it may take, from when it begins.
    ///   - undo: takes back what a call did that returned too late.
    /// - Throws: what the call throws, or that the mount does not answer.
    func call<Value>(
        _ operation: String, _ path: String, on mount: String, patience: Duration,
        undo: @escaping @Sendable (Value) -> Void,
        _ body: @escaping @Sendable () throws(FileSystemError) -> Value
    ) throws(FileSystemError) -> Value {
        let answer = Answer<Value>()
        let job = Job(
            run: {
                do throws(FileSystemError) {
                    answer.result = .success(try body())
                } catch {
                    answer.result = .failure(error)
                }
            },
            undo: { if case .success(let value) = answer.result { undo(value) } })
        guard self.ask(job, patience), self.isDone(on: mount, patience), let result = answer.result else {
            throw FileSystemError(
                operation, path: path, errno: Errno.unanswered, detail: "the file system at \(mount) does not answer")
        }
        self.state.update { $0.turn = .free }
        return try result.get()
    }

    /// Closes a file, now or once the call that is on its way has returned.
    func close(on mount: String, patience: Duration, _ body: @escaping @Sendable () -> Void) {
        let isLeft = self.state.update { state in
            if state.hang == nil, state.hasThread { return false }
            state.closings.append(body)
            return true
        }
        guard !isLeft else { return }
        do throws(FileSystemError) {
            try self.call("close", "", on: mount, patience: patience, undo: { _ in }) { body() }
        } catch {
            // The file is closed when the call returns, and nothing depends on it.
        }
    }

    /// Takes calls again if the last one has returned.
    ///
    /// - Returns: whether nothing is on its way.
    @discardableResult
    func settle(_ now: MonotonicTime) -> Bool {
        self.state.withLock { state in
            guard state.isFree, state.closings.isEmpty else { return false }
            guard state.hang != nil else { return true }
            guard let returned = state.returnedAt, now - returned >= state.pause else { return false }
            state.hang = nil
            state.settledAt = now
            return true
        }
    }

    /// Ends the thread once it has nothing to do.
    func end() {
        self.state.update { $0.isEnded = true }
    }

    // MARK: The caller

    /// - Returns: whether the thread takes the job.
    private func ask(_ job: Job, _ patience: Duration) -> Bool {
        let deadline = POSIXClock().monotonicTime() + patience
        while true {
            let isTaken = self.state.update { state -> Bool? in
                guard state.hang == nil else { return false }
                guard state.isFree else { return nil }
                if !state.hasThread { state.hasThread = self.start() }
                guard state.hasThread else { return false }
                state.turn = .asked(job)
                return true
            }
            if let isTaken { return isTaken }
            let isFree = self.state.wait(until: deadline) { state in
                state.isFree || state.hang != nil ? true : nil
            }
            guard isFree ?? false else { return false }
        }
    }

    /// Waits until the call has returned, or gives it up.
    private func isDone(on mount: String, _ patience: Duration) -> Bool {
        var deadline = POSIXClock().monotonicTime() + patience
        while true {
            let isDone = self.state.wait(until: deadline) { state in
                if case .done = state.turn { true } else { nil }
            }
            if isDone ?? false { return true }
            guard let next = self.giveUp(on: mount, patience) else { return false }
            deadline = next
        }
    }

    /// Gives a call up that has taken too long since it began.
    ///
    /// - Returns: when to see again; `nil` if it was given up.
    private func giveUp(on mount: String, _ patience: Duration) -> MonotonicTime? {
        self.state.withLock { state in
            let now = POSIXClock().monotonicTime()
            // A call that begins late says that this machine is slow, and not the mount.
            guard case .begun(let began) = state.turn else { return now + max(patience, .milliseconds(1)) }
            guard now - began >= patience else { return began + patience }
            state.isGivenUp = true
            state.hang = Hang(mount: mount, since: began)
            let isRelapse = state.settledAt.map { began - $0 < Self.relapse } ?? false
            state.hangCount = isRelapse ? state.hangCount + 1 : 0
            return nil
        }
    }

    // MARK: The thread

    private enum Work {
        case job(Job)
        case closings([@Sendable () -> Void])
        case end
    }

    private func start() -> Bool {
        Worker.attempt(name: "waybill-mount") { while self.work() {} } != nil
    }

    /// - Returns: whether there is more to do.
    private func work() -> Bool {
        let work = self.state.wait { state -> Work? in
            if case .asked(let job) = state.turn {
                state.turn = .begun(at: POSIXClock().monotonicTime())
                return .job(job)
            }
            if !state.closings.isEmpty, state.isFree {
                state.turn = .begun(at: POSIXClock().monotonicTime())
                defer { state.closings = [] }
                return .closings(state.closings)
            }
            guard state.isEnded, state.isFree else { return nil }
            state.hasThread = false
            return .end
        }
        switch work {
        case .job(let job):
            job.run()
            let isLate = self.state.update { state in
                if !state.isGivenUp { state.turn = .done }
                return state.isGivenUp
            }
            guard isLate else { return true }
            job.undo()
        case .closings(let closings):
            for close in closings { close() }
        case .end, nil:
            return false
        }
        self.state.update { state in
            state.turn = .free
            state.isGivenUp = false
            state.returnedAt = POSIXClock().monotonicTime()
        }
        return true
    }
}
