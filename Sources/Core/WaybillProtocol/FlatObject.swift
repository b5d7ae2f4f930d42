internal import WaybillJSON

/// The JSON object of a `HELLO`, `READY`, `OPEN`, `NOTE` or `MOVE`: members by name; of duplicates the first wins.
struct FlatObject {
    private let json: JSONValue

    init(_ json: UnsafeRawBufferPointer) throws(WireError) {
        do throws(JSONError) {
            self.json = try JSONValue(parsing: json)
        } catch {
            throw .badJSON(byteOffset: error.offset)
        }
    }

    private init(_ json: JSONValue) {
        self.json = json
    }

    func string(_ name: StaticString) throws(WireError) -> String {
        try Self.needed(name, self.json[name]?.string)
    }

    /// `nil` when the member is absent or null.
    func optionalString(_ name: StaticString) throws(WireError) -> String? {
        guard let value = self.json[name], value.kind != .null else { return nil }
        return try self.string(name)
    }

    /// A string of which ``FreeText/isName(_:)`` holds.
    func name(_ name: StaticString) throws(WireError) -> String {
        let text = try self.string(name)
        guard FreeText.isName(text) else { throw .badMember("\(name)") }
        return text
    }

    func integer(_ name: StaticString) throws(WireError) -> UInt64 {
        UInt64(try Self.needed(name, self.json[name]?.count))
    }

    /// A positive integer that is a limit.
    func count(_ name: StaticString) throws(WireError) -> Int {
        try Self.needed(name, self.json[name]?.count.flatMap { $0 > 0 ? $0 : nil })
    }

    func integers(_ name: StaticString) throws(WireError) -> [UInt64] {
        try Self.needed(name, self.json[name]?.elements?.all { $0.count.map { UInt64($0) } })
    }

    func strings(_ name: StaticString) throws(WireError) -> [String] {
        try Self.needed(name, self.json[name]?.elements?.all(\.string))
    }

    /// Empty when the member is absent or null.
    func optionalStrings(_ name: StaticString) throws(WireError) -> [String] {
        guard let value = self.json[name], value.kind != .null else { return [] }
        return try self.strings(name)
    }

    func object(_ name: StaticString) throws(WireError) -> FlatObject {
        FlatObject(try Self.needed(name, self.json[name].flatMap { $0.kind == .object ? $0 : nil }))
    }

    /// `nil` when the member is absent or null.
    func optionalInteger(_ name: StaticString) throws(WireError) -> UInt64? {
        guard let value = self.json[name], value.kind != .null else { return nil }
        return try self.integer(name)
    }

    func objects(_ name: StaticString) throws(WireError) -> [FlatObject] {
        try Self.needed(name, self.json[name]?.elements?.all { $0.kind == .object ? FlatObject($0) : nil })
    }

    /// Empty when the member is absent or null.
    func optionalObjects(_ name: StaticString) throws(WireError) -> [FlatObject] {
        guard let value = self.json[name], value.kind != .null else { return [] }
        return try self.objects(name)
    }

    /// An array of pairs of an id and a position.
    func starts(_ name: StaticString) throws(WireError) -> [ReceiverStart] {
        try Self.needed(
            name,
            self.json[name]?.elements?.all { pair in
                guard let parts = pair.elements, parts.count == 2, let text = parts[0].string,
                    let id = FreeText.bits(text.utf8), let position = parts[1].count
                else { return nil }
                return ReceiverStart(id: id, position: UInt64(position))
            })
    }

    private static func needed<Value>(_ name: StaticString, _ value: Value?) throws(WireError) -> Value {
        guard let value else { throw .badMember("\(name)") }
        return value
    }
}
