public import Foundation
public import WaybillEvent

extension Date: ScalarFieldValue {
    /// Whether the date is in the years 0 to 9999, which the format can represent.
    public var isFinite: Bool { self.milliseconds != nil }

    /// Writes text such as "2025-03-01T09:14:21.403Z", rounded to milliseconds.
    public func append(to fields: inout Fields) {
        if let milliseconds { fields.putTime(milliseconds) }
    }

    private var milliseconds: Int64? {
        // The nearest: three digits after the point have no exact binary form.
        let milliseconds = Int64(exactly: (self.timeIntervalSince1970 * 1000).rounded())
        return milliseconds.flatMap { Timestamp.representable.contains($0) ? $0 : nil }
    }
}

extension URL: ScalarFieldValue {
    /// Writes the absolute URL as text.
    public func append(to fields: inout Fields) { self.absoluteString.append(to: &fields) }
}

extension UUID: ScalarFieldValue {
    /// Writes the id in lower case.
    public func append(to fields: inout Fields) { self.uuidString.lowercased().append(to: &fields) }
}

extension Decimal: NumberFieldValue {
    /// Writes a number without exponent if it has at most 15 digits, else the same digits as text.
    ///
    /// A reader with doubles keeps each decimal of up to 15 digits, and gives it back as it was.
    public func append(to fields: inout Fields) {
        guard self.isFinite else { return }
        let text = self.description
        let digits = text.utf8.drop { !(UInt8(ascii: "1")...UInt8(ascii: "9")).contains($0) }
        let digitCount = digits.count { $0 != UInt8(ascii: ".") }
        if digitCount <= Self.digitCountMax, text.utf8.count <= Self.byteCountMax {
            fields.putNumber(text)
        } else {
            text.append(to: &fields)
        }
    }

    private static var digitCountMax: Int { 15 }
    /// With zeros after the point.
    private static var byteCountMax: Int { 40 }
}

extension CGFloat: NumberFieldValue {
    /// Writes a number; nothing for NaN and the infinities.
    public func append(to fields: inout Fields) { Double(self).append(to: &fields) }
}
