internal import WaybillSystem

/// Names of folders and files made from field values: confined, bounded, and reversible.
///
///     archive/env=prod/bundle=com.example.shop/date=2026-11-20/part-00001.ndjson
///     exports/ga4/env=prod/date=2026-11-20/part-00000.ndjson
///     quarantine/date=2026-11-20/not-json.ndjson
package enum PartitionPath {
    /// The folder for bundles that exceed the limit of distinct partitions.
    package static let overflowBundle = "_overflow"

    /// A value as one component of a path.
    ///
    /// Letters, digits, `.`, `-` and `_` are kept, except a `.` or `_` at the start; every other byte becomes `%XX`. A
    /// value longer than 100 bytes is cut there and followed by `%~` and a fingerprint of the whole value.
    package static func component(_ value: String) -> String {
        var result = ""
        for (index, byte) in value.utf8.enumerated() {
            if result.utf8.count >= 100 {
                return result + "%~" + Hexadecimal.text(FNV1a.hash(value.utf8), digitCount: 16)
            }
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            case UInt8(ascii: "."), UInt8(ascii: "_"):
                if index == 0 {
                    result += byte == UInt8(ascii: ".") ? "%2E" : "%5F"
                } else {
                    result.unicodeScalars.append(Unicode.Scalar(byte))
                }
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                result += digits.utf8.count == 1 ? "%0\(digits)" : "%\(digits)"
            }
        }
        return result
    }

    /// `part-00001`.
    package static func part(_ number: Int) -> String {
        "part-" + ZeroPadded.text(number, digitCount: 5)
    }

    /// `late-00001`: lines that arrived for a day after it was sealed.
    package static func late(_ number: Int) -> String {
        "late-" + ZeroPadded.text(number, digitCount: 5)
    }

    /// The number in a name such as `part-00001.ndjson`; `nil` for other names.
    package static func partNumber(of name: String) -> Int? {
        self.number(in: name, behind: "part-")
    }

    /// The number in a name such as `late-00001.ndjson`; `nil` for other names.
    package static func lateNumber(of name: String) -> Int? {
        self.number(in: name, behind: "late-")
    }

    private static func number(in name: String, behind prefix: String) -> Int? {
        guard name.hasPrefix(prefix) else { return nil }
        return Int(name.dropFirst(prefix.utf8.count).prefix { $0.isNumber })
    }
}
