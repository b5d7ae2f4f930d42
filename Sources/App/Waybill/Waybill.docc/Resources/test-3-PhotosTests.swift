import Testing
import Waybill
import WaybillTesting

@testable import Photos

@Test func `a like is an event with the photo's id`() throws {
    let recorder = try Recorder()
    recorder.waybill.track(PhotoLiked(photoID: "p-17"))
    try recorder.expectTracked("photo_like", ["photoID": "p-17"], times: 1)
}

@Test func `GA4 gets what Firebase got`() throws {
    let recorder = try Recorder()
    recorder.waybill.track(PhotoLiked(photoID: "p-17"))
    let delivery = recorder.events.last?.delivery(to: .ga4)
    #expect(delivery?.name == "select_content")
    #expect(delivery?.fields.map(\.name) == ["content_type", "item_id"])
    #expect(delivery?.fields.map(\.text) == ["photo", "p-17"])
}

@Test func `without consent nothing is tracked`() throws {
    let recorder = try Recorder()
    try Membership(waybill: recorder.waybill).answered(analytics: false, ads: false)
    recorder.waybill.track(PhotoLiked(photoID: "p-17"))
    try recorder.expectNotTracked("photo_like")
    #expect(recorder.waybill.counters.dropped(.optedOut) == 1)
}
