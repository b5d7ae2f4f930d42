package import WaybillData
internal import WaybillSystem

/// Requests that wait until the journal is durable past a position.
///
/// The committer comes here once for each group. Answers are called outside the lock, each of them once.
package final class JournalWatch: Sendable {
    package typealias Answer = @Sendable () -> Void

    private struct State {
        var end: JournalPosition
        var waiting: [Int: (position: JournalPosition, answer: Answer)] = [:]
        var next = 0
        var isClosed = false
    }

    private let state: Lock<State>
    private let countMax: Int

    package init(end: JournalPosition, countMax: Int = 4) {
        self.state = Lock(State(end: end))
        self.countMax = countMax
    }

    /// The result of a request to wait.
    package enum Wait: Equatable {
        /// The answer was called: there is nothing to wait for.
        case answered
        /// The answer will be called; ``cancel(_:)`` takes the number.
        case waiting(Int)
        /// As many wait as may; the answer is not called.
        case refused
    }

    /// Calls `answer` once the journal is durable past `position`.
    package func wait(beyond position: JournalPosition, _ answer: @escaping Answer) -> Wait {
        let wait = self.state.withLock { state -> Wait in
            if state.isClosed || state.end > position { return .answered }
            guard state.waiting.count < self.countMax else { return .refused }
            state.next += 1
            state.waiting[state.next] = (position, answer)
            return .waiting(state.next)
        }
        if wait == .answered { answer() }
        return wait
    }

    /// Calls the answer of a request now, if it still waits.
    package func cancel(_ number: Int) {
        self.state.withLock { $0.waiting.removeValue(forKey: number) }?.answer()
    }

    /// The journal is durable up to `end`.
    func reached(_ end: JournalPosition) {
        let answers = self.state.withLock { state -> [Answer] in
            state.end = end
            guard !state.waiting.isEmpty else { return [] }
            let due = state.waiting.filter { $0.value.position < end }
            for number in due.keys { state.waiting[number] = nil }
            return due.values.map(\.answer)
        }
        for answer in answers { answer() }
    }

    /// Lets requests wait again.
    func reopen() {
        self.state.withLock { $0.isClosed = false }
    }

    /// Answers all: nothing more becomes durable.
    func close() {
        let answers = self.state.withLock { state -> [Answer] in
            state.isClosed = true
            defer { state.waiting = [:] }
            return state.waiting.values.map(\.answer)
        }
        for answer in answers { answer() }
    }
}
