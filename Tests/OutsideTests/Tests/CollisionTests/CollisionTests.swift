/// Every framework that an app's file may import next to Waybill, and types of the app's own with Waybill's names.
///
/// A public type that hid one of the modules, or a name in a macro's expansion, would not let this file compile.
import Foundation
import Logging
import Observation
import Synchronization
import Testing
import Waybill
import WaybillTesting

struct Event: Hashable {
    let title: String
}

struct Usage: Error {}

struct Subscription {
    let event: Event
}

struct Counters {
    var shown = 0
}

/// The model of a view, as an app writes it.
@Observable
final class EventList {
    private(set) var events: [Event] = []
    private(set) var counters = Counters()
    @ObservationIgnored private let waybill: WaybillClient
    @ObservationIgnored private let logger = Logger(label: "com.example.outside")

    init(waybill: WaybillClient) {
        self.waybill = waybill
    }

    func show(_ subscription: Subscription) {
        self.events.append(subscription.event)
        self.counters.shown += 1
        self.waybill.track(EventShown(title: subscription.event.title))
        self.logger.debug("shown")
    }

    func tracked() throws -> (Counters, WaybillClient.Counters, Waybill.SpoolUsage) {
        (self.counters, self.waybill.counters, try self.waybill.usage())
    }

    static var providers: [Waybill.ProviderSubscription] { [.only(.ga4, EventShown.self)] }
}

/// Waybill's protocol, by its module's name.
struct EventShown: Waybill.Event {
    let title: String

    var name: String { "event_show" }

    func encode(into fields: inout Waybill.Fields) {
        fields.put("title", self.title)
        fields.put("shown_ms", Int(Date().timeIntervalSince1970 * 1000))
    }
}

@Test func `an app's types keep their names beside Waybill's, and a tracking model is observable`() throws {
    let recorder = try Recorder { configuration in configuration.providers = EventList.providers }
    let list = EventList(waybill: recorder.waybill)
    let isChanged = Mutex(false)
    withObservationTracking {
        _ = list.events
    } onChange: {
        isChanged.withLock { $0 = true }
    }
    list.show(Subscription(event: Event(title: "first")))
    #expect(isChanged.withLock { $0 })
    let (own, client, usage) = try list.tracked()
    #expect(own.shown == 1)
    #expect(client.stored == 1)
    #expect(usage.unacknowledgedCount == 1)
    let event = try #require(recorder.events.last)
    #expect(event.name == "event_show")
}
