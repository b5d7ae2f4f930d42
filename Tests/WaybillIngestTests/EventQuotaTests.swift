import Testing
import WaybillEvent
import WaybillIngest
import WaybillSystem

@testable import WaybillDoor

/// How many events of a key and of an address are taken: who pays, and how long the others wait.
@Suite struct EventQuotaTests {
    private static let start = MonotonicTime(nanoseconds: 1_000_000_000)
    private static let usual = EventQuota.Rates(key: 5_000, address: 1_000)
    private static let greedy = AddressGroup("10.0.0.1")
    private static let honest = AddressGroup("10.0.0.2")

    private static func quota(_ rates: EventQuota.Rates = Self.usual) -> EventQuota {
        EventQuota(rates, now: Self.start)
    }

    @Test func `an address may send twenty seconds' worth at once, and then its rate`() {
        var quota = Self.quota()
        for _ in 0..<100 {
            let refusal = quota.take(200, faultCount: 0, from: Self.greedy, at: Self.start)
            #expect(refusal == nil)
        }
        var taken = 0
        for millisecond in 1...60_000 {
            let now = Self.start + .milliseconds(millisecond)
            if quota.take(200, faultCount: 0, from: Self.greedy, at: now) == nil { taken += 200 }
        }
        #expect(abs(taken - 60_000) <= 200)
    }

    @Test(arguments: [(1, 500), (24, 500), (25, 500), (26, 520), (1_000, 20_000), (10_000, 200_000)])
    func `a request above the burst is refused at once, with what fits`(rate: Int, countMax: Int) {
        var quota = Self.quota(.init(key: 10_000_000, address: rate))
        let tooMany = quota.take(countMax + 1, faultCount: 0, from: Self.greedy, at: Self.start)
        #expect(tooMany == .tooMany(countMax: countMax))
        let fits = quota.take(countMax, faultCount: 0, from: Self.greedy, at: Self.start)
        #expect(fits == nil, "and it has cost nothing")
    }

    @Test func `an address pays its whole debt, and another one waits for a second at most`() {
        var quota = Self.quota(.init(key: 1_000, address: 1_000))
        #expect(quota.take(19_999, faultCount: 0, from: AddressGroup("10.0.1.1"), at: Self.start) == nil)
        #expect(quota.take(20_000, faultCount: 0, from: Self.greedy, at: Self.start) == nil)
        guard case .key(let wait) = quota.take(1, faultCount: 0, from: Self.honest, at: Self.start) else {
            Issue.record("the key is in debt")
            return
        }
        #expect(wait == .milliseconds(1001))
        #expect(quota.take(1, faultCount: 0, from: Self.honest, at: Self.start + wait) == nil)
        // The key is out of debt; the address has its whole one to pay.
        let later = Self.start + .seconds(2)
        #expect(quota.take(1, faultCount: 0, from: Self.greedy, at: later) == nil)
        #expect(quota.take(20_000, faultCount: 0, from: Self.greedy, at: later) == nil)
        guard case .address(let debt) = quota.take(1, faultCount: 0, from: Self.greedy, at: later + .seconds(2)) else {
            Issue.record("the address is in debt")
            return
        }
        #expect(debt > .seconds(15))
    }

    @Test func `a request of one address's burst keeps the address waiting, and no other one`() {
        var quota = Self.quota(.init(key: 50, address: 10))
        #expect(quota.take(500, faultCount: 0, from: Self.greedy, at: Self.start) == nil)
        let soon = Self.start + .milliseconds(100)
        #expect(quota.take(500, faultCount: 0, from: Self.greedy, at: soon) == nil)
        guard case .address(let wait) = quota.take(1, faultCount: 0, from: Self.greedy, at: soon) else {
            Issue.record("the address is in debt")
            return
        }
        #expect(wait > .seconds(49) && wait <= .seconds(50))
        for second in 1...40 {
            let refusal = quota.take(1, faultCount: 0, from: Self.honest, at: soon + .seconds(second))
            #expect(refusal == nil)
        }
        #expect(quota.take(1, faultCount: 0, from: Self.greedy, at: soon + wait + .milliseconds(-2)) != nil)
        #expect(quota.take(1, faultCount: 0, from: Self.greedy, at: soon + wait) == nil)
    }

    @Test func `faults and repeats cost only who sent them`() {
        var quota = Self.quota(.init(key: 1_000, address: 1_000))
        for number in 1...50 {
            let address = AddressGroup("10.0.2.\(number)")
            let refusal = quota.take(20_000, faultCount: 19_999, from: address, at: Self.start)
            #expect(refusal == nil)
            guard case .address = quota.take(1, faultCount: 1, from: address, at: Self.start) else {
                Issue.record("\(number) has paid for its faults")
                return
            }
        }
        for number in 1...50 {
            let address = AddressGroup("10.0.3.\(number)")
            #expect(quota.take(10_000, faultCount: 0, from: address, at: Self.start) == nil)
            quota.giveBack(10_000)
        }
        #expect(quota.take(19_000, faultCount: 0, from: Self.honest, at: Self.start) == nil)
    }

    @Test func `a crowd of addresses is bounded in memory, and by the key`() {
        var quota = Self.quota()
        var taken = 0
        for number in 0..<20_000 {
            let address = AddressGroup("10.\(number / 65_536).\(number / 256 % 256).\(number % 256)")
            if quota.take(1_000, faultCount: 0, from: address, at: Self.start) == nil { taken += 1_000 }
        }
        #expect(taken == 100_000)
        for number in 0..<20_000 {
            let address = AddressGroup("10.1.\(number / 256).\(number % 256)")
            _ = quota.take(1, faultCount: 1, from: address, at: Self.start + .seconds(60))
        }
        #expect(quota.addressCount <= EventQuota.addressCountMax)
        // Those that have refilled are forgotten, and new ones are known again.
        let later = Self.start + .seconds(120)
        _ = quota.take(20_000, faultCount: 0, from: Self.greedy, at: later)
        guard case .address = quota.take(1, faultCount: 0, from: Self.greedy, at: later) else {
            Issue.record("the address is in debt")
            return
        }
        #expect(quota.addressCount == 1)
    }

    @Test func `an address has a fifth of its key's rate, unless it is given another one`() {
        let source = IngestSource(key: "wk_a0000001", bundle: "com.example.a", environment: .prod)
        #expect(DoorKey(source: source).rates == Self.usual)
        #expect(DoorKey(source: source, eventRateMax: 3).rates == .init(key: 3, address: 1))
        #expect(
            DoorKey(source: source, eventRateMax: 500, addressEventRateMax: 500).rates == .init(key: 500, address: 500))
    }
}
