internal import WaybillJSON

/// The JSON object of a `HELLO`, `READY`, `OPEN` or `MOVE`: members by name; of duplicates the first wins.
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

    func object(_ name: StaticString) throws(WireError) -> FlatObject {
        FlatObject(try Self.needed(name, self.json[name].flatMap { $0.kind == .object ? $0 : nil }))
    }

    private static func needed<Value>(_ name: StaticString, _ value: Value?) throws(WireError) -> Value {
        guard let value else { throw .badMember("\(name)") }
        return value
    }
}
