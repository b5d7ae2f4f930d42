import Testing
import WaybillEvent

private var salt: PrivacySalt { PrivacySalt([UInt8](0..<32))! }  // There are 32.

/// An event with the overrides that a test gives it.
private struct Signed: Event {
    let edit: @Sendable (inout ProviderOverride) -> Void
    var name: String { "signed" }

    func encode(into fields: inout Fields) {
        fields.put("id", 17)
        fields.put("email", "a@example.com")
        fields.put("address", object: { $0.put("email", "b@example.com") })
        fields.put("last", true)
    }

    func customize(_ overrides: inout Overrides) { self.edit(&overrides[.ga4]) }
}

/// The member `overrides` of an event's line.
private func overrides(
    filters: [EventFilter] = [], common: ((inout Fields) -> Void)? = nil,
    adding body: (inout Fields) -> Void = { _ in },
    _ customize: @escaping @Sendable (inout ProviderOverride) -> Void
) -> String {
    var context = EventContext(
        writer: UniqueID(high: 1, low: 2),
        origin: EventOrigin(
            app: "1", build: "1", bundle: "b", os: "Linux", osVersion: nil, model: nil, language: nil,
            environment: .prod))
    let rules = EventRules(filters: filters)
    if let common {
        let box = EventDraftBox()
        box.draft.take(.event, "common", nil, rules, salt, adding: common)
        context.common = box
    }
    let box = EventDraftBox()
    box.draft.take(Signed(edit: customize), rules, salt, adding: body)
    var line = LineBuffer()
    let stamp = EventStamp(
        id: UniqueID(high: 3, low: 4), sequence: 1, wallMilliseconds: 0, upMilliseconds: 0,
        sincePreviousMilliseconds: nil, onScreenMilliseconds: 0)
    context.encode(box.draft, stamp, into: &line)
    let text = String(decoding: line.bytes, as: UTF8.self)
    guard let start = text.firstRange(of: #""overrides":"#) else { return "" }
    return String(text[start.upperBound...].dropLast(2))
}

private func data(_ members: String) -> String {
    #"{"ga4":{"data":{\#(members)}}}"#
}

private let address = #""address":{"email":"b@example.com"}"#

@Test func `edits apply in their order, and leave the other fields in their places`() {
    #expect(
        overrides {
            $0.rename("id", to: "item_id")
            $0.set("last", "now")
            $0.remove("email", "nothing")
            $0.set("new", 2)
        } == data(#""item_id":17,\#(address),"last":"now","new":2"#))
    #expect(
        overrides {
            $0.set("id", 1)
            $0.rename("id", to: "first")
            $0.set("id", 2)
            $0.remove("email", "address", "last")
        } == data(#""first":1,"id":2"#))
    #expect(
        overrides { $0.replaceAll { _ in } } == data(""))
    #expect(
        overrides {
            $0.set("gone", 1)
            $0.replaceAll { $0.put("b", 1) }
            $0.rename("b", to: "a \"quoted\"")
            $0.set { $0.put("list", objects: [1]) { $0.put("x", $1) } }
        } == data(#""a \"quoted\"":1,"list":[{"x":1}]"#))
}

@Test func `a rename replaces the field of the new name, and one without a field does nothing`() {
    #expect(overrides { $0.rename("id", to: "last") } == data(#""last":17,"email":"a@example.com",\#(address)"#))
    #expect(overrides { $0.rename("nothing", to: "last") } == "")
    #expect(overrides { $0.rename("id", to: "id") } == "")
    #expect(overrides { $0.remove("nothing") } == "")
}

@Test func `nil removes a field, and a number that JSON cannot hold leaves it as it was`() {
    #expect(
        overrides {
            $0.set("email", nil as String?)
            $0.remove("address")
            $0.set("id", Double.nan)
        } == data(#""id":17,"last":true"#))
}

@Test func `a name alone and a skip alone repeat no fields`() {
    #expect(overrides { $0.name = "login" } == #"{"ga4":{"name":"login"}}"#)
    #expect(
        overrides {
            $0.name = "login"
            $0.set("id", 1)
            $0.skip = true
        } == #"{"ga4":{"skip":true}}"#)
    #expect(overrides { $0.skip = false } == "")
}

@Test func `edits reach the call's fields and registered ones, except those that the event has itself`() {
    let common: (inout Fields) -> Void = { fields in
        fields.put("plan", "pro")
        fields.put("last", "registered")
        fields.put("team", 5)
    }
    #expect(
        overrides(common: common, adding: { $0.put("source", "feed") }) {
            $0.remove("id", "email", "address")
            $0.rename("plan", to: "tier")
            $0.rename("source", to: "from")
        } == data(#""last":true,"from":"feed","tier":"pro","team":5"#))
    #expect(
        overrides(common: common) {
            $0.remove("id", "email", "address", "last", "team")
            $0.set("plan", "free")
        } == data(#""plan":"free""#))
}

@Test(arguments: [EventFilter.removing("email"), .hashing("email")])
func `what filters remove or hash is not evaded by an edit`(filter: EventFilter) {
    let edits: [@Sendable (inout ProviderOverride) -> Void] = [
        { $0.rename("email", to: "contact") },
        {
            $0.rename("email", to: "a")
            $0.rename("a", to: "b")
        },
        { $0.set("email", "c@example.com") },
        { $0.set { $0.put("customer", object: { $0.put("email", "c@example.com") }) } },
        { $0.replaceAll { $0.put("email", "c@example.com") } },
        { $0.replaceAll { $0.put("customer", objects: ["c@example.com"]) { $0.put("email", $1) } } },
        {
            $0.set("contact", "c@example.com")
            $0.rename("contact", to: "email")
        },
        {
            $0.replaceAll { $0.put("x", "c@example.com") }
            $0.rename("x", to: "email")
        },
        { $0.rename("mail", to: "email") },
        { $0.rename("registered", to: "email") },
        { $0.remove("id") },
    ]
    for (index, edit) in edits.enumerated() {
        let text = overrides(
            filters: [filter], common: { $0.put("registered", "d@example.com") },
            adding: { $0.put("mail", "e@example.com") }
        ) { override in
            edit(&override)
            if index != 8 { override.remove("mail") }
            if index != 9 { override.remove("registered") }
        }
        #expect(!text.contains("example.com"), "\(index): \(text)")
        #expect(text.hasPrefix(#"{"ga4":{"data":{"#), "\(index): \(text)")
    }
}

@Test(arguments: [["email", "contact"], ["email", "x", "contact"]])
func `a renamed field that a filter hashes has the hash of its text, once`(names: [String]) {
    let hash = salt.hash("a@example.com".utf8)
    for filter in [
        EventFilter.hashing("email"), .hashing("contact"), .hashing("email", "contact"),
        .hashing("email", "x", "contact"),
    ] {
        let text = overrides(filters: [filter]) { override in
            for (name, next) in zip(names, names.dropFirst()) { override.rename(name, to: next) }
            override.remove("id", "address", "last")
        }
        #expect(text == data(#""contact":"\#(hash)""#))
    }
}

@Test func `a private text of an edit is stored as its hash`() {
    let text = overrides { $0.replaceAll { $0.put("phone", private: "+82") } }
    #expect(text == data(#""phone":"\#(salt.hash("+82".utf8))""#))
}

@Test func `repairs of edits are counted with the event`() {
    let box = EventDraftBox()
    let event = Signed { override in
        override.set("a", Double.nan)
        override.replaceAll { fields in
            fields.put("b", 1)
            fields.put("b", 2)
        }
    }
    box.draft.take(event, EventRules(), nil) { _ in }
    let repairs = box.draft.repairs
    #expect(repairs.nonFinite == 1)
    #expect(repairs.duplicate == 1)
}
