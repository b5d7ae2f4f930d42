import Testing
import WaybillEvent
import WaybillTestSupport

private struct Login: ScreenEvent {
    var screen: ScreenRef? { ScreenRef("로그인 화면", type: "LoginView", id: "login_screen_view_event") }
    func encode(into fields: inout Fields) { fields.put("method", "email") }
}

private struct ProductTapped: ActionEvent {
    var name: String { "Product Tapped" }
    var screen: ScreenRef? { ScreenRef("ShoppingList") }
    func encode(into fields: inout Fields) {
        fields.put("productName", "=cmd \"토스터\", 2구")
        fields.put("productPrice", 39_900)
        fields.put("coupon", nil as String?)
        fields.put("productPosition", "left")
    }
}

private struct MomentLiked: ActionEvent {
    var name: String { "moment_like" }
    var screen: ScreenRef? { ScreenRef("Moments") }
    func encode(into fields: inout Fields) { fields.put("momentID", "m-17") }
    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].name = "select_content"
        overrides[.ga4].replaceAll { fields in
            fields.put("item_id", "moment-id-m-17-user-id-u-8812345")
            fields.put("item_name", "moment-like")
        }
    }
}

/// The context, draft and line of one writer, as the client holds them.
private struct Writer: ~Copyable {
    var context = EventContext(
        writer: UniqueID(high: 0x0195_505E_AAAA_7000, low: 0x8000_0000_0000_00AA),
        origin: EventOrigin(
            app: "1.4.2", build: "118", bundle: "com.example.shop", os: "iOS", osVersion: "17.0.1",
            model: "iPhone16,2", language: "ko-KR", environment: .prod))
    var draft = EventDraft()
    var line = LineBuffer()

    init(user: String? = nil) {
        self.context.zoneMinutes = 540
        self.identify(user)
    }

    mutating func identify(_ user: String?) {
        self.context.setIdentity(
            EventIdentity(
                session: UniqueID(high: 0x0195_50FB_32B4_7000, low: 0x8000_0000_0000_0001), sessionNumber: 7,
                user: user, anonymous: "b5372db0-c21e-41e4-8dfc-aa07a5b093db",
                vendor: [.init(provider: .ga4, id: "0a1b2c3d4e5f60718293a4b5c6d7e8f9")]))
    }

    mutating func write(_ sequence: UInt64, at wall: Int64, up: UInt64, since: UInt64?, id: UInt64) -> String {
        let stamp = EventStamp(
            id: UniqueID(high: id, low: 0x82D3_0000_0000_0000 + sequence - 40), sequence: sequence,
            wallMilliseconds: wall, upMilliseconds: up, sincePreviousMilliseconds: since, onScreenMilliseconds: 2150)
        self.context.encode(self.draft, stamp, into: &self.line)
        return String(decoding: self.line.bytes, as: UTF8.self)
    }
}

@Test func `the encoder gives the golden lines byte for byte`() throws {
    var writer = Writer()
    var lines: [String] = []
    writer.draft.take(.screen, "screen_view", ScreenRef("Splash"), EventRules(), nil) { _ in }
    writer.context.enterScreen(of: writer.draft)
    writer.draft.take(Login(), EventRules(), nil) { _ in }
    lines.append(writer.write(41, at: 1_740_820_455_926, up: 61_250, since: nil, id: 0x0195_50FC_21F6_7B1C))
    writer.identify("u-8812345")
    writer.draft.take(ProductTapped(), EventRules(), nil) { $0.put("productIndex", 7) }
    lines.append(writer.write(42, at: 1_740_820_459_003, up: 64_327, since: 3077, id: 0x0195_50FC_2DFB_7B1C))
    writer.draft.take(MomentLiked(), EventRules(), nil) { _ in }
    lines.append(writer.write(43, at: 1_740_820_461_500, up: 66_824, since: 2497, id: 0x0195_50FC_37BC_7B1C))
    writer.context.leaveScreen()
    writer.draft.take(.user, "set_user", nil, EventRules(), nil) { fields in
        fields.put("tier", "PREMIUM")
        fields.putNull("age_band")
    }
    lines.append(writer.write(44, at: 1_740_820_462_000, up: 67_324, since: 500, id: 0x0195_50FC_39B0_7B1C))
    #expect(lines == (try vectorLines("encoder.ndjson")))
}

/// What stands between the environment and the end of an event's line.
private func tail(
    _ subscriptions: [ProviderSubscription] = [], common: ((inout Fields) -> Void)? = nil,
    _ take: (inout EventDraft, [ProviderSubscription]) -> Void
) -> String {
    var writer = Writer()
    if let common {
        let box = EventDraftBox()
        box.draft.take(.event, "common", nil, EventRules(), nil, adding: common)
        writer.context.common = box
    }
    take(&writer.draft, subscriptions)
    let line = writer.write(41, at: 0, up: 0, since: nil, id: 0)
    return String(line[line.firstRange(of: "\"env\":\"prod\"")!.upperBound...].dropLast(2))
}

