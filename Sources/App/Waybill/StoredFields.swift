internal import WaybillEvent
internal import WaybillJSON

/// The fields of a stored event, in order.
///
///     event.fields["price"] == 39_900
///     event.fields["product"]?.string
///     event.fields.map(\.name)
public struct StoredFields: Hashable, Sendable, RandomAccessCollection {
    private let fields: [StoredField]

    init(_ fields: [StoredField]) {
        self.fields = fields
    }

    /// The members of an object.
    init(_ object: Int, _ tape: borrowing JSONTape) {
        var fields: [StoredField] = []
        var members = tape.members(of: object)
        while let (key, value) = members.next(in: tape) {
            fields.append(StoredField(name: JSONText.string(tape.bytes(of: key)), value: StoredValue(value, tape)))
        }
        self.fields = fields
    }

    /// The value of the field with this name; `nil` if the event does not have it.
    public subscript(name: String) -> StoredValue? {
        self.fields.first { $0.name == name }?.value
    }

    /// The field at this position.
    public subscript(position: Int) -> StoredField {
        self.fields[position]
    }

    /// The position of the first field, 0.
    public var startIndex: Int { self.fields.startIndex }
    /// The position after the last field.
    public var endIndex: Int { self.fields.endIndex }
}

/// A field of a stored event.
public struct StoredField: Hashable, Sendable {
    /// The field's name.
    public let name: String
    /// The field's value.
    public let value: StoredValue

    /// Its value as JSON text, such as `"토스터"`, `39900` or `[1,2]`.
    public var json: String { self.value.json }
    /// Its value as text: a string without quotes and escapes, any other value as in ``json``.
    public var text: String { self.value.text }
}

/// The value of a field of a stored event; it compares with literals.
public struct StoredValue: Hashable, Sendable {
    /// The value as JSON text, such as `"토스터"`, `39900` or `[1,2]`.
    public let json: String
    /// The value as text: a string without quotes and escapes, any other value as in ``json``.
    public let text: String

    init(_ index: Int, _ tape: borrowing JSONTape) {
        self.json = Self.json(of: index, tape)
        self.text = Self.text(of: index, tape)
    }

    /// The text of a string; `nil` for any other value.
    public var string: String? {
        self.json.utf8.first == UInt8(ascii: "\"") ? self.text : nil
    }

    /// The value of an integer; `nil` for any other value.
    public var int: Int? {
        Int(self.json)
    }

    /// The value of a number; `nil` for any other value.
    public var double: Double? {
        Double(self.json)
    }

    /// The value of a boolean; `nil` for any other value.
    public var bool: Bool? {
        Bool(self.json)
    }

    /// Whether the value is `null`, which removes a trait.
    public var isNull: Bool {
        self.json == "null"
    }

    static func text(of index: Int, _ tape: borrowing JSONTape) -> String {
        switch tape[index].kind {
        case .string: JSONText.string(tape.bytes(of: index))
        default: self.json(of: index, tape)
        }
    }

    private static func json(of index: Int, _ tape: borrowing JSONTape) -> String {
        let text = String(decoding: tape.bytes(of: index), as: UTF8.self)
        return tape[index].kind == .string ? "\"\(text)\"" : text
    }
}

extension StoredValue: CustomStringConvertible {
    /// The value as JSON text.
    public var description: String { self.json }
}

extension StoredValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByBooleanLiteral
{
    private init(_ scalar: Scalar) {
        var draft = EventDraft()
        draft.take(own: "value") { $0.put("value", scalar) }
        self.json = draft.json(of: "value") ?? "null"
        if case .string(let text) = scalar { self.text = text } else { self.text = self.json }
    }

    /// The value of a field with this text.
    public init(stringLiteral value: String) { self.init(.string(value)) }
    /// The value of a field with this integer.
    public init(integerLiteral value: Int) { self.init(.integer(value)) }
    /// The value of a field with this number.
    public init(floatLiteral value: Double) { self.init(.double(value)) }
    /// The value of a field with this boolean.
    public init(booleanLiteral value: Bool) { self.init(.boolean(value)) }
}
