import ArgumentParser
import Waybill
import WaybillSystem

/// An app as the demo plays it: typed events through the client library, each written down in a ledger once `track()`
/// has returned.
struct DemoAppCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "demo-app", shouldDisplay: false)

    @Option var spool: String
    @Option var ledger: String
    @Option var app: Int
    @Option var events: Int

    func run() throws {
        let files = POSIXFileSystem()
        let ledger = try files.open(self.ledger, .append)
        let waybill = try Waybill(
            Waybill.Configuration(
                spool: self.spool, environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118",
                providers: [.all(.mixpanel), .all(.csv), .only(.ga4, ShopScreen.self, ProductTapped.self)]))
        waybill.setVendorID("0a1b2c3d4e5f60718293a4b5c6d7e8f9", for: .ga4)
        waybill.setUser("u-\(self.app)", traits: ["tier": "PREMIUM"])
        var generator = SeededGenerator(seed: UInt64(self.app))
        for number in 0..<self.events {
            let outcome =
                Int.random(in: 0..<5, using: &generator) == 0
                ? waybill.track(ShopScreen(app: self.app, number: number))
                : waybill.track(ProductTapped(app: self.app, number: number, price: 39_900))
            if case .stored = outcome { try files.writeAll(ledger, Array("\(self.app) \(number)\n".utf8)) }
            // An app does not write as fast as it can; the demo wants time to kill something.
            if number % 200 == 199 { MonitorPause.milliseconds(10) }
        }
        try waybill.flush()
    }
}

private struct ShopScreen: ScreenEvent {
    let app: Int
    let number: Int

    var screen: ScreenRef? { ScreenRef("ShoppingList", type: "ShoppingListView", id: "shopping_list") }

    func encode(into fields: inout Fields) {
        fields.put("app", self.app)
        fields.put("number", self.number)
    }
}

private struct ProductTapped: ActionEvent {
    let app: Int
    let number: Int
    let price: Int

    var name: String { "Product Tapped" }

    func encode(into fields: inout Fields) {
        fields.put("app", self.app)
        fields.put("number", self.number)
        fields.put("productName", "토스터, 2구")
        fields.put("productPrice", self.price)
    }
}

/// Pauses of this thread.
enum MonitorPause {
    static func milliseconds(_ count: Int) {
        let clock = POSIXClock()
        _ = Monitor(()).wait(until: clock.monotonicTime() + .milliseconds(count)) { _ in Bool?.none }
    }
}
