import Testing
import Waybill
import WaybillTesting

@testable import Photos

@Test func `a like is an event with the photo's id`() throws {
    let recorder = try Recorder()
    recorder.waybill.track(PhotoLiked(photoID: "p-17"))
    try recorder.expectTracked("photo_like", ["photoID": "p-17"], times: 1)
}
