import Testing
import WaybillEvent
import WaybillSystem

private enum Method: String, Encodable, CaseIterable, ScalarFieldValue {
    case card, cash
    case other = "another \"one\""
}

private enum Level: Int, Encodable, CaseIterable {
    case low = 1, high
}

private struct Address: Encodable {
    let city: String
    let zip: String?
    let floor: Int16
    let methods: [Method]

    func put(into fields: inout Fields) {
        fields.put("city", self.city)
        fields.put("zip", self.zip)
        fields.put("floor", self.floor)
        fields.put("methods", self.methods)
    }
}

/// A value of each kind that an event can have, encoded by hand and by the compiler.
private struct Everything: Event, Encodable {
    let text: String
    let none: String?
    let flag: Bool
    let bytes: [UInt8]
    let small: Int8
    let large: Int64
    let unsigned: UInt64
    let float: Float
    let double: Double
    let ratios: [Double]
    let method: Method
    let level: Level
    let optionalLevel: Level?
    let holes: [String?]
    let counts: [String: Int]
    let lists: [String: [String]]
    let methods: [Int: Method]
    let set: Set<Int>
    let address: Address
    let optionalAddress: Address?
    let addresses: [Address]

    var name: String { "everything" }

    func put(into fields: inout Fields) {
        fields.put("text", self.text)
        fields.put("none", self.none)
        fields.put("flag", self.flag)
        fields.put("bytes", self.bytes)
        fields.put("small", self.small)
        fields.put("large", self.large)
        fields.put("unsigned", self.unsigned)
        fields.put("float", self.float)
        fields.put("double", self.double)
        fields.put("ratios", self.ratios)
        fields.put("method", self.method)
        fields.put("level", self.level)
        fields.put("optionalLevel", self.optionalLevel)
        fields.put("holes", self.holes)
        fields.put("counts", self.counts)
        fields.put("lists", self.lists)
        fields.put("methods", Dictionary(uniqueKeysWithValues: self.methods.map { ("\($0)", $1) }))
        fields.put("set", self.set)
        fields.put("address", object: self.address.put)
        if let optionalAddress { fields.put("optionalAddress", object: optionalAddress.put) }
        fields.put("addresses", objects: self.addresses) { fields, address in address.put(into: &fields) }
    }
}

extension Everything {
    init(_ random: inout SeededGenerator) {
        self.text = Self.text(&random)
        self.none = Self.optional(&random, Self.text)
        self.flag = Bool.random(using: &random)
        self.bytes = Self.list(&random) { UInt8.random(in: .min ... .max, using: &$0) }
        self.small = Int8.random(in: .min ... .max, using: &random)
        self.large = Int64.random(in: .min ... .max, using: &random) >> Int64.random(in: 0..<64, using: &random)
        self.unsigned = UInt64.random(in: .min ... .max, using: &random) >> UInt64.random(in: 0..<64, using: &random)
        self.float = Float(Self.double(&random))
        self.double = Self.double(&random)
        self.ratios = Self.list(&random, Self.double)
        self.method = Method.allCases.randomElement(using: &random)!  // There are three.
        self.level = Level.allCases.randomElement(using: &random)!  // There are two.
        self.optionalLevel = Self.optional(&random) { Level.allCases.randomElement(using: &$0)! }  // There are two.
        self.holes = Self.list(&random) { Self.optional(&$0, Self.text) }
        self.counts = Self.dictionary(&random) { Int.random(in: -9...9, using: &$0) }
        self.lists = Self.dictionary(&random) { Self.list(&$0, Self.text) }
        self.methods = Dictionary(
            Self.list(&random) { (Int.random(in: -99...99, using: &$0), Method.card) }, uniquingKeysWith: { $1 })
        self.set = Set(Self.list(&random) { Int.random(in: 0...9, using: &$0) })
        self.address = Self.address(&random)
        self.optionalAddress = Self.optional(&random, Self.address)
        self.addresses = Self.list(&random, Self.address)
    }

    private static func address(_ random: inout SeededGenerator) -> Address {
        Address(
            city: Self.text(&random), zip: Self.optional(&random, Self.text),
            floor: Int16.random(in: .min ... .max, using: &random),
            methods: Self.list(&random) { Method.allCases.randomElement(using: &$0)! })  // There are three.
    }

