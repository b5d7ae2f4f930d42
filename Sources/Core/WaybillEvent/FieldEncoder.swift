/// The encoder that an event's `encode(to:)` gets: it writes into a ``FieldEncoding``.
struct FieldEncoder: Encoder {
    private let encoding: FieldEncoding
    /// The place of the value to encode.
    private let number: Int

    /// Paths are not kept: the messages of an encoding name the event's member.
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    init(_ encoding: FieldEncoding, _ number: Int) {
        self.encoding = encoding
        self.number = number
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(MemberContainer(encoding: self.encoding, number: self.encoding.members(at: self.number)))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        ElementContainer(encoding: self.encoding, number: self.encoding.list(at: self.number))
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        ValueContainer(encoding: self.encoding, number: self.number)
    }
}

/// The members of an event or an object.
///
/// One generic method stands for those of the standard library's types, too.
private struct MemberContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoding: FieldEncoding
    let number: Int
    var codingPath: [any CodingKey] { [] }

    func encodeNil(forKey key: Key) {
        self.encoding.encodeNull(forKey: key.stringValue, in: self.number)
    }

    func encode<Value: Encodable>(_ value: Value, forKey key: Key) {
        self.encoding.encode(value, forKey: key.stringValue, in: self.number)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        self.encoder(forKey: key.stringValue).container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        self.encoder(forKey: key.stringValue).unkeyedContainer()
    }

    func superEncoder() -> any Encoder {
        self.encoder(forKey: "super")
    }

    func superEncoder(forKey key: Key) -> any Encoder {
        self.encoder(forKey: key.stringValue)
    }

    private func encoder(forKey key: String) -> FieldEncoder {
        FieldEncoder(self.encoding, self.encoding.value(forKey: key, in: self.number))
    }
}

/// The elements of a list.
private struct ElementContainer: UnkeyedEncodingContainer {
    let encoding: FieldEncoding
    let number: Int
    var codingPath: [any CodingKey] { [] }
    var count: Int { self.encoding.elementCount(of: self.number) }

    /// Leaves the element out.
    func encodeNil() {}

    func encode<Value: Encodable>(_ value: Value) {
        self.encoding.encodeElement(value, of: self.number)
    }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        self.encoder().container(keyedBy: type)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
        self.encoder().unkeyedContainer()
    }

    func superEncoder() -> any Encoder {
        self.encoder()
    }

    private func encoder() -> FieldEncoder {
        FieldEncoder(self.encoding, self.encoding.element(of: self.number))
    }
}

/// A single value.
private struct ValueContainer: SingleValueEncodingContainer {
    let encoding: FieldEncoding
    let number: Int
    var codingPath: [any CodingKey] { [] }

    func encodeNil() {
        self.encoding.encodeNothing(at: self.number)
    }

    func encode<Value: Encodable>(_ value: Value) throws {
        try self.encoding.encode(value, at: self.number)
    }
}
