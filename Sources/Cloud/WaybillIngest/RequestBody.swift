internal import WaybillCompression
internal import WaybillJSON

/// The text in a request's body, whatever its SDK wrapped it into.
///
///     gzip, zlib or deflate ─▶ `data=` of a form ─▶ base64 ─▶ JSON, or lines of JSON
///
/// The bytes decide, not the content type: browsers say `text/plain` so that nothing is asked before, and libraries forget to
/// name their compression.
package enum RequestBody {
    package enum Refusal: Error, Hashable, Sendable {
        /// More than ``IngestLimits/bodyByteCountMax`` once it is inflated.
        case tooLarge
        /// More than ``IngestLimits/inflationMax`` bytes for each that came, as only bombs have.
        case inflation
        case notCompressedAsSaid
        /// A `Content-Encoding` that is not known.
        case encoding
    }

    /// - Parameter encoding: the request's `Content-Encoding`, in lower case.
    package static func inflate(
        _ body: [UInt8], encoding: String?, byteCountMax: Int = IngestLimits.bodyByteCountMax
    ) throws(Refusal) -> [UInt8] {
        switch encoding {
        case nil, "", "identity", "gzip", "x-gzip", "deflate": break
        default: throw .encoding
        }
        guard let format = self.format(of: body, encoding: encoding) else { return body }
        return try self.inflate(body, format, byteCountMax)
    }

    /// Whether a body is to be inflated.
    package static func isCompressed(_ body: [UInt8], encoding: String?) -> Bool {
        self.format(of: body, encoding: encoding?.lowercased()) != nil
    }

    private static func format(of body: [UInt8], encoding: String?) -> GzipInflater.Format? {
        guard let first = body.first, body.count > 1 else { return nil }
        let isGzip = first == 0x1F && body[1] == 0x8B
        let isZlib = first & 0x0F == 8 && (Int(first) << 8 | Int(body[1])).isMultiple(of: 31)
        if isGzip || isZlib { return .automatic }
        return encoding == "deflate" ? .raw : nil
    }

    private static func inflate(
        _ body: [UInt8], _ format: GzipInflater.Format, _ byteCountMax: Int
    ) throws(Refusal) -> [UInt8] {
        var inflater = GzipInflater(format)
        var output: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        let inflatedMax = IngestLimits.inflatedByteCountMin + IngestLimits.inflationMax * body.count
        var start = 0
        while start < body.count || !inflater.isBetweenMembers {
            let step: (taken: Int, filled: Int)
            do throws(InflateError) {
                step = try body[start...].withUnsafeBufferPointer { (rest) throws(InflateError) in
                    try piece.withUnsafeMutableBufferPointer { (room) throws(InflateError) in
                        try inflater.inflate(UnsafeRawBufferPointer(rest), into: UnsafeMutableRawBufferPointer(room))
                    }
                }
            } catch {
                throw .notCompressedAsSaid
            }
            // A stream that ends too soon.
            guard step.taken + step.filled > 0 else { throw .notCompressedAsSaid }
            start += step.taken
            guard output.count + step.filled <= byteCountMax else { throw .tooLarge }
            guard output.count + step.filled <= inflatedMax else { throw .inflation }
            output.append(contentsOf: piece[..<step.filled])
        }
        return output
    }

    /// The text that a request's dialect reads.
    ///
    /// - Parameter query: what a pixel, and a PostHog capture by `GET`, have instead of a body.
    package static func text(
        of body: [UInt8], encoding: String?, query: Substring, _ dialect: Dialect,
        byteCountMax: Int = IngestLimits.bodyByteCountMax
    ) throws(Refusal) -> [UInt8] {
        guard dialect != .pixel else { return PixelQuery.event(of: Array(query.utf8)) }
        let sent = body.isEmpty && dialect == .posthog ? Array(query.utf8) : body
        let text = try self.inflate(sent, encoding: encoding, byteCountMax: byteCountMax)
        return dialect == .native ? text : self.unwrap(text)
    }

    /// Takes the JSON out of a form or out of base64; anything else stays as it is.
    package static func unwrap(_ body: [UInt8]) -> [UInt8] {
        guard let first = body.first(where: { !$0.isBlank }) else { return body }
        if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") || first == 0xEF { return body }
        if let value = FormText.value(of: "data", in: body) { return Base64Text.decode(value) ?? value }
        return Base64Text.decode(body) ?? body
    }
}

extension UInt8 {
    var isBlank: Bool { self == 0x20 || self == 0x0A || self == 0x0D || self == 0x09 }
}

