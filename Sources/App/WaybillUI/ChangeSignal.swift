internal import WaybillSystem

/// Wakes the tasks that wait for changes; several signals without a waiting task count as one.
final class ChangeSignal: Sendable {
    private struct State {
        var listeners: [UInt64: AsyncStream<Void>.Continuation] = [:]
        var listenerCount: UInt64 = 0
    }

    private let state = Lock(State())

    deinit {
        for listener in self.state.withLock({ $0.listeners.values }) { listener.finish() }
    }

    func signal() {
        for listener in self.state.withLock({ $0.listeners.values }) { listener.yield() }
    }

    /// Each call returns its own stream, because a stream cannot be used again after its reader was cancelled.
    func signals() -> AsyncStream<Void> {
        let (stream, listener) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let number = self.state.withLock { state in
            state.listenerCount += 1
            state.listeners[state.listenerCount] = listener
            return state.listenerCount
        }
        listener.onTermination = { [weak self] _ in
            _ = self?.state.withLock { $0.listeners.removeValue(forKey: number) }
        }
        listener.yield()
        return stream
    }
}
