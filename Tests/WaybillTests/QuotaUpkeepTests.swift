import Testing
import WaybillEvent
import WaybillSystem

@testable import Waybill
@testable import WaybillSpool

private func at(_ duration: Duration) -> MonotonicTime {
    MonotonicTime(nanoseconds: 0) + duration
}

private func upkeep(ageMax: Duration = .seconds(86_400)) -> QuotaUpkeep {
    let quota = SpoolQuota(byteCountMax: 1000, ageMax: ageMax, freeByteCountMin: 0)
    return QuotaUpkeep(quota, segmentByteCountMax: 300, at: at(.zero))
}

@Test func `a check is due when the segments may exceed the quota, and counts them`() {
    let upkeep = upkeep()
    let before = [2, 1, 1].map { upkeep.isDue(afterSegments: $0, at: at(.zero)) }
    #expect(before == [false, false, true])
    let result = upkeep.check(at: at(.zero)) { Upkeep(byteCount: $0.byteCountMax - 600) }
    #expect(result?.byteCount == 400)
    let after = [1, 1, 1].map { upkeep.isDue(afterSegments: $0, at: at(.zero)) }
    #expect(after == [false, false, true])
}

@Test(arguments: [(.seconds(86_400), .seconds(3600)), (.seconds(60), .seconds(60))] as [(Duration, Duration)])
func `a check is due an hour after the last, or when segments have become too old`(
    ageMax: Duration, interval: Duration
) {
    let upkeep = upkeep(ageMax: ageMax)
    let due = [interval, interval + .nanoseconds(1)].map { upkeep.isDue(afterSegments: 0, at: at($0)) }
    #expect(due == [false, true])
    _ = upkeep.check(at: at(interval)) { _ in Upkeep() }
    let isDueAgain = upkeep.isDue(afterSegments: 0, at: at(interval * 2))
    #expect(!isDueAgain)
}

@Test func `while segments are deleted no check begins, and the next one waits its interval`() {
    let upkeep = upkeep()
    let meanwhile = upkeep.exclusively { upkeep.check(at: at(.seconds(3600))) { _ in Upkeep(byteCount: 1) } }
    #expect(meanwhile?.byteCount == nil)
    let isDueAgain = upkeep.isDue(afterSegments: 0, at: at(.seconds(7200)))
    #expect(!isDueAgain)
    let later = upkeep.check(at: at(.seconds(7200))) { _ in Upkeep(byteCount: 1) }
    #expect(later?.byteCount == 1)
}

@Test func `a place gets the salt when it is first used, and again after a reset`() {
    let salts = (UInt64(0)..<2).map { seed -> PrivacySalt in
        var generator = SeededGenerator(seed: seed)
        return PrivacySalt(&generator)
    }
    let current = CurrentSalt(salts[0]) { salts[1] }
    var place = DraftPool.Place()
    current.refresh(&place)
    #expect(place.salt == salts[0] && current.value == salts[0])
    // Not asked for again: the lock is not taken for each event.
    place.salt = nil
    current.refresh(&place)
    #expect(place.salt == nil)
    let renewed = current.renew()
    #expect(renewed == salts[1])
    current.refresh(&place)
    #expect(place.salt == salts[1] && current.value == salts[1])
}