/// Queries, and the bodies of forms.
package enum FormText {
    /// The first value of a name, decoded.
    ///
    /// Nothing else is copied or decoded: a body may have millions of pairs, and comes here before its key is known.
    package static func value(of name: StaticString, in text: [UInt8]) -> [UInt8]? {
        let place = text.withUnsafeBufferPointer { bytes in
            name.withUTF8Buffer { self.place(ofValueOf: $0, in: bytes) }
        }
        return place.map { self.decode(text[$0]) }
    }

    private static func place(
        ofValueOf name: UnsafeBufferPointer<UInt8>, in text: UnsafeBufferPointer<UInt8>
    ) -> Range<Int>? {
        var start = 0
        while start < text.count {
            let value = self.start(ofValueOf: name, in: text, pairAt: start)
            let end = text[(value ?? start)...].firstIndex(of: UInt8(ascii: "&")) ?? text.count
            if let value { return value..<end }
            start = end + 1
        }
        return nil
    }

    /// Where the value of a pair begins; `nil` if the pair has another name, or no value.
    private static func start(
        ofValueOf name: UnsafeBufferPointer<UInt8>, in text: UnsafeBufferPointer<UInt8>, pairAt start: Int
    ) -> Int? {
        var position = start
        for wanted in name {
            guard position < text.count, text[position] != UInt8(ascii: "&"), text[position] != UInt8(ascii: "=")
            else { return nil }
            let (byte, byteCount) = self.character(in: text, at: position)
            guard byte == wanted else { return nil }
            position += byteCount
        }
        return position < text.count && text[position] == UInt8(ascii: "=") ? position + 1 : nil
    }

    static func decode(_ text: some Collection<UInt8>) -> [UInt8] {
        Array(text).withUnsafeBufferPointer { text in
            var result: [UInt8] = []
            var position = 0
            while position < text.count {
                let (byte, byteCount) = self.character(in: text, at: position)
                result.append(byte)
                position += byteCount
            }
            return result
        }
    }

    /// What stands at a position, and how many bytes it takes; percent signs that begin no escape stay.
    private static func character(
        in text: UnsafeBufferPointer<UInt8>, at position: Int
    ) -> (byte: UInt8, byteCount: Int) {
        let byte = text[position]
        if byte == UInt8(ascii: "%"), position + 2 < text.count, let high = self.digit(text[position + 1]),
            let low = self.digit(text[position + 2])
        {
            return (high << 4 | low, 3)
        }
        return (byte == UInt8(ascii: "+") ? 0x20 : byte, 1)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}

/// Base64 as browsers' SDKs write it: either alphabet, with or without padding.
package enum Base64Text {
    /// - Returns: `nil` if it is not base64, or empty.
    package static func decode(_ text: [UInt8]) -> [UInt8]? {
        var result: [UInt8] = []
        result.reserveCapacity(text.count / 4 * 3)
        var word: UInt32 = 0
        var count = 0
        var padding = 0
        for byte in text where !byte.isBlank || byte == 0x20 {
            if byte == UInt8(ascii: "=") {
                padding += 1
                continue
            }
            // A blank is a plus that a form's decoding took for one.
            guard padding == 0, let value = Self.value(byte == 0x20 ? UInt8(ascii: "+") : byte) else { return nil }
            word = word << 6 | UInt32(value)
            count += 1
            guard count.isMultiple(of: 4) else { continue }
            result.append(UInt8(truncatingIfNeeded: word >> 16))
            result.append(UInt8(truncatingIfNeeded: word >> 8))
            result.append(UInt8(truncatingIfNeeded: word))
            word = 0
        }
        switch count % 4 {
        case 2: result.append(UInt8(truncatingIfNeeded: word >> 4))
        case 3:
            result.append(UInt8(truncatingIfNeeded: word >> 10))
            result.append(UInt8(truncatingIfNeeded: word >> 2))
        case 1: return nil
        default: break
        }
        return padding <= 2 && !result.isEmpty ? result : nil
    }

    private static func value(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): byte - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0") + 52
        case UInt8(ascii: "+"), UInt8(ascii: "-"): 62
        case UInt8(ascii: "/"), UInt8(ascii: "_"): 63
        default: nil
        }
    }
}

/// The key that a request names outside of its body.
package enum RequestKey {
    /// - Parameter authorization: the header: `Basic` with the key as the user's name, or `Bearer`.
    package static func named(query: Substring, authorization: String?) -> String? {
        let query = Array(query.utf8)
        for name in ["writeKey", "key", "api_key"] as [StaticString] {
            if let key = FormText.value(of: name, in: query) { return String(decoding: key, as: UTF8.self) }
        }
        return authorization.flatMap { self.key(inHeader: $0) }
    }

    private static func key(inHeader header: String) -> String? {
        let parts = header.split(separator: " ", maxSplits: 1)
        guard parts.count == 2 else { return nil }
        switch parts[0].lowercased() {
        case "bearer": return String(parts[1])
        case "basic":
            return Base64Text.decode(Array(parts[1].utf8)).map { bytes in
                String(decoding: bytes.prefix { $0 != UInt8(ascii: ":") }, as: UTF8.self)
            }
        default: return nil
        }
    }
}

/// `GET /v1/pixel.gif?key=…&event=…`: an event in the address of a picture, for mail.
///
/// `event`, `id`, `user`, `anon` and `ts` have their places; other names are fields of the event, as text. The first of a name
/// counts, and 64 names.
package enum PixelQuery {
    /// Names that are no fields; keys have three.
    private static let mapped = ["key", "writeKey", "api_key", "event", "id", "user", "anon", "ts"]

    /// The event as a call of Segment's.
    package static func event(of query: [UInt8]) -> [UInt8] {
        var fields: [(name: String, value: String)] = []
        for pair in query.split(separator: UInt8(ascii: "&")).prefix(64) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { continue }
            let name = String(decoding: FormText.decode(parts[0]), as: UTF8.self)
            guard !fields.contains(where: { $0.name == name }) else { continue }
            fields.append((name, String(decoding: FormText.decode(parts[1]), as: UTF8.self)))
        }
        func value(_ name: String) -> String? { fields.first { $0.name == name }?.value }
        return JSONWriter.object { json in
            json.member("type", "track")
            if let event = value("event") { json.member("event", event) }
            if let id = value("id") { json.member("messageId", id) }
            if let user = value("user") { json.member("userId", user) }
            // A mail has no visitor's id: the picture's own is one.
            json.member("anonymousId", value("anon") ?? value("id") ?? "pixel")
            if let time = value("ts") { json.member("timestamp", time) }
            json.member("properties") { json in
                for field in fields where !Self.mapped.contains(field.name) {
                    json.key(text: field.name)
                    json.string(field.value)
                }
            }
        }
    }
}
