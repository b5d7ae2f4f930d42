/// Text from events inside markup: escaped, short, and with its invisible characters shown.
enum MarkupText {
    /// So many characters of a name are shown in a table.
    static let nameScalarCountMax = 96

    /// Returns markup that shows `text` and nothing else.
    ///
    /// Longer texts end with "…" and their length. The limit counts Unicode scalars: one character may have a million.
    static func escaped(_ text: String, scalarCountMax: Int = Self.nameScalarCountMax) -> String {
        var markup = ""
        var count = 0
        for scalar in text.unicodeScalars {
            if count == scalarCountMax {
                markup += "… (\(ReportNumber.grouped(text.utf8.count)) bytes)"
                break
            }
            count += 1
            Self.append(scalar, to: &markup)
        }
        return markup
    }

    /// The first characters of `text` with "…" for the rest; not escaped.
    static func shortened(_ text: String, scalarCountMax: Int) -> String {
        let start = String(String.UnicodeScalarView(text.unicodeScalars.prefix(scalarCountMax)))
        return start.utf8.count == text.utf8.count ? text : start + "…"
    }

    private static func append(_ scalar: Unicode.Scalar, to markup: inout String) {
        switch scalar {
        case "&": markup += "&amp;"
        case "<": markup += "&lt;"
        case ">": markup += "&gt;"
        case "\"": markup += "&quot;"
        case "'": markup += "&#39;"
        default:
            if Self.isInvisible(scalar) {
                markup += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
            } else {
                markup.unicodeScalars.append(scalar)
            }
        }
    }

    /// Controls, and what turns the direction of text around or has no width: two names that differ look different.
    private static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0...0x1F, 0x7F...0x9F, 0xAD, 0x061C, 0x200B, 0x200E, 0x200F, 0x2028...0x202E, 0x2060...0x206F, 0xFEFF,
            0xFFF9...0xFFFB, 0xFFFE, 0xFFFF, 0xE0000...0xE0FFF:
            true
        default: false
        }
    }
}
