internal import Logging
internal import Waybill

/// Limits on the fields of a log call; bytes are those in the line, including escapes.
///
/// Half of a line (32 KiB) is left for the context and registered fields.
package enum LogLimits {
    /// Longer messages are truncated.
    package static let messageByteCountMax = 4096
    /// Longer metadata values are truncated.
    package static let valueByteCountMax = 1024
    /// Values with longer names, after flattening, are left out.
    package static let nameByteCountMax = 255
    /// Values above this total are left out.
    package static let fieldsByteCountMax = 16 << 10
    /// Values nested deeper than this are left out.
    package static let depthMax = 8
}

/// Adds a log call's fields within ``LogLimits``, with private values replaced.
struct LogFields {
    struct Losses: Hashable {
        var cutTexts: UInt64 = 0
        var leftOutFields: UInt64 = 0
    }

    private let privacy: MetadataPrivacyRules
    private var room = LogLimits.fieldsByteCountMax
    private(set) var losses = Losses()

    /// The bytes of a member's quotes, colon and comma.
    private static let memberByteCount = 6

    /// The names of the call's own fields; metadata with such a name becomes `metadata.<name>`.
    private static let reservedNames: Set<String> = [
        "level", "message", "logger", "source", "file", "function", "line", "log.cut", "log.left_out",
    ]

    init(privacy: MetadataPrivacyRules) {
        self.privacy = privacy
    }

    /// Adds metadata sorted by key, because dictionaries have no order.
    mutating func put(_ metadata: Logger.Metadata, into fields: inout Fields) {
        for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
            self.put(Self.reservedNames.contains(key) ? "metadata.\(key)" : key, value, depth: 0, into: &fields)
        }
    }

    private mutating func put(_ name: String, _ value: Logger.MetadataValue, depth: Int, into fields: inout Fields) {
        guard depth <= LogLimits.depthMax else { return self.losses.leftOutFields += 1 }
        switch value {
        case .dictionary(let members):
            for (key, value) in members.sorted(by: { $0.key < $1.key }) {
                self.put("\(name).\(key)", value, depth: depth + 1, into: &fields)
            }
        case .array(let elements):
            for (index, value) in elements.enumerated() {
                self.put("\(name).\(index)", value, depth: depth + 1, into: &fields)
            }
        case .string(let text):
            self.putScalar(name, text, nil, isPrivate: self.privacy.isPrivate(value.attributes), into: &fields)
        case .stringConvertible(let box):
            let isPrivate = self.privacy.isPrivate(value.attributes)
            self.putScalar(name, box.description, Self.number(box), isPrivate: isPrivate, into: &fields)
        }
    }

    /// A value with a more specific JSON type than text.
    private static func number(_ value: any CustomStringConvertible) -> Scalar? {
        switch value {
        case let value as Int: .integer(value)
        case let value as Bool: .boolean(value)
        case let value as Double where value.isFinite: .double(value)
        default: nil
        }
    }

    private mutating func putScalar(
        _ name: String, _ text: String, _ number: Scalar?, isPrivate: Bool, into fields: inout Fields
    ) {
        if isPrivate {
            guard self.takeRoom(for: name, valueByteCount: Fields.privateByteCount) else { return }
            fields.putPrivate(name, text)
        } else if let number {
            guard self.takeRoom(for: name, valueByteCount: text.utf8.count) else { return }
            fields.put(name, number)
        } else {
            self.put(name, text, into: &fields)
        }
    }

    /// Adds a text, truncated to its limit.
    mutating func put(
        _ name: String, _ text: String, byteCountMax: Int = LogLimits.valueByteCountMax, into fields: inout Fields
    ) {
        let kept = LineText.prefix(of: text, byteCountMax: byteCountMax)
        guard self.takeRoom(for: name, valueByteCount: kept.byteCount) else { return }
        if kept.text.utf8.count < text.utf8.count { self.losses.cutTexts += 1 }
        fields.put(name, kept.text)
    }

    private mutating func takeRoom(for name: String, valueByteCount: Int) -> Bool {
        let byteCount = LineText.byteCount(of: name) + valueByteCount + Self.memberByteCount
        guard name.utf8.count <= LogLimits.nameByteCountMax, byteCount <= self.room else {
            self.losses.leftOutFields += 1
            return false
        }
        self.room -= byteCount
        return true
    }
}

extension Fields {
    static var privateByteCount: Int { 9 }

    /// Adds a private field; only this method decides what is stored instead of its value.
    mutating func putPrivate(_ name: String, _ text: String) {
        self.put(name, "<private>")
    }
}

/// Text as encoded in a line, between its quotes.
enum LineText {
    /// The number of bytes of a text in a line.
    static func byteCount(of text: String) -> Int {
        text.utf8.reduce(0) { $0 + Self.byteCount(of: $1) }
    }

    /// The first characters of a text that take at most `byteCountMax` bytes in a line, and the bytes they take.
    static func prefix(of text: String, byteCountMax: Int) -> (text: String, byteCount: Int) {
        let whole = Self.byteCount(of: text)
        if whole <= byteCountMax { return (text, whole) }
        var byteCount = 0
        for index in text.unicodeScalars.indices {
            let scalar = text.unicodeScalars[index].utf8.reduce(0) { $0 + Self.byteCount(of: $1) }
            if byteCount + scalar > byteCountMax { return (String(text.unicodeScalars[..<index]), byteCount) }
            byteCount += scalar
        }
        return (text, byteCount)
    }

    private static func byteCount(of byte: UInt8) -> Int {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), 0x08, 0x09, 0x0A, 0x0C, 0x0D: 2
        case 0x00..<0x20: 6
        default: 1
        }
    }
}
