internal import WaybillData
package import WaybillFleet
internal import WaybillProjection
internal import WaybillSystem

/// Where the projections of a merged journal stop to seal days, each at the same position in every merger.
///
/// The merger's thread sets one barrier at a time and hands out nothing behind it; each projection makes its checkpoint
/// there, with the permission to seal, and the next one is set when all of them have.
package final class SealBarriers: Sendable {
    private struct State {
        var barrier: SealBarrier?
        var passed: Set<String> = []
    }

    private let names: Set<String>
    private let state = Lock(State())

    package init(names: Set<String>) {
        self.names = names
    }

    package func set(_ barrier: SealBarrier) {
        self.state.withLock { state in
            guard state.barrier != barrier else { return }
            state.barrier = barrier
            state.passed = []
        }
    }

    /// Whether every projection has passed the barrier.
    package var isPassed: Bool { self.state.withLock { $0.passed == self.names } }

    /// The permission of a projection that stands at the barrier and has not passed it.
    func moment(at position: JournalPosition, for name: String) -> SealMoment? {
        self.state.withLock { state in
            guard let barrier = state.barrier, barrier.position == position, !state.passed.contains(name) else {
                return nil
            }
            return SealMoment(now: barrier.now, through: barrier.through)
        }
    }

    /// A projection made its checkpoint at a position, with the permission that ``moment(at:for:)`` gave.
    func passed(_ position: JournalPosition, by name: String) {
        self.state.withLock { state in
            if state.barrier?.position == position { state.passed.insert(name) }
        }
    }
}
