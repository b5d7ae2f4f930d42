internal import NIOCore
internal import Synchronization
internal import WaybillProtocol

/// How many bytes of messages and their payloads, compressed and inflated, may be in memory before they are answered.
///
/// A connection asks before it reads a payload, and before it hands over a message that the committer answers; when
/// there is no room it stops reading and is called back, first come first served, so one peer cannot starve the others.
package final class AdmissionBudget: Sendable {
    private struct Waiter: Sendable {
        let byteCount: Int
        let resume: @Sendable () -> Void
    }

    private struct State {
        var free: Int
        var waiters = CircularBuffer<Waiter>()
    }

    /// What a message counts for beside its payload: as much as the longest has.
    static let messageByteCount = ProtocolLimits.messageByteCountMax

    private let state: Mutex<State>
    private let total: Int

    package init(byteCount: Int) {
        self.total = byteCount
        self.state = Mutex(State(free: byteCount))
    }

    /// Takes `byteCount` bytes now, or calls `resume` on some thread once they have been taken for it.
    ///
    /// - Returns: whether they were taken now.
    func reserve(_ byteCount: Int, otherwise resume: @escaping @Sendable () -> Void) -> Bool {
        self.state.withLock { state in
            // A frame larger than the whole budget passes alone.
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

    /// What nobody has taken; below 0 while a frame larger than the whole budget is in memory.
    package var freeByteCount: Int {
        self.state.withLock { $0.free }
    }

    /// Gives bytes back.
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
