internal import WaybillJSON
internal import WaybillSystem

/// Draft JSON Schemas of the events in parts of Snowplow records, one per event and log version.
///
///     com.example.shop/product_tapped/jsonschema/1-0-0
///
/// An event whose schema is not in the registry fails validation there, so an operator takes these, tightens them and
/// adds them. A draft lists the members that were seen and their types. Adding the same part twice changes nothing.
///
/// Bounded, as senders choose names and members: of a part the first ``Limits/Snowplow/draftCountMax`` drafts, of a draft the
/// first ``Limits/Snowplow/draftMemberCountMax`` members, those of an older draft before those of a part.
package struct SnowplowSchemas {
    /// The types of JSON Schema, in their order in a draft.
    private static let typeNames: [StaticString] = [
        "null", "boolean", "integer", "number", "string", "array", "object",
    ]

    /// Paths such as `com.example.shop/tap/jsonschema/1-0-0`, with the types of each member as bits.
    private var drafts: [String: [String: UInt8]] = [:]

    package init() {}

    /// The drafts' paths, relative to a folder of schemas.
    package var paths: [String] {
        self.drafts.keys.sorted()
    }

    /// Adds the records of a part.
    package mutating func add(part: [UInt8]) {
        part.withUnsafeBytes { part in
            var tape = JSONTape()
            var envelope = ByteBuilder()
            var start = 0
            while start < part.count {
                let end = part.firstNewline(from: start) ?? part.count
                self.add(UnsafeRawBufferPointer(rebasing: part[start..<end]), &tape, &envelope)
                start = end + 1
            }
        }
    }

    private mutating func add(
        _ line: UnsafeRawBufferPointer, _ tape: inout JSONTape, _ envelope: inout ByteBuilder
    ) {
        for name in ["ue_pr", "co"] as [StaticString] {
            guard tape.accepts(line), let index = tape.firstValue(of: name, in: 0) else { continue }
            envelope.removeAll()
            JSONText.unescape(tape.bytes(of: index), into: &envelope)
            guard tape.accepts(envelope.bytes), let data = tape.firstValue(of: "data", in: 0) else { continue }
            guard tape[data].kind == .array else {
                self.add(described: data, tape)
                continue
            }
            var entity = data + 1
            while entity < Int(tape[data].next) {
                self.add(described: entity, tape)
                entity = Int(tape[entity].next)
            }
        }
    }

    /// Adds the members of an object of `schema` and `data`.
    private mutating func add(described object: Int, _ tape: borrowing JSONTape) {
        guard let schema = tape.firstValue(of: "schema", in: object),
            let members = tape.firstValue(of: "data", in: object), tape[members].kind == .object
        else { return }
        let path = String(JSONText.string(tape.bytes(of: schema)).dropFirst("iglu:".utf8.count))
        // Those are in the public registry.
        if path.hasPrefix("com.snowplowanalytics.") { return }
        var walk = tape.members(of: members)
        if self.drafts[path] == nil {
            guard self.drafts.count < Limits.Snowplow.draftCountMax else { return }
            self.drafts[path] = [:]
        }
        while let (key, value) = walk.next(in: tape) {
            self.note(JSONText.string(tape.bytes(of: key)), Self.type(of: value, tape), at: path)
        }
    }

    private mutating func note(_ name: String, _ types: UInt8, at path: String) {
        let count = self.drafts[path]?.count ?? 0
        let isKnown = self.drafts[path]?[name] != nil
        guard isKnown || count < Limits.Snowplow.draftMemberCountMax,
            name.utf8.count <= Limits.Snowplow.draftNameByteCountMax
        else { return }
        self.drafts[path, default: [:]][name, default: 0] |= types
    }

    /// Adds an older draft.
    package mutating func add(draft: [UInt8], at path: String) {
        let found = self.drafts.updateValue([:], forKey: path) ?? [:]
        defer { for (name, types) in found.sorted(by: { $0.key < $1.key }) { self.note(name, types, at: path) } }
        draft.withUnsafeBytes { bytes in
            var tape = JSONTape()
            guard tape.accepts(bytes), let properties = tape.firstValue(of: "properties", in: 0),
                tape[properties].kind == .object
            else { return }
            var members = tape.members(of: properties)
            while let (key, value) = members.next(in: tape) {
                guard let types = tape.firstValue(of: "type", in: value), tape[types].kind == .array else { continue }
                var bits: UInt8 = 0
                var element = types + 1
                while element < Int(tape[types].next) {
                    for (bit, name) in Self.typeNames.enumerated()
                    where JSONText.equals(tape.bytes(of: element), isEscaped: false, name) {
                        bits |= 1 << bit
                    }
                    element += 1
                }
                self.note(JSONText.string(tape.bytes(of: key)), bits, at: path)
            }
        }
    }

    private static func type(of index: Int, _ tape: borrowing JSONTape) -> UInt8 {
        switch tape[index].kind {
        case .null: 1
        case .false, .true: 2
        case .number:
            tape.bytes(of: index).contains { $0 == UInt8(ascii: ".") || $0 | 0x20 == UInt8(ascii: "e") } ? 8 : 4
        case .string: 16
        case .array: 32
        case .object: 64
        }
    }

    /// The draft at one of the ``paths``: self-describing JSON Schema, one line.
    package func draft(at path: String) -> [UInt8] {
        let parts = path.split(separator: "/").map(String.init)
        precondition(parts.count == 4, "\(path) does not name a schema")
        return JSONWriter.object { json in
            json.member(
                "$schema", "http://iglucentral.com/schemas/com.snowplowanalytics.self-desc/schema/jsonschema/1-0-0#")
            json.member("description", "Draft from events seen; tighten it before you put it into a registry.")
            json.member("self") { json in
                json.member("vendor", parts[0])
                json.member("name", parts[1])
                json.member("format", parts[2])
                json.member("version", parts[3])
            }
            json.member("type", "object")
            json.member("properties") { json in
                for (name, types) in (self.drafts[path] ?? [:]).sorted(by: { $0.key < $1.key }) {
                    // Every integer is a number.
                    let known = types & 8 != 0 ? types & ~4 : types
                    let names = Self.typeNames.enumerated().filter { known & (1 << $0.offset) != 0 }
                    json.key(text: name)
                    json.beginObject()
                    json.member("type", array: names) { $0.string($1.element) }
                    json.endObject()
                }
            }
            json.member("additionalProperties", true)
        } + [0x0A]
    }
}
