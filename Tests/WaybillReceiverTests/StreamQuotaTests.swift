import NIOCore
import Testing
import WaybillProjection
import WaybillSystem

@testable import WaybillReceiver

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

struct AccountAddressTests {
    @Test(arguments: [
        ("192.0.2.7", "192.0.2.7"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2"), ("2001:db8::7", "2001:db8:0:0"),
        ("::1", "0:0:0:0"),
    ]) func `an address is an IPv4 address or an IPv6 network`(_ text: String, _ expected: String) throws {
        #expect(try SocketAddress(ipAddress: text, port: 1).accountAddress == expected)
    }
}
