import Foundation
import Waybill

/// One way to store an event before the call returns.
protocol Recorder: Sendable {
    /// Stores event `index`; called by many threads at once. Ends the program when it cannot.
    func record(_ index: Int)
    /// Brings everything to the files and closes them.
    func close() throws
    /// Finds in the files what was stored.
    func count(into ledger: inout Ledger) throws
}

/// What every row says of the app, the device and the user, with the names that Waybill's lines have.
struct Envelope: Sendable {
    let writer = UUID().uuidString.lowercased()
    let session = UUID().uuidString.lowercased()
    let anonymous = UUID().uuidString.lowercased()
    let user = "u-8812345"
    let app = "1.4.2"
    let build = "118"
    let bundle = "com.example.shop"
    let device = WaybillClient.Device.current
    let environment = DeploymentEnvironment.prod
    let zoneMinutes = TimeZone.current.secondsFromGMT() / 60
    let start = ContinuousClock.now

    /// Milliseconds since the start.
    var upMilliseconds: Int {
        Int((ContinuousClock.now - self.start) / .milliseconds(1))
    }

    /// As in "2025-03-01T09:14:19.003Z".
    static func timestamp() -> String {
        Date.now.formatted(Self.timestampStyle)
    }

    private static let timestampStyle = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
}

/// What every row stores: the event of `track`, whose index tells it from the others.
struct Tapped: ActionEvent {
    static let eventName = "Product Tapped"

    let productName = "toaster, 2 slices"
    let productPrice = 39_900
    let productPosition = "left"
    let productIndex: Int

    var name: String { Self.eventName }

    func encode(into fields: inout Fields) {
        fields.put("productName", self.productName)
        fields.put("productPrice", self.productPrice)
        fields.put("productPosition", self.productPosition)
        fields.put("productIndex", self.productIndex)
    }
}
