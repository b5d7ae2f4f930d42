internal import Synchronization

/// Wakes whoever waits for something new; rings that nobody waited for are one.
final class ChangeSignal: Sendable {
    private struct State {
        var listeners: [UInt64: AsyncStream<Void>.Continuation] = [:]
        var listenerCount: UInt64 = 0
    }

    private let state = Mutex(State())

    deinit {
        for listener in self.state.withLock({ $0.listeners.values }) { listener.finish() }
    }

    func signal() {
        for listener in self.state.withLock({ $0.listeners.values }) { listener.yield() }
    }

    /// Each call has rings of its own: a stream whose reader was cancelled does not come back.
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
