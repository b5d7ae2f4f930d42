import NIOCore
import Testing
import WaybillProjection
import WaybillSystem

@testable import WaybillReceiver

struct ConnectionTableTests {
    @Test func `for one silent connection too many of an address, its oldest ends`() {
        var table = ConnectionTable<Int>(countMax: 100, silentPerAddressMax: 2)
        #expect(table.arrived(1, from: "a") == .admitted)
        #expect(table.arrived(2, from: "b") == .admitted)
        #expect(table.arrived(3, from: "a") == .admitted)
        #expect(table.arrived(4, from: "a") == .admittedInsteadOf(1, .address))
        table.identified(3)
        #expect(table.arrived(5, from: "a") == .admitted)
        #expect(table.arrived(6, from: "a") == .admittedInsteadOf(4, .address))
        #expect(table.count == 4)
    }

    @Test func `silent connections of many addresses are bounded together`() {
        var table = ConnectionTable<Int>(countMax: 8, silentPerAddressMax: 10)
        #expect(table.arrived(1, from: "a") == .admitted)
        #expect(table.arrived(2, from: "b") == .admitted)
        #expect(table.arrived(3, from: "c") == .admittedInsteadOf(1, .silent))
    }

    @Test func `when all places are taken, agents that never delivered end first, and known ones stay`() {
        var table = ConnectionTable<Int>(countMax: 4, silentPerAddressMax: 10)
        for key in 1...4 {
            #expect(table.arrived(key, from: "a") == .admitted)
            table.identified(key)
        }
        table.known(1)
        #expect(table.arrived(5, from: "a") == .admittedInsteadOf(2, .connections))
        for key in [3, 4, 5] {
            table.identified(key)
            table.known(key)
        }
        #expect(table.arrived(6, from: "b") == .refused)
        table.left(1)
        #expect(table.arrived(7, from: "b") == .admitted)
    }

    @Test func `a flood of silent connections leaves nothing behind`() {
        var table = ConnectionTable<Int>(countMax: 1000, silentPerAddressMax: 16)
        for key in 0..<100_000 { #expect(table.arrived(key, from: "\(key % 4)") != .refused) }
        #expect(table.count == 64)
        for key in 0..<100_000 { table.left(key) }
        #expect(table.count == 0)
        #expect(table.arrived(1, from: "0") == .admitted)
    }

    @Test(arguments: [
        ("192.0.2.7", "192.0.2.7"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2"), ("2001:db8::7", "2001:db8:0:0"),
        ("::1", "0:0:0:0"),
    ]) func `an address is an IPv4 address or an IPv6 network`(_ text: String, _ expected: String) throws {
        #expect(try SocketAddress(ipAddress: text, port: 1).accountAddress == expected)
    }
}

struct StreamQuotaTests {
    private static let account = Account(principal: "", device: "a")
    private static let now = WallTime(milliseconds: 1_795_165_200_000)

    @Test func `an agent begins so many streams a day, and sealed ones do not count`() {
        var quota = StreamQuota(countMax: 2)
        for _ in 0..<2 {
            #expect(quota.mayBegin(Self.account, Self.now) == true)
            quota.begun(by: Self.account)
        }
        #expect(quota.mayBegin(Self.account, Self.now) == false)
        #expect(quota.mayBegin(Account(principal: "", device: "b"), Self.now) == true)
        quota.ended(by: Self.account)
        #expect(quota.mayBegin(Self.account, Self.now) == true)
        quota.begun(by: Self.account)
        let tomorrow = WallTime(milliseconds: Self.now.milliseconds + 86_400_000)
        #expect(quota.mayBegin(Self.account, tomorrow) == true)
    }
}

struct LogLimiterTests {
    private static func time(_ milliseconds: Int64) -> MonotonicTime {
        MonotonicTime(nanoseconds: milliseconds * 1_000_000)
    }

    @Test func `a cause of an address is logged once a second, with the count of the others`() {
        var limiter = LogLimiter<String>()
        var logged = 0
        for index in 0..<10_000 where limiter.take("refused", "a", Self.time(Int64(index))) != nil { logged += 1 }
        // Five at once, then one a second for ten seconds.
        #expect((14...15).contains(logged))
        #expect(limiter.take("refused", "b", Self.time(10_000)) == 0)
        #expect(limiter.take("closed", "a", Self.time(10_000)) == 0)
        #expect(limiter.take("refused", "a", Self.time(20_000)) ?? 0 > 900)
        #expect(limiter.takeSuppressed() == [:])
    }

    @Test func `many addresses share one count, and nothing grows`() {
        var limiter = LogLimiter<String>()
        var logged = 0
        for index in 0..<100_000 where limiter.take("refused", "\(index)", Self.time(0)) != nil { logged += 1 }
        #expect(logged == 1024 + 5)
        #expect(limiter.takeSuppressed() == ["refused": 100_000 - logged])
    }
}
