internal import WaybillSystem

/// Counts connection attempts in progress, so that the event loop outlives them.
///
/// The answer to a name lookup is delivered on the event loop, whenever it comes, and a lookup cannot be cancelled.
package final class ConnectionAttempts: Sendable {
    private struct State {
        var count = 0
        var whenOver: (@Sendable () -> Void)?
    }

    private let state = Lock(State())

    package init() {}

    package var areOver: Bool { self.state.withLock { $0.count == 0 } }

    package func begin() {
        self.state.withLock { $0.count += 1 }
    }

    package func end() {
        let body = self.state.withLock { state in
            state.count -= 1
            precondition(state.count >= 0, "an attempt to connect ended twice")
            return state.count == 0 ? state.whenOver.take() : nil
        }
        body?()
    }

    /// Runs `body` once no attempt is in progress: at once, or on the thread on which the last one ends.
    ///
    /// Call it once, when no more attempts will begin.
    package func whenOver(_ body: @escaping @Sendable () -> Void) {
        let isOver = self.state.withLock { state in
            if state.count > 0 { state.whenOver = body }
            return state.count == 0
        }
        if isOver { body() }
    }
}
