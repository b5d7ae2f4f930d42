import Testing
import WaybillJournal
import WaybillProtocol

@testable import WaybillReceiver

@Suite struct StorageDebtsTests {
    private let one = StreamNumber(1)
    private let two = StreamNumber(2)

    private func debt(_ end: UInt64, _ offset: UInt64) -> StorageDebts.Debt {
        StorageDebts.Debt(end: end, offset: StreamOffset(offset))
    }

    private func told(_ debts: inout StorageDebts, at stored: UInt64) -> [String] {
        var told: [String] = []
        while let (number, debt) = debts.next(at: stored) {
            told.append("\(number.rawValue) \(debt.offset.rawValue)\(debt.seal == nil ? "" : " sealed")")
        }
        return told
    }

    @Test func `nothing is told before the store has it`() {
        var debts = StorageDebts()
        debts.owe(debt(100, 10), of: one)
        #expect(told(&debts, at: 99) == [])
        #expect(told(&debts, at: 100) == ["1 10"])
        #expect(debts.isEmpty)
    }

    @Test func `of many states of a stream two are kept`() {
        var debts = StorageDebts()
        for step in 1...1000 { debts.owe(debt(UInt64(step) * 100, UInt64(step)), of: one) }
        #expect(debts.count == 1)
        #expect(told(&debts, at: 150) == ["1 1"])
        #expect(told(&debts, at: 99_999) == [], "the newest is waited for")
        #expect(told(&debts, at: 100_000) == ["1 1000"])
        #expect(debts.isEmpty)
    }

    @Test func `the newest is told at once if the store has it`() {
        var debts = StorageDebts()
        debts.owe(debt(100, 10), of: one)
        debts.owe(debt(200, 20), of: one)
        debts.owe(debt(150, 5), of: two)
        #expect(told(&debts, at: 200) == ["1 20", "2 5"])
    }

    @Test func `a seal is told with the end, and no later state puts it off`() {
        var debts = StorageDebts()
        debts.owe(StorageDebts.Debt(end: 100, offset: StreamOffset(10), seal: .empty), of: one)
        debts.owe(debt(300, 10), of: one)
        #expect(told(&debts, at: 100) == ["1 10 sealed"])
        #expect(debts.isEmpty)
    }

    @Test func `positions of a fleet's journal never go back`() {
        let membership = FleetMembership(fleet: "7d2a40c5e9b1836f04d8fa6e21c97b53", stored: JournalPosition(7))
        membership.advance(to: JournalPosition(5))
        #expect(membership.stored == JournalPosition(7))
        membership.advance(to: JournalPosition(9))
        #expect(membership.stored == JournalPosition(9))
    }
}
