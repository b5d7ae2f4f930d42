/// A value that a field can have: text, number, boolean, a list of these, or a dictionary of all of them.
///
/// An enumeration with raw values needs no code: `enum Method: String, FieldValue`, or `ScalarFieldValue` for lists of it.
/// `WaybillFoundation` adds `Date`, `URL`, `UUID`, `Decimal` and `CGFloat`.
public protocol FieldValue {
    /// Whether JSON can represent the value; it has no NaN and no infinities.
    var isFinite: Bool { get }
    /// Writes the value by appending one value of another type; called only by ``Fields``, after the key.
    func append(to fields: inout Fields)
}

/// A value that is not a list.
public protocol ScalarFieldValue: FieldValue {}

/// A value that is a number, and can be added to a trait.
public protocol NumberFieldValue: ScalarFieldValue {}

extension FieldValue {
    /// By default `true`, as for all values except floating-point numbers.
    @inlinable public var isFinite: Bool { true }
}

extension FieldValue where Self: RawRepresentable, RawValue: ScalarFieldValue {
    /// Whether the raw value is finite.
    public var isFinite: Bool { self.rawValue.isFinite }
    /// Writes the raw value.
    public func append(to fields: inout Fields) { self.rawValue.append(to: &fields) }
}

extension Optional: FieldValue, ScalarFieldValue where Wrapped: ScalarFieldValue {
    /// Whether the value, if there is one, is finite.
    public var isFinite: Bool { self?.isFinite ?? true }

    /// Writes the value; `nil` writes nothing, and is not counted.
    public func append(to fields: inout Fields) {
        if let self { self.append(to: &fields) } else { fields.skipValue() }
    }
}

extension String: ScalarFieldValue {
    /// Writes a JSON string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendString(self) } }
}

extension Bool: ScalarFieldValue {
    /// Writes `true` or `false`.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendBoolean(self) } }
}

extension Double: NumberFieldValue {
    /// Writes the shortest decimal that reads back as this number; nothing for NaN and the infinities.
    public func append(to fields: inout Fields) {
        if self.isFinite { fields.putValue { $0.appendNumber(self) } }
    }
}

extension Int: NumberFieldValue {
    /// Writes a decimal; above 2^53 as a string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(Int64(self)) } }
}

extension Int64: NumberFieldValue {
    /// Writes a decimal; above 2^53 as a string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(self) } }
}

extension UInt64: NumberFieldValue {
    /// Writes a decimal; above 2^53 as a string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(self) } }
}

extension Int8: NumberFieldValue {
    /// Writes a decimal.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(Int64(self)) } }
}

extension Int16: NumberFieldValue {
    /// Writes a decimal.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(Int64(self)) } }
}

extension Int32: NumberFieldValue {
    /// Writes a decimal.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(Int64(self)) } }
}

extension UInt8: NumberFieldValue {
    /// Writes a decimal.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(Int64(self)) } }
}

extension UInt16: NumberFieldValue {
    /// Writes a decimal.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(Int64(self)) } }
}

extension UInt32: NumberFieldValue {
    /// Writes a decimal.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(Int64(self)) } }
}

extension UInt: NumberFieldValue {
    /// Writes a decimal; above 2^53 as a string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(UInt64(self)) } }
}

extension Float: NumberFieldValue {
    /// Writes the shortest decimal that reads back as this number; nothing for NaN and the infinities.
    public func append(to fields: inout Fields) {
        if self.isFinite { fields.putValue { $0.appendNumber(Double(self.description) ?? Double(self)) } }
    }
}

extension Substring: ScalarFieldValue {
    /// Writes a JSON string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendString(String(self)) } }
}

extension Character: ScalarFieldValue {
    /// Writes a JSON string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendString(String(self)) } }
}

extension Array: FieldValue where Element: ScalarFieldValue {
    /// Whether every element is finite.
    public var isFinite: Bool { self.allSatisfy(\.isFinite) }

    /// Writes a JSON array.
    public func append(to fields: inout Fields) {
        fields.putList(self)
    }
}

extension Set: FieldValue where Element: ScalarFieldValue & Comparable {
    /// Whether every element is finite.
    public var isFinite: Bool { self.allSatisfy(\.isFinite) }

    /// Writes a JSON array, sorted, so that equal sets have equal bytes.
    public func append(to fields: inout Fields) {
        fields.putList(self.sorted())
    }
}

extension Dictionary: FieldValue where Key == String, Value: FieldValue {
    /// Writes a JSON object, its members sorted by their names; objects cannot be nested.
    public func append(to fields: inout Fields) {
        fields.putObject(self)
    }
}

/// A value that a trait can have.
public enum Scalar: Hashable, Sendable {
    /// Text.
    case string(String)
    /// An integer.
    case integer(Int)
    /// A floating-point number.
    case double(Double)
    /// A boolean.
    case boolean(Bool)
    /// Text that is stored only as its salted hash.
    case hashed(String)
}

/// Descriptions never contain hashed text.
extension Scalar: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The value as text; "<private>" for text to be hashed.
    public var description: String {
        switch self {
        case .string(let value): value
        case .integer(let value): "\(value)"
        case .double(let value): "\(value)"
        case .boolean(let value): "\(value)"
        case .hashed: "<private>"
        }
    }

    /// The same as ``description``.
    public var debugDescription: String { self.description }
    /// Hides the value from reflection.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Scalar: ScalarFieldValue {
    /// `false` for NaN and the infinities.
    public var isFinite: Bool {
        switch self {
        case .double(let value): value.isFinite
        case .string, .integer, .boolean, .hashed: true
        }
    }

    /// Writes the associated value.
    public func append(to fields: inout Fields) {
        switch self {
        case .string(let value): value.append(to: &fields)
        case .integer(let value): value.append(to: &fields)
        case .double(let value): value.append(to: &fields)
        case .boolean(let value): value.append(to: &fields)
        case .hashed(let value): fields.hash(of: value.utf8).append(to: &fields)
        }
    }
}

/// For `Encodable` events: a ``Scalar/hashed(_:)`` member is a private field.
extension Scalar: Encodable {
    /// Encodes the value; for any encoder but an event's, text to be hashed is "<private>".
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .string(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .double(let value): try container.encode(value)
        case .boolean(let value): try container.encode(value)
        case .hashed: try container.encode(self.description)
        }
    }
}

extension Scalar: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByBooleanLiteral
{
    /// Text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// An integer.
    public init(integerLiteral value: Int) { self = .integer(value) }
    /// A floating-point number.
    public init(floatLiteral value: Double) { self = .double(value) }
    /// A boolean.
    public init(booleanLiteral value: Bool) { self = .boolean(value) }
}
