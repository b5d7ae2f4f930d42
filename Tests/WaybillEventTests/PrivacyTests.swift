import Testing
import WaybillEvent
import WaybillSystem

private var salt: PrivacySalt { PrivacySalt([UInt8](0..<32))! }  // There are 32.

private func draft(
    _ rules: EventRules = EventRules(), _ kind: EventKind = .event, adding body: (inout Fields) -> Void
) -> EventDraftBox {
    let box = EventDraftBox()
    box.draft.take(kind, "e", nil, rules, salt, adding: body)
    return box
}

extension EventDraftBox {
    fileprivate var text: String { String(decoding: self.draft.fields.buffer.bytes, as: UTF8.self) }
    fileprivate var isDropped: Bool { self.draft.isDropped }
    fileprivate var fieldNames: [String] { self.draft.fieldNames }
}

@Test func `a private text is replaced by a hash that depends on the install`() throws {
    let one = draft { $0.put("email", private: "a@example.com") }.text
    #expect(one == #""email":"\#(salt.hash("a@example.com".utf8))""#)
    #expect(!one.contains("example"))
    #expect(one == draft { $0.put("email", private: "a@example.com") }.text)
    #expect(one != draft { $0.put("email", private: "b@example.com") }.text)
    var generator = SeededGenerator(seed: 1)
    let other = PrivacySalt(&generator)
    #expect(other.hash("a@example.com".utf8) != salt.hash("a@example.com".utf8))
    #expect(PrivacySalt(hexadecimal: other.hexadecimal) == other)
    #expect(PrivacySalt(hexadecimal: "00") == nil)
    #expect(draft { $0.put("email", private: nil) }.text == "")
    let traits = draft { $0.put("name", Scalar.hashed("Kim")) }
    #expect(traits.text == #""name":"\#(salt.hash("Kim".utf8))""#)
}

@Test func `filters take fields away, hash them or drop the event`() {
    let rules = EventRules(filters: [
        .removing("email", "nothing"), .hashing("phone", "tags"),
        EventFilter { draft in
            if draft.json(of: "debug") == "true" { draft.drop() }
        },
    ])
    let box = draft(rules) { fields in
        fields.put("email", "a@example.com")
        fields.put("plan", "pro")
        fields.put("phone", "+82 \"2\"")
        fields.put("tags", [1, 2])
        fields.put("last", 1)
    }
    let phone = salt.hash("+82 \"2\"".utf8)
    let tags = salt.hash("[1,2]".utf8)
    #expect(box.text == #""plan":"pro","phone":"\#(phone)","tags":"\#(tags)","last":1"#)
    #expect(box.fieldNames == ["plan", "phone", "tags", "last"])
    #expect(!box.isDropped)
    #expect(draft(rules) { $0.put("debug", true) }.isDropped)
}

@Test(arguments: [["email"], ["email", "a"], ["a", "email"], ["a", "email", "b"], []])
func `a field is removed wherever it stands`(keys: [String]) {
    let box = draft(EventRules(filters: [.removing("email")])) { fields in
        for key in keys { fields.put(key, 1) }
    }
    #expect(box.text == keys.filter { $0 != "email" }.map { "\"\($0)\":1" }.joined(separator: ","))
    box.draft.fields.put("after", 2)
    #expect(box.text.hasSuffix("\"after\":2"))
}

private struct Signed: Event {
    var name: String { "signed" }
    func encode(into fields: inout Fields) { fields.put("email", "a@example.com") }
    func customize(_ overrides: inout Overrides) {
        overrides[.ga4].set("email", "b@example.com")
        overrides[.ga4].set { $0.put("hash", private: "a@example.com") }
    }
}

@Test func `filters reach what single providers get`() {
    let box = EventDraftBox()
    box.draft.take(Signed(), EventRules(filters: [.removing("email")]), salt) { _ in }
    var context = EventContext(
        writer: UniqueID(high: 1, low: 2),
        origin: EventOrigin(
            app: "1", build: "1", bundle: "b", os: "Linux", osVersion: nil, model: nil, language: nil,
            environment: .prod))
    var line = LineBuffer()
    let stamp = EventStamp(
        id: UniqueID(high: 3, low: 4), sequence: 1, wallMilliseconds: 0, upMilliseconds: 0,
        sincePreviousMilliseconds: nil, onScreenMilliseconds: 0)
    context.encode(box.draft, stamp, into: &line)
    let text = String(decoding: line.bytes, as: UTF8.self)
    #expect(text.contains(#""overrides":{"ga4":{"data":{"hash":"\#(salt.hash("a@example.com".utf8))"}}}"#))
    #expect(!text.contains("example.com"))
}

@Test(arguments: [0.001, 0.1, 0.5, 0.9, 1])
func `a share of users and of events is kept, always the same`(rate: Double) {
    let count = 20_000
    let users = (0..<count).map { Sampling.users(rate).keeps(Sampling.hash("user-\($0)")) }
    #expect(users == (0..<count).map { Sampling.users(rate).keeps(Sampling.hash("user-\($0)")) })
    var ids = UniqueIDSequence()
    var generator = SeededGenerator(seed: 1)
    let events = (0..<count).count { index in
        Sampling.events(rate).keeps(Sampling.hash(ids.next(at: Int64(index), random: generator.next())))
    }
    // Six standard deviations of a binomial.
    let margin = 6 * (Double(count) * rate * (1 - rate)).squareRoot()
    #expect(abs(Double(users.count { $0 }) - Double(count) * rate) <= margin)
    #expect(abs(Double(events) - Double(count) * rate) <= margin)
}
