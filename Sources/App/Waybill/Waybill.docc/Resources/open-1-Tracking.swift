import Foundation
import Waybill

struct Tracking {
    let waybill: WaybillClient

    init() throws {
        let support = try FileManager.default.url(
            for: .applicationSupportDirectory, in: .userDomainMask, appropriateFor: nil, create: true)
        let configuration = WaybillClient.Configuration(
            spoolsIn: support.appending(path: "waybill").path(percentEncoded: false), environment: .prod,
            bundle: "com.example.photos", version: "1.4.2", build: "118")
        self.waybill = try WaybillClient(configuration)
    }
}