    private static func text(_ random: inout SeededGenerator) -> String {
        let characters: [Character] = ["a", "k", "\"", "\\", "\n", "\u{1F}", "é", "토", "👍", "/"]
        return String(Self.list(&random) { characters.randomElement(using: &$0)! })  // There are ten.
    }

    private static func double(_ random: inout SeededGenerator) -> Double {
        let values = [
            0, -0.0, 0.1, 39.9, 1e300, -1e-300, .nan, .infinity, Double.random(in: -1e6...1e6, using: &random),
        ]
        return values.randomElement(using: &random)!  // There are nine.
    }

    private static func list<Value>(
        _ random: inout SeededGenerator, _ make: (inout SeededGenerator) -> Value
    ) -> [Value] {
        (0..<Int.random(in: 0...4, using: &random)).map { _ in make(&random) }
    }

    private static func optional<Value>(
        _ random: inout SeededGenerator, _ make: (inout SeededGenerator) -> Value
    ) -> Value? {
        Bool.random(using: &random) ? make(&random) : nil
    }

    private static func dictionary<Value>(
        _ random: inout SeededGenerator, _ make: (inout SeededGenerator) -> Value
    ) -> [String: Value] {
        Dictionary(Self.list(&random) { (Self.text(&$0), make(&$0)) }, uniquingKeysWith: { $1 })
    }
}

@Test func `an Encodable event has the same bytes and repairs as one that is encoded by hand`() {
    var random = SeededGenerator(seed: 20)
    let encoded = EventDraftBox()
    let written = EventDraftBox()
    for _ in 0..<2000 {
        let event = Everything(&random)
        encoded.draft.take(event, EventRules(), nil) { $0.put("added", 1) }
        written.draft.take(.event, event.name, nil, EventRules(), nil) { fields in
            event.put(into: &fields)
            fields.put("added", 1)
        }
        #expect(encoded.text == written.text)
        #expect(encoded.repairs == written.repairs)
    }
}

extension EventDraftBox {
    fileprivate var text: String { String(decoding: self.draft.fields.buffer.bytes, as: UTF8.self) }
    fileprivate var repairs: FieldRepairs { self.draft.repairs }
    fileprivate var isOverflowing: Bool { self.draft.isOverflowing }
    fileprivate var faults: [FieldFault] { self.draft.faults }
}

private func draft(_ event: some Event) -> EventDraftBox {
    let box = EventDraftBox()
    box.draft.take(event, EventRules(), nil) { _ in }
    return box
}

/// An event with the encoding that a test gives it.
private struct Custom: Event, Encodable {
    let body: @Sendable (any Encoder) throws -> Void
    var name: String { "custom" }

    func encode(to encoder: any Encoder) throws { try self.body(encoder) }
}

private struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}

extension Name: ExpressibleByStringLiteral {
    init(stringLiteral name: String) { self.init(stringValue: name) }
}

private struct Titled: Event, Encodable {
    let name: String
    let title: String
}

private struct Mapped: Event, Encodable {
    enum CodingKeys: String, CodingKey { case product = "name" }

    let product: String
    var name: String { "mapped" }
}

@Test func `an event's name is no field, and another member of that name is one`() {
    #expect(draft(Titled(name: "shown", title: "T")).text == #""title":"T""#)
    #expect(draft(Mapped(product: "toaster")).text == #""name":"toaster""#)
    let nested = Custom { encoder in
        var container = encoder.container(keyedBy: Name.self)
        try container.encode(Titled(name: "custom", title: "T"), forKey: "of")
    }
    #expect(draft(nested).text == #""of":{"name":"custom","title":"T"}"#)
}

private struct Registered: Event, Encodable {
    let email: Scalar
    let answers: [String: Scalar]
    var name: String { "registered" }
}

@Test func `a hashed member of an Encodable event is private`() throws {
    var random = SeededGenerator(seed: 1)
    let salt = PrivacySalt(&random)
    let box = EventDraftBox()
    let event = Registered(email: .hashed("a@example.com"), answers: ["b": 2, "a": "x", "c": .hashed("secret")])
    box.draft.take(event, EventRules(), salt) { _ in }
    let hashes = [salt.hash("a@example.com".utf8), salt.hash("secret".utf8)]
    #expect(box.text == #""email":"\#(hashes[0])","answers":{"a":"x","b":2,"c":"\#(hashes[1])"}"#)
}

