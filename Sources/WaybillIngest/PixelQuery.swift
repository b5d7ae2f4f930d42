internal import WaybillJSON

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
