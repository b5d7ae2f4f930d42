import Testing
import WaybillProtocol
import WaybillSystem

@testable import WaybillTail

private func identity(
    _ incarnation: UInt64, starts: [(UInt64, UInt64)] = [(1, 0)], end: UInt64 = 100
) throws -> ReceiverIdentity {
    try #require(
        ReceiverIdentity(
            name: "r", incarnation: Incarnation(incarnation, 0),
            starts: starts.map { ReceiverStart(id: $0.0, position: $0.1) }, end: end))
}

struct KnownReceiversTests {
    @Test func `a receiver is known by its address and its incarnation`() throws {
        var receivers = KnownReceivers()
        #expect(receivers.meet(try identity(1), at: "a:1") == .unknown)
        #expect(receivers.meet(try identity(1), at: "a:1") == .known)
        #expect(receivers.meet(try identity(2), at: "a:1") == .unknown)
        #expect(receivers.meet(try identity(1), at: "b:1") == .unknown)
        #expect(receivers.meet(try identity(1), at: "a:1") == .known)
        #expect(receivers.entries.map(\.ordinal) == [1, 2, 3])
        #expect(receivers.current == 1)
    }

    @Test(
        arguments: [
            // The start that is remembered is 2, at 50; the end that is remembered is 100.
            ([(1, 0), (2, 50)], 100, true), ([(1, 0), (2, 50)], 99, false),
            ([(1, 0), (2, 50), (3, 100)], 100, true), ([(1, 0), (2, 50), (3, 99)], 1000, false),
            // A later start beyond the end does not make up for one below it.
            ([(1, 0), (2, 50), (3, 99), (4, 200)], 1000, false), ([(1, 0), (2, 50), (3, 120), (4, 200)], 1000, true),
            // The remembered start is missing.
            ([(1, 0), (3, 200)], 1000, false), ([(9, 0)], 0, false),
        ] as [([(UInt64, UInt64)], UInt64, Bool)])
    func `every later start and the end are compared`(
        starts: [(UInt64, UInt64)], end: UInt64, isKnown: Bool
    ) throws {
        var receivers = KnownReceivers()
        #expect(receivers.meet(try identity(1, starts: [(1, 0), (2, 50)], end: 60), at: "a:1") == .unknown)
        receivers.answered(end: 100)
        #expect(receivers.meet(try identity(1, starts: starts, end: end), at: "a:1") == (isKnown ? .known : .older))
        #expect(receivers.current == (isKnown ? 1 : 2))
    }

    @Test func `the ninth receiver takes the place of the one least recently met, and no ordinal comes twice`() throws {
        var receivers = KnownReceivers()
        for number in 1...8 { #expect(receivers.meet(try identity(UInt64(number)), at: "a:1") == .unknown) }
        #expect(receivers.meet(try identity(1), at: "a:1") == .known)
        #expect(receivers.meet(try identity(9), at: "a:1") == .unknown)
        #expect(receivers.entries.map(\.ordinal) == [1, 3, 4, 5, 6, 7, 8, 9])
        #expect(receivers.meet(try identity(2), at: "a:1") == .unknown)
        #expect(receivers.entries.map(\.ordinal) == [1, 4, 5, 6, 7, 8, 9, 10])
        var restored = KnownReceivers()
        restored.restore(receivers.entries, usedOrdinals: [12])
        #expect(restored.current == 10)
        #expect(restored.meet(try identity(11), at: "a:1") == .unknown)
        #expect(restored.current == 13)
    }

    @Test func `an end belongs to the start that it came with`() throws {
        var receivers = KnownReceivers()
        _ = receivers.meet(try identity(1, starts: [(1, 0)], end: 10), at: "a:1")
        receivers.answered(end: 100)
        receivers.answered(end: 90)
        #expect(receivers[1]?.end == 100)
        // The second start had nothing of what came after 100.
        _ = receivers.meet(try identity(1, starts: [(1, 0), (2, 100)], end: 100), at: "a:1")
        #expect(receivers[1]?.start == 1)
        receivers.answered(end: 101)
        #expect(receivers[1].map { [$0.start, $0.end] } == [2, 101])
    }

    @Test func `what the registry says of a receiver reads back, and nothing else does`() throws {
        var receivers = KnownReceivers()
        _ = receivers.meet(try identity(0xA0), at: "collect.example.com:4390")
        let entry = try #require(receivers[1])
        #expect(KnownReceivers.Entry(entry.text, key: "@1") == entry)
        receivers.settle(ofFleet: true)
        let settled = try #require(receivers[1])
        #expect(settled.text == entry.text + " fleet=1")
        #expect(KnownReceivers.Entry(settled.text, key: "@1") == settled)
        let text = entry.text
        for bad in [
            "", text.replacing("v=1", with: "v=2"), text.replacing(" end=100", with: ""),
            text.replacing("end=100", with: "end=-1"), text.replacing("met=1", with: "met=x"),
            text.replacing("incarnation=", with: "incarnation=0"), text + " end=100",
        ] { #expect(KnownReceivers.Entry(bad, key: "@1") == nil, "\(bad)") }
        #expect(KnownReceivers.Entry(text, key: "@x") == nil)
    }
}