private struct Broken: Encodable {
    struct Failure: Error {}
    var before = 1

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Name.self)
        try container.encode(self.before, forKey: "before")
        throw Failure()
    }
}

@Test func `a value whose encoding throws is left out and counted, and the rest stays`() {
    let event = Custom { encoder in
        var container = encoder.container(keyedBy: Name.self)
        try container.encode(1, forKey: "first")
        try container.encode(Broken(), forKey: "broken")
        try container.encode([Broken(), Broken()], forKey: "list")
        try container.encode(["a": Broken()], forKey: "dictionary")
        try container.encode(2, forKey: "last")
    }
    let box = draft(event)
    #expect(box.text == #""first":1,"list":[],"dictionary":{},"last":2"#)
    #expect(box.repairs.failed == 4)
    #expect(box.repairs.nested == 1)
    #expect(box.faults.map(\.field) == ["broken", "list", "list", "dictionary"])
    #expect(box.faults.allSatisfy { $0.remedy.contains("Failure") })
}

@Test func `an event that throws keeps the fields before, and the next event is whole`() {
    let failing = Custom { encoder in
        var container = encoder.container(keyedBy: Name.self)
        try container.encode(1, forKey: "first")
        var nested = container.nestedUnkeyedContainer(forKey: "open")
        try nested.encode(2)
        throw Broken.Failure()
    }
    let box = EventDraftBox()
    box.draft.take(failing, EventRules(), nil) { $0.put("added", 3) }
    #expect(box.text == #""first":1,"open":[2],"added":3"#)
    #expect(box.repairs.failed == 1)
    box.draft.take(Mapped(product: "p"), EventRules(), nil) { _ in }
    #expect(box.text == #""name":"p""#)
    #expect(box.repairs == FieldRepairs())
    #expect(box.faults.isEmpty)
}

@Test func `nested containers, superclasses and explicit null are written in their order`() {
    let event = Custom { encoder in
        var container = encoder.container(keyedBy: Name.self)
        var object = container.nestedContainer(keyedBy: Name.self, forKey: "object")
        try object.encode("x", forKey: "a")
        try object.encodeIfPresent(nil as Int?, forKey: "nothing")
        try object.encode(nil as Int?, forKey: "optional")
        var list = container.nestedUnkeyedContainer(forKey: "list")
        try list.encode(1)
        try list.encodeNil()
        var element = list.nestedContainer(keyedBy: Name.self)
        try element.encode(2, forKey: "b")
        try list.encode(contentsOf: [3, 4])
        #expect(list.count == 4)
        try container.encodeNil(forKey: "null")
        let parent = container.superEncoder()
        var first = parent.container(keyedBy: Name.self)
        try first.encode(5, forKey: "c")
        var second = parent.container(keyedBy: Name.self)
        try second.encode(6, forKey: "d")
        var single = container.superEncoder(forKey: "single").singleValueContainer()
        try single.encode("y")
    }
    let box = draft(event)
    #expect(
        box.text
            == #""object":{"a":"x"},"list":[1,{"b":2},3,4],"null":null,"super":{"c":5,"d":6},"single":"y""#)
    #expect(box.repairs == FieldRepairs())
}

@Test func `what is written to a closed container is left out and counted`() {
    let event = Custom { encoder in
        var container = encoder.container(keyedBy: Name.self)
        var object = container.nestedContainer(keyedBy: Name.self, forKey: "object")
        try object.encode(1, forKey: "a")
        try container.encode(2, forKey: "b")
        try object.encode(3, forKey: "late")
        var single = container.superEncoder(forKey: "twice").singleValueContainer()
        try single.encode(4)
        try single.encode(5)
    }
    let box = draft(event)
    #expect(box.text == #""object":{"a":1},"b":2,"twice":4"#)
    #expect(box.repairs.nested == 2)
}

private struct Deep: Encodable {
    struct Inner: Encodable { var x = 1 }
    var plain = 1
    var inner = Inner()
    var list = [Inner()]
}

