import Testing
import WaybillProtocol

@Suite struct ReceiverIdentityTests {
    @Test func `a receiver that went on holds what it held`() {
        let receiver = Sample.identity([(1, 0), (2, 500), (3, 900)], end: 1000)
        #expect(receiver.holds(start: 3, end: 1000) == true)
        #expect(receiver.holds(start: 3, end: 900) == true)
        #expect(receiver.holds(start: 2, end: 900) == true, "the next start went on where the journal ended")
        #expect(receiver.holds(start: 1, end: 500) == true)
    }

    @Test func `a receiver whose journal ends earlier does not`() {
        let receiver = Sample.identity([(1, 0), (2, 500), (3, 900)], end: 1000)
        #expect(receiver.holds(start: 3, end: 1001) == false)
    }

    @Test func `a start that is not there is of a time that was undone, or long ago`() {
        let receiver = Sample.identity([(1, 0), (2, 500), (3, 900)], end: 1000)
        #expect(receiver.holds(start: 4, end: 0) == false)
    }

    @Test func `a journal that was put back and grew past the old end shows it at the start that followed`() {
        // The agent knew start 2 up to 800; a copy of 700 was put back, and others made it grow to 5000.
        let grown = Sample.identity([(1, 0), (2, 500), (3, 700)], end: 5000)
        #expect(grown.holds(start: 2, end: 800) == false)
        #expect(grown.holds(start: 2, end: 700) == true)
        // Also when a later start was at a greater position again.
        let again = Sample.identity([(1, 0), (2, 500), (3, 700), (4, 4000)], end: 5000)
        #expect(again.holds(start: 2, end: 800) == false)
    }

    @Test func `the id is name and incarnation, and changes with the data directory`() {
        #expect(Sample.receiver.id == "collector-1~00000000000000010000000000000002")
        #expect(Incarnation("00000000000000010000000000000002".utf8) == Incarnation(1, 2))
    }

    @Test func `positions never go backwards, and a receiver has started at least once`() {
        func identity(_ starts: [UInt64], end: UInt64) -> ReceiverIdentity? {
            ReceiverIdentity(
                name: "a", incarnation: Incarnation(1, 2), starts: starts.map { ReceiverStart(id: $0, position: $0) },
                end: end)
        }
        #expect(identity([], end: 0) == nil)
        #expect(identity([0], end: 0) != nil)
        #expect(identity([5, 5], end: 5) != nil)
        #expect(identity([5, 4], end: 9) == nil)
        #expect(identity([5], end: 4) == nil)
    }

    @Test func `the last sixteen starts are kept, the present one last`() {
        let receiver = Sample.identity((1...20).map { (UInt64($0), UInt64($0)) }, end: 30)
        #expect(receiver.starts.map(\.id) == Array(5...20))
        #expect(receiver.start == 20)
        #expect(receiver.holds(start: 4, end: 0) == false)
        #expect(receiver.holds(start: 5, end: 6) == true)
    }
}
