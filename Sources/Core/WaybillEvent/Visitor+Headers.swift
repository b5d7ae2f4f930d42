/// What the headers of a request say of a visitor's device.
extension Visitor {
    /// Takes user agent, language, system and model from the headers of a request, and the country if one has it.
    ///
    ///     visitor.readHeaders { name in request.headers.first(name: name) }
    ///
    /// It reads `User-Agent`, the first choice of `Accept-Language` (RFC 9110, section 12.5.4), and the client hints
    /// `Sec-CH-UA-Platform` and `Sec-CH-UA-Model`, which Chromium's browsers send. A header that is missing or has
    /// another form changes nothing. No header with an address is read.
    ///
    /// - Parameters:
    ///   - countryHeader: the header in which a content delivery network in front of the server sends the visitor's
    ///     country, such as `CF-IPCountry`; `nil` if there is none, because then it would be what the visitor writes.
    ///   - value: returns a header's value; names are compared without regard to case.
    public mutating func readHeaders(countryHeader: String? = nil, _ value: (_ name: String) -> String?) {
        if let text = value("User-Agent"), !text.isEmpty { self.userAgent = text }
        if let text = value("Accept-Language").flatMap(Self.firstLanguage) { self.language = text }
        if let text = value("Sec-CH-UA-Platform").flatMap(Self.hint), text != "Unknown" { self.os = text }
        if let text = value("Sec-CH-UA-Model").flatMap(Self.hint) { self.model = text }
        // Cloudflare says XX for an unknown country.
        if let text = countryHeader.flatMap(value), Self.isCountry(text), text.uppercased() != "XX" {
            self.country = text
        }
    }

    /// The language with the greatest weight, the first of equals: "da, en-GB;q=0.8" → "da".
    static func firstLanguage(_ header: String) -> String? {
        var best: (tag: Substring, weight: Int)?
        // Browsers send some ten at most.
        for choice in header.split(separator: ",", maxSplits: 31).prefix(31) {
            let parts = choice.split(separator: ";", maxSplits: 1).map(Self.trimmed)
            guard let tag = parts.first, Self.isLanguage(tag), let weight = Self.weight(parts.dropFirst().first) else {
                continue
            }
            if weight > (best?.weight ?? 0) { best = (tag, weight) }
        }
        return best.map { String($0.tag) }
    }

    /// A weight in thousandths, as "q=0.8" has; `nil` for another form.
    private static func weight(_ parameter: Substring?) -> Int? {
        guard let parameter else { return 1000 }
        guard parameter.hasPrefix("q=") || parameter.hasPrefix("Q=") else { return nil }
        let digits = parameter.dropFirst(2)
        let parts = digits.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard let whole = parts.first, whole == "0" || whole == "1" else { return nil }
        let fraction = parts.count == 2 ? parts[1] : ""
        guard fraction.utf8.count <= 3, fraction.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        let thousandths = fraction.utf8.reduce(0) { $0 * 10 + Int($1 - 0x30) }
        let scale = [1000, 100, 10, 1][fraction.utf8.count]
        return min(1000, (whole == "1" ? 1000 : 0) + thousandths * scale)
    }

    /// The text of a client hint, a string of RFC 8941: `"Android"`; `nil` if it is empty or has another form.
    private static func hint(_ header: String) -> String? {
        let text = Self.trimmed(header[...])
        guard text.utf8.count > 2, text.utf8.first == UInt8(ascii: "\""), text.utf8.last == UInt8(ascii: "\"") else {
            return nil
        }
        let inside = text.dropFirst().dropLast()
        let isPlain = inside.utf8.allSatisfy {
            (0x20...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
        }
        return isPlain && Self.isDeviceText(String(inside)) ? String(inside) : nil
    }

    private static func trimmed(_ text: Substring) -> Substring {
        func isSpace(_ character: Character) -> Bool { character == " " || character == "\t" }
        var text = text.drop(while: isSpace)
        while text.last.map(isSpace) == true { text.removeLast() }
        return text
    }

    /// Whether a text can be a language's tag: 1 to 35 letters, digits and hyphens, a letter first.
    static func isLanguage(_ text: Substring) -> Bool {
        func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte | 0x20) }
        // RFC 5646, section 4.4.1: 35 characters are enough for any tag.
        guard 1...35 ~= text.utf8.count, text.utf8.first.map(isLetter) == true else { return false }
        return text.utf8.allSatisfy { isLetter($0) || (0x30...0x39).contains($0) || $0 == UInt8(ascii: "-") }
    }

    static func isCountry(_ text: String) -> Bool {
        text.utf8.count == 2 && text.utf8.allSatisfy { (0x61...0x7A).contains($0 | 0x20) }
    }

    static func isDeviceText(_ text: String) -> Bool {
        1...EventLimits.deviceTextByteCountMax ~= text.utf8.count
    }
}
