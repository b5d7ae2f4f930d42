import Foundation
import SwiftUI
import Testing
import UIKit
import WaybillTesting
import WaybillUI

@testable import Screens

/// What views in a window track, with the order of calls that SwiftUI and UIKit really make.
@MainActor
@Suite struct ScreensTests {
    private let recorder: Recorder
    private let tracker: ScreenTracker
    private let window = UIWindow(frame: CGRect(x: 0, y: 0, width: 320, height: 480))
    private let photo = ScreenViewed(ScreenRef("Photo", id: "p-17"))
    private let search = ScreenViewed(ScreenRef("Search"))

    init() throws {
        self.recorder = try Recorder()
        self.tracker = ScreenTracker(self.recorder.waybill)
    }

    private func show(_ controller: UIViewController) {
        self.window.rootViewController = controller
        self.window.isHidden = false
    }

    /// Waits up to 5 s until the event was tracked `count` times, and no more often.
    private func expect(_ event: some Event, times count: Int) async throws {
        for _ in 0..<500 {
            if (try? self.recorder.expectTracked(event, times: count)) != nil { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        try self.recorder.expectTracked(event, times: count)
    }

    @Test func `a view in a window is one view of its screen, and appears once`() async throws {
        self.show(UIHostingController(rootView: PhotoView(id: "p-17").waybill(self.tracker)))
        try await self.expect(self.photo, times: 1)
        try await self.expect(PhotoShown(photoID: "p-17"), times: 1)
    }

    @Test func `a controller in a window is one view of its screen`() async throws {
        let controller = SearchController()
        controller.tracker = self.tracker
        self.show(controller)
        try await self.expect(self.search, times: 1)
    }

    @Test func `a screen is viewed again after another one`() async throws {
        let photos = UIHostingController(rootView: PhotoView(id: "p-17").waybill(self.tracker))
        let search = SearchController()
        search.tracker = self.tracker
        self.show(photos)
        try await self.expect(self.photo, times: 1)
        self.show(search)
        try await self.expect(self.search, times: 1)
        self.show(photos)
        try await self.expect(self.photo, times: 2)
    }
}
