/// The campaign parameters in the query of a URL.
///
///     https://shop.example/p/17?utm_source=mail&utm_campaign=spring%20sale&gclid=Cj0K
///
/// Only the first 8 KiB of a URL are read, and values of up to 255 bytes; the first parameter of a name counts.
struct Campaign: Sendable {
    /// The parameters found, in the order of their names.
    let parameters: [(name: String, value: String)]

    /// Parameters that name a campaign, as Google Analytics defines them.
    static let campaignNames = [
        "utm_source", "utm_medium", "utm_campaign", "utm_id", "utm_term", "utm_content", "utm_source_platform",
        "utm_creative_format", "utm_marketing_tactic",
    ]
    /// Ids of clicks on advertisements: Google, Meta, Microsoft, TikTok, X, LinkedIn, Reddit, Snapchat.
    static let clickNames = [
        "gclid", "gbraid", "wbraid", "dclid", "fbclid", "msclkid", "ttclid", "twclid", "li_fat_id", "rdt_cid", "ScCid",
    ]
    static let names = Self.campaignNames + Self.clickNames

    private static let urlByteCountMax = 8 << 10
    private static let valueByteCountMax = 255

    /// - Parameter names: the parameters to read.
    init(of url: String, names: [String]) {
        var found: [String: String] = [:]
        let bytes = url.utf8.prefix(Self.urlByteCountMax).prefix { $0 != UInt8(ascii: "#") }
        let query = bytes.drop { $0 != UInt8(ascii: "?") }.dropFirst()
        for parameter in query.split(separator: UInt8(ascii: "&")) {
            let name = String(decoding: parameter.prefix { $0 != UInt8(ascii: "=") }, as: UTF8.self)
            guard names.contains(name), found[name] == nil else { continue }
            let value = Self.decoded(parameter.dropFirst(name.utf8.count + 1))
            guard (1...Self.valueByteCountMax).contains(value.utf8.count) else { continue }
            found[name] = value
        }
        self.parameters = names.compactMap { name in found[name].map { (name: name, value: $0) } }
    }

    /// Decodes `%41` and `+`; an escape that is none is kept as it is.
    private static func decoded(_ text: Substring.UTF8View) -> String {
        var bytes: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                let digits = rest.prefix(2).compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
                if digits.count == 2 {
                    bytes.append(UInt8(digits[0] << 4 | digits[1]))
                    rest = rest.dropFirst(2)
                } else {
                    bytes.append(byte)
                }
            default: bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
