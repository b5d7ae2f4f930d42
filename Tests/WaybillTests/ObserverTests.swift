import Testing
import Waybill
import WaybillEvent
import WaybillSystem
import WaybillTesting

/// Keeps what it sees.
private final class Witness: EventObserver {
    private let seen = Lock<[EventView]>([])

    var events: [EventView] { self.seen.withLock { $0 } }
    var names: [String] { self.events.map(\.name) }

    func eventStored(_ event: EventView) { self.seen.withLock { $0.append(event) } }
}

/// Does not come back from the first event until it is let go.
private final class Sleeper: EventObserver {
    private let isAwake = Monitor(false)
    private let hasCome = Monitor(false)
    private let seenCount = Lock(0)

    var count: Int { self.seenCount.withLock { $0 } }

    func wake() { self.isAwake.update { $0 = true } }

    func waitForFirst() { _ = self.hasCome.wait { $0 ? true : nil } }

    func eventStored(_ event: EventView) {
        self.hasCome.update { $0 = true }
        _ = self.isAwake.wait { $0 ? true : nil }
        self.seenCount.withLock { $0 += 1 }
    }
}

private struct Liked: ActionEvent {
    var name: String { "moment_like" }

    func encode(into fields: inout Fields) {
        fields.put("momentID", "m-\"17\"")
        fields.put("rating", 4.5)
        fields.put("tags", ["a", "b"])
    }

    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].name = "select_content"
        overrides[.ga4].replaceAll { $0.put("item_id", "moment-17") }
        overrides[.flurry].skip = true
        overrides[.mixpanel].name = "Moment Liked"
    }
}

private struct Home: ScreenEvent, FieldlessEvent {}

@Test
func `observers see what is stored, in order, and by type`() throws {
    let all = Witness()
    let some = Witness()
    let client = try Client()
    let tokens = [client.core.observe(.all(all)), client.core.observe(.only(some, Liked.self))]
    client.track(Home())
    client.track(Liked())
    client.track("free")
    #expect(client.track("") == .dropped(.invalid))
    for token in tokens { token.drain() }
    #expect(all.names == ["screen_view", "moment_like", "free"])
    #expect(all.events.map(\.sequence) == [1, 2, 3])
    #expect(all.events.map { String(decoding: $0.line, as: UTF8.self) } == client.lines)
    #expect(some.names == ["moment_like"])
    _ = client.core.setUser("u-1", traits: ["plan": "pro"])
    for token in tokens { token.drain() }
    #expect(some.names == ["moment_like", "set_user"])
    #expect(some.events.last?.fields.map(\.text) == ["pro"])
}

@Test
func `an observer sees an event as one provider gets it`() throws {
    let witness = Witness()
    let providers: [ProviderSubscription] = [
        .all(.ga4), .only(.mixpanel, Liked.self), .all(.flurry), .only(.csv, Home.self),
    ]
    let client = try Client(providers: providers)
    let token = client.core.observe(.all(witness))
    client.track(Liked())
    token.drain()
    let event = try #require(witness.events.first)
    #expect(event[member: "name"] == "moment_like")
    #expect(event[member: "env"] == "prod")
    #expect(event[member: "nothing"] == nil)
    #expect(event[member: "rating"] == nil)
    #expect(event.fields.map(\.name) == ["momentID", "rating", "tags"])
    #expect(event.fields.map(\.text) == ["m-\"17\"", "4.5", "[\"a\",\"b\"]"])
    #expect(event.fields.map(\.json) == ["\"m-\\\"17\\\"\"", "4.5", "[\"a\",\"b\"]"])
    #expect(event.delivery(to: .ga4)?.name == "select_content")
    #expect(event.delivery(to: .ga4)?.fields.map(\.text) == ["moment-17"])
    #expect(event.delivery(to: .ga4)?.fields["item_id"] == "moment-17")
    #expect(event.delivery(to: .mixpanel)?.name == "Moment Liked")
    #expect(event.delivery(to: .mixpanel)?.fields == event.fields)
    #expect(event.delivery(to: .flurry) == nil)
    #expect(event.delivery(to: .csv) == nil)
    #expect(event.delivery(to: .posthog) == nil)
}

@Test
func `an observer that hangs holds no one up, and what it misses is counted`() throws {
    let sleeper = Sleeper()
    let witness = Witness()
    let client = try Client()
    let asleep = client.core.observe(.all(sleeper))
    let awake = client.core.observe(.all(witness))
    let count = ObserverSubscription.waitingCountMax + 100
    for index in 0..<count {
        client.track("e\(index)")
        if index == 0 { sleeper.waitForFirst() }
        if index % 1000 == 0 { awake.drain() }
    }
    awake.drain()
    #expect(witness.names == (0..<count).map { "e\($0)" })
    // The first is in the observer's hands.
    #expect(asleep.missedCount == 99)
    sleeper.wake()
    asleep.drain()
    #expect(sleeper.count + Int(asleep.missedCount) == count)
}

@Test
func `a cancelled token ends after what was stored before`() throws {
    let witness = Witness()
    let client = try Client()
    let token = client.core.observe(.all(witness))
    client.track("before")
    token.cancel()
    client.track("after")
    token.drain()
    #expect(witness.names == ["before"])
}

@Test
func `observers that come while threads track see every later event once`() throws {
    let client = try Client()
    let witnesses = (0..<8).map { _ in Witness() }
    let tokens = Lock<[ObserverToken]>([])
    let trackers = (0..<4).map { thread in
        Worker(name: "tracker") { for index in 0..<400 { client.track("t\(thread)-\(index)") } }
    }
    let watcher = Worker(name: "watcher") {
        for witness in witnesses {
            let token = client.core.observe(.all(witness))
            tokens.withLock { $0.append(token) }
        }
    }
    for worker in trackers + [watcher] { worker.join() }
    for token in tokens.withLock({ $0 }) { token.drain() }
    for witness in witnesses {
        let sequences = witness.events.map(\.sequence)
        guard let first = sequences.first else { continue }
        #expect(sequences == Array(first...1600))
    }
}

@Test
func `the value of a field is read by its name, and compared with a literal`() throws {
    let recorder = try Recorder()
    recorder.waybill.track("order") { fields in
        fields.put("product", "a \"토스터\"")
        fields.put("price", 39_900)
        fields.put("weight", 1.5)
        fields.put("is_gift", true)
        fields.put("items", ["a", "b"])
        fields.put("digits", "12")
    }
    recorder.waybill.setTraits { $0.putNull("tier") }
    let fields = try #require(recorder.events.first?.fields)
    #expect(fields["product"] == "a \"토스터\"" && fields["price"] == 39_900)
    #expect(fields["weight"] == 1.5 && fields["is_gift"] == true)
    #expect(fields["product"]?.string == "a \"토스터\"" && fields["product"]?.json == #""a \"토스터\"""#)
    #expect(fields["price"]?.int == 39_900 && fields["price"]?.double == 39_900 && fields["weight"]?.int == nil)
    #expect(fields["weight"]?.double == 1.5 && fields["is_gift"]?.bool == true && fields["is_gift"]?.int == nil)
    #expect(fields["items"]?.json == #"["a","b"]"# && fields["items"]?.string == nil)
    #expect(fields["digits"]?.int == nil && fields["digits"] == "12" && fields["digits"] != 12)
    #expect(fields["coupon"] == nil)
    #expect(recorder.events.last?.fields["tier"]?.isNull == true)
}
