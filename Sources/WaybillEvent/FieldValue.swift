/// A value that a field can have: text, number, truth value, or a list of those.
public protocol FieldValue {
    /// Whether JSON can hold the value; NaN and infinities are not numbers there.
    var isFinite: Bool { get }
    /// Writes the value: appends one value of another type. Called by ``Fields`` alone, after the key.
    func append(to fields: inout Fields)
}

/// A value that is not a list.
public protocol ScalarFieldValue: FieldValue {}

extension FieldValue {
    /// `true`: all but floating-point numbers are.
    @inlinable public var isFinite: Bool { true }
}

extension String: ScalarFieldValue {
    /// Writes a JSON string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendString(self) } }
}

extension Bool: ScalarFieldValue {
    /// Writes `true` or `false`.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendBoolean(self) } }
}

extension Double: ScalarFieldValue {
    /// Writes the shortest decimal that reads back as this number; nothing for NaN and the infinities.
    public func append(to fields: inout Fields) {
        if self.isFinite { fields.putValue { $0.appendNumber(self) } }
    }
}

extension Int: ScalarFieldValue {
    /// Writes a decimal; beyond 2^53 as a string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(Int64(self)) } }
}

extension Int64: ScalarFieldValue {
    /// Writes a decimal; beyond 2^53 as a string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(self) } }
}

extension UInt64: ScalarFieldValue {
    /// Writes a decimal; beyond 2^53 as a string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(self) } }
}

extension Int32: ScalarFieldValue {
    /// Writes a decimal.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(Int64(self)) } }
}

extension UInt32: ScalarFieldValue {
    /// Writes a decimal.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(Int64(self)) } }
}

extension UInt: ScalarFieldValue {
    /// Writes a decimal; beyond 2^53 as a string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendNumber(UInt64(self)) } }
}

extension Float: ScalarFieldValue {
    /// Writes the shortest decimal that reads back as this number; nothing for NaN and the infinities.
    public func append(to fields: inout Fields) {
        if self.isFinite { fields.putValue { $0.appendNumber(Double(self.description) ?? Double(self)) } }
    }
}

extension Substring: ScalarFieldValue {
    /// Writes a JSON string.
    public func append(to fields: inout Fields) { fields.putValue { $0.appendString(String(self)) } }
}

extension Array: FieldValue where Element: ScalarFieldValue {
    /// Whether every element is.
    public var isFinite: Bool { self.allSatisfy(\.isFinite) }

    /// Writes a JSON array.
    public func append(to fields: inout Fields) {
        fields.putList(self)
    }
}

/// A value of one of the kinds that a trait can have.
public enum Scalar: Hashable, Sendable {
    /// Text.
    case string(String)
    /// A whole number.
    case integer(Int)
    /// A number with a fraction.
    case double(Double)
    /// A truth value.
    case boolean(Bool)
    /// Text that must not reach the disk: its salted hash stands for it.
    case hashed(String)
}

/// Hashed text never prints.
extension Scalar: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The value; "<private>" for text that is to be hashed.
    public var description: String {
        switch self {
        case .string(let value): value
        case .integer(let value): "\(value)"
        case .double(let value): "\(value)"
        case .boolean(let value): "\(value)"
        case .hashed: "<private>"
        }
    }

    /// As ``description``.
    public var debugDescription: String { self.description }
    /// Without the value.
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

    /// Writes the value that this is.
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

extension Scalar: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByBooleanLiteral
{
    /// Text.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A whole number.
    public init(integerLiteral value: Int) { self = .integer(value) }
    /// A number with a fraction.
    public init(floatLiteral value: Double) { self = .double(value) }
    /// A truth value.
    public init(booleanLiteral value: Bool) { self = .boolean(value) }
}