@Test func `an event without fields has no data and a user event always has traits`() {
    #expect(tail { draft, _ in draft.take(.event, "e", nil, EventRules(), nil) { _ in } } == "")
    var writer = Writer()
    writer.draft.take(.user, "set_user", nil, EventRules(), nil) { _ in }
    #expect(writer.write(41, at: 0, up: 0, since: nil, id: 0).contains(",\"traits\":{},\"app\""))
}

@Test func `common fields follow the event's own unless it has them`() {
    let common: (inout Fields) -> Void = { fields in
        fields.put("plan", "pro")
        fields.put("tags", ["x", "y"])
        fields.put("at", object: { $0.put("a", 1) })
    }
    #expect(
        tail(common: common) { draft, _ in draft.take(.event, "e", nil, EventRules(), nil) { $0.put("tags", 1) } }
            == #","data":{"tags":1,"plan":"pro","at":{"a":1}}"#)
    #expect(
        tail(common: common) { draft, _ in draft.take(.event, "e", nil, EventRules(), nil) { _ in } }
            == #","data":{"plan":"pro","tags":["x","y"],"at":{"a":1}}"#)
    #expect(tail(common: common) { draft, _ in draft.take(.meta, "wb.dropped", nil, EventRules(), nil) { _ in } } == "")
}

@Test func `providers are those that subscribed to the type`() {
    let subscriptions: [ProviderSubscription] = [.only(.ga4, Login.self, MomentLiked.self), .all(.mixpanel)]
    #expect(
        tail(subscriptions) { $0.take(Login(), EventRules(subscriptions: $1), nil) { _ in } }
            == #","log":"1.0","data":{"method":"email"},"providers":["ga4","mixpanel"]"#)
    #expect(
        tail(subscriptions) { $0.take(.event, "e", nil, EventRules(subscriptions: $1), nil) { _ in } }
            == #","providers":["mixpanel"]"#)
    #expect(
        tail([.only(.ga4, Login.self)]) { $0.take(.event, "e", nil, EventRules(subscriptions: $1), nil) { _ in } }
            == #","providers":[]"#)
    #expect(
        tail([.only(.ga4, Login.self)]) { $0.take(.meta, "wb.x", nil, EventRules(subscriptions: $1), nil) { _ in } }
            == "")
}

private struct Skipping: FieldlessEvent {
    let skips: Bool
    var name: String { "e" }
    func customize(_ overrides: inout Overrides) {
        guard self.skips else { return }
        overrides[ProviderID("own \"one\"")].skip = true
        overrides[.csv].set("a", 1)
        overrides[.mixpanel].set("a", 1)
        overrides[.mixpanel].skip = true
        overrides[.flurry].name = nil
    }
}

@Test func `overrides of one event are gone in the next`() {
    let skipped = tail { draft, _ in draft.take(Skipping(skips: true), EventRules(), nil) { _ in } }
    #expect(
        skipped
            == #","log":"1.0","overrides":{"own \"one\"":{"skip":true},"csv":{"data":{"a":1}},"mixpanel":{"skip":true}}"#
    )
    let after = tail { draft, _ in
        draft.take(Skipping(skips: true), EventRules(), nil) { _ in }
        draft.take(Skipping(skips: false), EventRules(), nil) { _ in }
    }
    #expect(after == #","log":"1.0""#)
}

@Test func `a name beyond 255 bytes is cut between characters and counted`() {
    var draft = EventDraft()
    draft.take(.event, String(repeating: "토", count: 86), nil, EventRules(), nil) { _ in }
    let repairs = draft.repairs
    #expect(repairs.cutName == 1)
    var writer = Writer()
    writer.draft.take(.event, String(repeating: "토", count: 86), nil, EventRules(), nil) { _ in }
    let line = writer.write(41, at: 0, up: 0, since: nil, id: 0)
    #expect(line.contains("\"name\":\"\(String(repeating: "토", count: 85))\","))
    writer.draft.take(.event, "a" + String(repeating: "토", count: 85), nil, EventRules(), nil) { _ in }
    let other = writer.write(41, at: 0, up: 0, since: nil, id: 0)
    #expect(other.contains("\"name\":\"a\(String(repeating: "토", count: 84))\","))
}

@Test func `a line beyond 32 KiB says so and the next one is whole`() {
    var writer = Writer()
    writer.draft.take(.event, "e", nil, EventRules(), nil) { $0.put("text", String(repeating: "x", count: 40_000)) }
    _ = writer.write(41, at: 0, up: 0, since: nil, id: 0)
    let isOverflowing = writer.line.isOverflowing
    #expect(isOverflowing)
    writer.draft.take(.event, "e", nil, EventRules(), nil) { $0.put("text", "short") }
    let line = writer.write(41, at: 0, up: 0, since: nil, id: 0)
    #expect(line.hasSuffix(",\"data\":{\"text\":\"short\"}}\n"))
    let isOverflowingStill = writer.line.isOverflowing
    #expect(!isOverflowingStill)
}