@Test func `objects and lists nest no deeper than by hand`() {
    let event = Custom { encoder in
        var container = encoder.container(keyedBy: Name.self)
        try container.encode(Deep(), forKey: "deep")
        try container.encode([[1], [2]], forKey: "lists")
        try container.encode([["a": "b"]], forKey: "objects")
        try container.encode(["a": ["b": 1]], forKey: "dictionaries")
    }
    let box = draft(event)
    #expect(
        box.text == #""deep":{"plain":1,"list":[]},"lists":[],"objects":[{"a":"b"}],"dictionaries":{}"#)
    #expect(box.repairs.nested == 5)
}

private final class Loop: Encodable {
    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self)
    }
}

private struct Key: Hashable, Encodable { var x = 1 }

@Test func `a value without a form is refused by its type's name, once for each field`() {
    let event = Custom { encoder in
        var container = encoder.container(keyedBy: Name.self)
        try container.encode(Loop(), forKey: "loop")
        try container.encode([Key(): 1], forKey: "keys")
        try container.encode(Method.cash, forKey: "method")
    }
    let box = draft(event)
    #expect(box.text == #""method":"cash""#)
    #expect(box.repairs.refused == 2)
    #expect(box.faults.map(\.field) == ["loop", "keys"])
    #expect(box.faults[0].remedy.contains("32 values deep"))
    #expect(box.faults[1].type.contains("Dictionary"))
}

@Test func `an event that encodes a value instead of members has none`() {
    let single = Custom { encoder in
        var container = encoder.singleValueContainer()
        try container.encode("text")
    }
    let list = Custom { encoder in
        var container = encoder.unkeyedContainer()
        try container.encode("text")
    }
    for event in [single, list] {
        let box = draft(event)
        #expect(box.text == "")
        #expect(box.repairs.refused == 1)
        #expect(box.faults.first?.remedy.contains("members") == true)
    }
    let forwarding = Custom { encoder in
        var container = encoder.singleValueContainer()
        try container.encode(Mapped(product: "p"))
    }
    #expect(draft(forwarding).text == #""name":"p""#)
    let dictionary = Custom { encoder in
        var container = encoder.singleValueContainer()
        try container.encode(["b": 1, "a": 2])
    }
    #expect(draft(dictionary).text == #""a":2,"b":1"#)
}

@Test func `an encoded event beyond a line's length is one that overflows, and the next is whole`() {
    let long = Custom { encoder in
        var container = encoder.container(keyedBy: Name.self)
        var list = container.nestedUnkeyedContainer(forKey: "list")
        for index in 0..<100_000 { try list.encode(["index": index]) }
        try container.encode(Deep(), forKey: "deep")
    }
    let box = draft(long)
    #expect(box.isOverflowing)
    box.draft.take(Mapped(product: "p"), EventRules(), nil) { _ in }
    #expect(box.text == #""name":"p""#)
}

/// Keeps what an encoding gave it beyond its end.
///
/// `@unchecked Sendable`: one test uses it, on one thread.
private final class Keeper: @unchecked Sendable {
    var container: KeyedEncodingContainer<Name>?
}

@Test func `a container that outlives its event writes nothing`() throws {
    let keeper = Keeper()
    let event = Custom { encoder in keeper.container = encoder.container(keyedBy: Name.self) }
    let box = draft(event)
    try keeper.container?.encode(1, forKey: "late")
    #expect(box.text == "")
    box.draft.take(
        Custom { encoder in
            try keeper.container?.encode(1, forKey: "later")
            var container = encoder.container(keyedBy: Name.self)
            try container.encode(2, forKey: "own")
        }, EventRules(), nil
    ) { _ in }
    #expect(box.text == #""own":2"#)
}

private struct Forgetful: FieldlessEvent {
    let name: String
    let price: Int
    let screen: ScreenRef?
}

private struct Honest: FieldlessEvent {
    let name: String
    let screen: ScreenRef?
}

@Test func `a type without fields that has properties for them is reported`() {
    let box = EventDraftBox()
    box.draft.take(.event, "e", nil, EventRules(), nil) { $0.checkFieldless(Honest(name: "e", screen: nil)) }
    #expect(box.repairs == FieldRepairs())
    box.draft.take(.event, "e", nil, EventRules(), nil) { fields in
        fields.checkFieldless(Forgetful(name: "e", price: 1, screen: nil))
    }
    #expect(box.repairs.forgotten == 1)
    #expect(box.faults.map(\.field) == ["price"])
}
