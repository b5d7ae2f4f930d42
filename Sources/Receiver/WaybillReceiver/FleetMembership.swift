internal import NIOCore
package import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// The fleet that a receiver belongs to, and how far its journal is in the fleet's store.
///
/// The uploader advances it from its own thread; connections that wait for a position hear of it on their event loops.
/// `ACK` never waits for it: only `STORED` and `SEALED` do.
///
/// - SeeAlso: `Protocol/protocol.md`, section 20.1.
package final class FleetMembership: Sendable {
    /// Connections of one event loop that wait.
    private struct Waiting {
        let eventLoop: any EventLoop
        var connections: [ConnectionHandle] = []
    }

    /// The fleet's id: 32 lower-case hexadecimal digits.
    package let fleet: String
    private let position: Atomic<Int>
    /// The journal's end before and after this process began.
    private let beginning = Lock((before: JournalPosition(0), after: JournalPosition(0)))
    private let waiting = Lock<[ObjectIdentifier: Waiting]>([:])

    package init(fleet: String, stored: JournalPosition = JournalPosition(0)) {
        precondition(Incarnation(fleet.utf8) != nil, "a fleet's id is 32 hexadecimal digits, not \(fleet)")
        self.fleet = fleet
        self.position = Atomic(stored.rawValue)
    }

    /// Everything of the journal before this position is in the store.
    package var stored: JournalPosition { JournalPosition(self.position.load(ordering: .acquiring)) }

    /// Notes where this process began to write.
    package func begins(after before: JournalPosition, at after: JournalPosition) {
        self.beginning.withLock { $0 = (before, after) }
    }

    /// Where streams stand in the journal that this process has not changed, while it matters: until the store has more
    /// than the process before left.
    var formerEnd: JournalPosition? {
        self.beginning.withLock { $0.after > self.stored ? $0.before : nil }
    }

    /// Everything of the journal before `position` is in the store; positions never go back.
    ///
    /// Wakes each event loop that has waiting connections once.
    package func advance(to position: JournalPosition) {
        guard position > self.stored else { return }
        self.position.store(position.rawValue, ordering: .releasing)
        let waiting = self.waiting.withLock { waiting in
            defer { waiting = [:] }
            return waiting
        }
        for entry in waiting.values {
            entry.eventLoop.execute {
                for connection in entry.connections { connection.storageAdvanced() }
            }
        }
    }

    /// Tells a connection, once, that the position has advanced.
    ///
    /// Read ``stored`` again after this call: it may have advanced before.
    func tell(_ connection: ConnectionHandle, on eventLoop: any EventLoop) {
        self.waiting.withLock {
            $0[ObjectIdentifier(eventLoop), default: Waiting(eventLoop: eventLoop)].connections.append(connection)
        }
    }
}
