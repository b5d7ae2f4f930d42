import Testing
import WaybillEvent
import WaybillSystem

@testable import Waybill

private let session = UniqueID(high: 1, low: 1)
private let record = SessionRecord(anonymous: "a", id: session, number: 7, last: WallTime(milliseconds: 0))

private func set(_ id: String?, by provider: String, of user: inout UserIdentity) -> Bool {
    user.setVendorID(id, for: ProviderID(provider))
}

@Test func `a user is in events if consent allows it`() {
    var user = UserIdentity(record)
    user.setUser("u")
    #expect(set("v", by: "ga4", of: &user))
    let ids = user.ids(isAllowed: true)
    #expect(ids == user.ids && ids.user == "u" && ids.vendor.map(\.id) == ["v"])
    let anonymous = EventIdentity(session: session, sessionNumber: 7, user: nil, anonymous: "a")
    #expect(user.ids(isAllowed: false) == anonymous)
    user.forgetUser()
    #expect(user.ids(isAllowed: true) == anonymous)
}

@Test func `a user is sampled by the user id, and before sign-in by the anonymous id`() {
    var user = UserIdentity(record)
    #expect(user.hash == Sampling.hash("a"))
    user.setUser("u")
    #expect(user.hash == Sampling.hash("u"))
    user.forgetUser()
    #expect(user.hash == Sampling.hash("a"))
}

@Test func `ids of vendors are replaced and removed one by one, and have a limit`() {
    var user = UserIdentity(record)
    #expect(set("1", by: "ga4", of: &user) && set("2", by: "amplitude", of: &user))
    #expect(set("3", by: "ga4", of: &user))
    #expect(user.ids.vendor.map(\.id) == ["2", "3"])
    let long = String(repeating: "x", count: EventLimits.vendorIDsByteCountMax)
    #expect(!set(long, by: "ga4", of: &user))
    #expect(user.ids.vendor.map(\.id) == ["2", "3"])
    #expect(set(nil, by: "amplitude", of: &user))
    #expect(user.ids.vendor.map(\.id) == ["3"])
}

@Test func `a reset makes another user with a session of its own`() {
    var user = UserIdentity(record)
    user.setUser("u")
    #expect(set("1", by: "ga4", of: &user))
    let (anonymous, next) = (UniqueID(high: 2, low: 2), UniqueID(high: 3, low: 3))
    user.reset(anonymous: anonymous, session: next)
    #expect(user.ids == EventIdentity(session: next, sessionNumber: 8, user: nil, anonymous: anonymous.text))
    #expect(user.hash == Sampling.hash(anonymous.text))
}

@Test func `a session is saved when it or its last event changed`() {
    var user = UserIdentity(record)
    #expect(user.sessionToSave(until: record.last) == nil)
    let later = WallTime(milliseconds: 1)
    #expect(user.sessionToSave(until: later)?.last == later)
    #expect(user.sessionToSave(until: later) == nil)
    let next = UniqueID(high: 4, low: 4)
    user.beginSession(next)
    #expect(user.sessionToSave(until: later) == SessionRecord(anonymous: "a", id: next, number: 8, last: later))
}

@Test func `ids of events increase while others are drawn, and follow from the seed`() {
    let draw = { () -> [UniqueID] in
        var ids = WriterIDs(SeededGenerator(seed: 1))
        return (Int64(0)..<20).flatMap { step in
            // The clock goes back.
            let now = Moment(wall: WallTime(milliseconds: 1000 - step), monotonic: MonotonicTime(nanoseconds: step))
            return [ids.next(at: now), ids.timed(at: now), ids.anonymous()]
        }
    }
    let drawn = draw()
    #expect(drawn == draw() && Set(drawn).count == 60)
    let events = stride(from: 0, to: 60, by: 3).map { drawn[$0].text }
    #expect(events == events.sorted())
}
