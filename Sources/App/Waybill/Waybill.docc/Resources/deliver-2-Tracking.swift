import FirebaseAnalytics
import Foundation
import SwiftUI
import WaybillDispatch
import WaybillUI

@MainActor
struct Tracking {
    let waybill: WaybillClient
    let screens: ScreenTracker
    let dispatcher: Dispatcher

    init() throws {
        let support = try FileManager.default.url(
            for: .applicationSupportDirectory, in: .userDomainMask, appropriateFor: nil, create: true)
        let configuration = WaybillClient.Configuration(
            spoolsIn: support.appending(path: "waybill").path(percentEncoded: false), environment: .prod,
            bundle: "com.example.photos", version: "1.4.2", build: "118")
        self.waybill = try WaybillClient(configuration)
        self.waybill.setVendorID(Analytics.appInstanceID(), for: .ga4)
        self.screens = ScreenTracker(self.waybill)
        self.dispatcher = try Dispatcher(
            .init(spool: configuration.spool, receivers: ["events.example.com:4390"]))
    }

    func entered(_ phase: ScenePhase) {
        switch phase {
        case .active:
            waybill.enter(.foreground)
            dispatcher.resume()
        case .background:
            waybill.enter(.background)
            Task { await dispatcher.drainInBackground() }
        case .inactive:
            break
        @unknown default:
            break
        }
    }
}
