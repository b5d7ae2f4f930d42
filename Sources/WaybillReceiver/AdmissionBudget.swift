internal import NIOCore
internal import Synchronization
internal import WaybillProtocol

/// Limits the bytes of unanswered messages and their payloads, compressed and inflated, that may be in memory.
///
/// A connection reserves bytes before it reads a payload, and before it hands over a message that the committer
/// answers. When there is no room it stops reading and is called back, first come first served, so one peer cannot
/// starve the others.
package final class AdmissionBudget: Sendable {
    private struct Waiter: Sendable {
        let byteCount: Int
        let resume: @Sendable () -> Void
    }

    private struct State {
        var free: Int
        var waiters = CircularBuffer<Waiter>()
    }

    /// What a message counts in addition to its payload: the length of the longest message.
    static let messageByteCount = ProtocolLimits.messageByteCountMax

    private let state: Mutex<State>
    private let total: Int

    package init(byteCount: Int) {
        self.total = byteCount
        self.state = Mutex(State(free: byteCount))
    }

    /// Takes `byteCount` bytes now, or later calls `resume` on some thread once they are taken.
    ///
    /// - Returns: whether they were taken now.
    func reserve(_ byteCount: Int, otherwise resume: @escaping @Sendable () -> Void) -> Bool {
        self.state.withLock { state in
            // A frame larger than the whole budget is admitted alone.
            if state.waiters.isEmpty, state.free >= min(byteCount, self.total) {
                state.free -= byteCount
                return true
            }
            state.waiters.append(Waiter(byteCount: byteCount, resume: resume))
            return false
        }
    }

    /// Whether a connection waits for room.
    var hasWaiters: Bool {
        self.state.withLock { !$0.waiters.isEmpty }
    }

    /// The bytes that are not taken; negative while a frame larger than the whole budget is in memory.
    package var freeByteCount: Int {
        self.state.withLock { $0.free }
    }

    /// Returns bytes to the budget and resumes connections that now have room.
    package func release(_ byteCount: Int) {
        let resumed = self.state.withLock { state in
            state.free += byteCount
            var resumed: [Waiter] = []
            while let waiter = state.waiters.first, state.free >= min(waiter.byteCount, self.total) {
                state.free -= waiter.byteCount
                resumed.append(waiter)
                _ = state.waiters.removeFirst()
            }
            return resumed
        }
        for waiter in resumed { waiter.resume() }
    }
}
