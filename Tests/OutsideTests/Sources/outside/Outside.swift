import Synchronization
import Waybill
import WaybillSystemLog
import WaybillUI

/// An app's observer.
final class Seen: EventObserver {
    private let texts = Mutex<[String]>([])

    var all: [String] { self.texts.withLock { $0 } }

    func eventStored(_ event: EventView) {
        let fields = event.fields.map { "\($0.name)=\($0.json)" }
        let delivery: EventView.Delivery? = event.delivery(to: .ga4)
        let text = "\(event.sequence) \(event.kind) \(event.name) \(fields) \(delivery?.name ?? "-")"
        self.texts.withLock { $0.append(text) }
    }
}

/// What an app of another package does: all of the client's public API, once each.
@main
struct Outside {
    static func main() throws {
        guard CommandLine.arguments.count == 2 else { throw WrongCounts() }
        let app = try App(spool: CommandLine.arguments[1])
        app.track()
        try app.keep()
        app.token.drain()
        let counters = app.waybill.counters
        print("outside: \(counters.stored) stored, \(counters.droppedCount) dropped, \(app.seen.all.count) seen")
        guard counters.stored == UInt64(app.seen.all.count), counters.dropped(.filtered) == 1 else {
            throw WrongCounts()
        }
    }
}

struct WrongCounts: Error {}

struct App {
    let waybill: WaybillClient
    let seen = Seen()
    let token: ObserverToken

    init(spool: String) throws(WaybillError) {
        var configuration = WaybillClient.Configuration(
            spoolsIn: spool, environment: .dev, bundle: "com.example.outside", version: "1.0", build: "1",
            providers: [.only(.ga4, ItemTapped.self, ShopScreen.self), .all(.mixpanel), .all(.warehouse)],
            observers: [.all(SystemLogObserver(privacy: .namesOnly))])
        configuration.device = WaybillClient.Device(os: "Linux", osVersion: "1", model: "m")
        configuration.language = "ko-KR"
        configuration.lifecycle = .unrecorded
        configuration.durability = .power(every: .seconds(5))
        configuration.quota = WaybillClient.Quota(byteCountMax: 8 << 20, ageMax: .seconds(86_400), freeByteCountMin: 0)
        configuration.sampling = [.events(1, ListScrolled.self), .users(1)]
        configuration.filters = [
            .removing("secret"), .hashing("phone"),
            EventFilter { draft in
                if draft.name == "debug", draft.kind == .event, draft.fieldNames.isEmpty { draft.drop() }
                if draft.isOf(ListScrolled.self), draft.json(of: "depth") != nil { draft.remove("depth") }
            },
        ]
        self.waybill = try WaybillClient(configuration)
        self.token = self.waybill.observe(.all(self.seen))
    }

    func track() {
        self.waybill.setConsent(analytics: true, ads: false)
        self.waybill.setUser("u-1", traits: ["tier": "PREMIUM", "age": 34, "trial": nil, "phone": .hashed("+82")])
        self.waybill.setVendorID("0a1b2c3d4e5f60718293a4b5c6d7e8f9", for: .ga4)
        let isRegistered = self.waybill.register { $0.put("experiment", "b") }
        precondition(isRegistered)
        let item = Item(id: "p-1", price: 39_900)
        let outcome = self.waybill.track(ItemTapped(item: item, coupon: nil, email: "a@example.com")) { fields in
            fields.put("color", Color.red)
            fields.put("secret", "s")
        }
        switch outcome {
        case .stored(let sequence): precondition(sequence > 0)
        case .held: print("held")
        case .dropped(let reason): print("dropped: \(reason.description)")
        }
        self.waybill.track(ShopScreen())
        self.waybill.screen("Search", type: "SearchView", id: "s-2") { $0.put("from", "home") }
        self.waybill.track(ListScrolled()) { $0.put("depth", 3) }
        self.waybill.track("search", .action) { $0.put("term", "toaster") }
        self.waybill.track("debug")
        var visitor = Visitor(user: "u-2", anonymous: "cookie-1")
        visitor.vendorIDs = [.ga4: "0a1b2c3d4e5f60718293a4b5c6d7e8f9"]
        self.waybill.track(ListScrolled(), by: visitor)
        self.waybill.setTraits(["tier": "FREE"], of: visitor)
    }

    func keep() throws(WaybillError) {
        self.waybill.enter(.background)
        self.waybill.enter(.foreground)
        try self.waybill.synchronize()
        let usage = try self.waybill.usage()
        precondition(usage.unacknowledgedCount > 0 && usage.byteCount > 0 && usage.segmentCount > 0)
        precondition(self.waybill.installOrigin == .created)
        precondition(self.waybill.counters.repairs == FieldRepairs())
        self.token.drain()
        try self.waybill.reset()
        try self.waybill.purge()
        precondition(self.waybill.counters.evicted > 0)
    }
}
