import Testing
import WaybillHost
import WaybillIngest
import WaybillSystem

@testable import WaybillDoor

/// How much of the time for reading bodies an address has.
@Suite struct ReadingSharesTests {
    private static let (greedy, other) = (AddressGroup("10.0.0.1"), AddressGroup("10.0.0.2"))

    private static func time(_ milliseconds: Int64) -> MonotonicTime {
        MonotonicTime(nanoseconds: milliseconds * 1_000_000)
    }

    /// The time that bodies of ten milliseconds each get in ten seconds, if one comes each five milliseconds.
    private static func spent(by sender: ReadingShares.Sender) -> Duration {
        var shares = ReadingShares()
        var spent = Duration.zero
        for now in stride(from: Int64(0), to: 10_000, by: 5) where shares.hasTime(Self.greedy, at: Self.time(now)) {
            shares.spend(.milliseconds(10), sender, Self.greedy, at: Self.time(now))
            spent += .milliseconds(10)
        }
        return spent
    }

    @Test func `bodies of no known key have fifty milliseconds a second, those of known ones a thread`() {
        #expect((Duration.milliseconds(500)...(.milliseconds(550))).contains(Self.spent(by: .stranger)))
        #expect((Duration.seconds(10)...(.milliseconds(10_600))).contains(Self.spent(by: .keyHolder)))
    }

    @Test func `an address that has taken its time takes none of another's, and waits a second at most`() {
        var shares = ReadingShares()
        shares.spend(.seconds(60), .stranger, Self.greedy, at: Self.time(0))
        #expect(!shares.hasTime(Self.greedy, at: Self.time(999)))
        #expect(shares.hasTime(Self.other, at: Self.time(0)))
        #expect(shares.hasTime(Self.greedy, at: Self.time(1001)))
    }

    @Test func `addresses that have all their time again are forgotten`() {
        var shares = ReadingShares()
        for number in 0..<10_000 {
            let address = AddressGroup("10.1.\(number / 250).\(number % 250)")
            shares.spend(.microseconds(100), .keyHolder, address, at: Self.time(Int64(number)))
        }
        #expect(shares.count <= 1025)
    }

    @Test func `connections are clipped to the files that the process may open, and each address has its part`() {
        var configuration = DoorConfiguration(
            listen: NetworkAddress(host: "127.0.0.1", port: 1), spool: "/s", quarantine: "/q")
        let own = configuration.ownFileCount
        #expect(
            configuration.places(fileCountMax: 65_536) == ConnectionLimits(countMax: 20_000, groupCountMax: 5_000))
        #expect(
            configuration.places(fileCountMax: own + 1000) == ConnectionLimits(countMax: 1000, groupCountMax: 250))
        #expect(configuration.places(fileCountMax: 100) == ConnectionLimits(countMax: 25, groupCountMax: 7))
        // A small part is not rounded away.
        configuration.limits.shareConnectionCountMax = 3
        #expect(
            configuration.places(fileCountMax: 20_000) == ConnectionLimits(countMax: 20_000 - own, groupCountMax: 3))
        configuration.limits.connectionCountMax = 3
        configuration.limits.shareConnectionCountMax = 1
        #expect(configuration.places(fileCountMax: 1024) == ConnectionLimits(countMax: 3, groupCountMax: 1))
    }

    @Test func `a body of 64 KiB must arrive at its pace, and a share must have room for one`() {
        var limits = DoorLimits()
        limits.bodyByteRateMin = 8 << 10
        let interval = Duration.seconds(5)
        let arrived = [(63 << 10, 62 << 10), (64 << 10, 0), (104 << 10, 64 << 10), (104 << 10, 65 << 10)]
        #expect(arrived.map { limits.isSlow($0.0, before: $0.1, interval) } == [false, false, false, true])
        limits.bodyByteRateMin = 0
        #expect(!limits.isSlow(64 << 10, before: 64 << 10, interval))
        #expect(limits.hasRoomForBody)
        limits.shareByteCountMax = limits.bodyByteCountMax - 1
        #expect(!limits.hasRoomForBody)
    }
}
