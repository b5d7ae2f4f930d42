internal import WaybillJSON

/// The JSON object of a `HELLO`, `READY`, `OPEN` or `MOVE`: members by name, the first of a name wins.
struct FlatObject: ~Copyable {
    private let tape: JSONTape
    private let root: Int

    init(_ json: UnsafeRawBufferPointer) throws(WireError) {
        var tape = JSONTape()
        do throws(JSONError) {
            try tape.parse(json)
        } catch {
            throw .badJSON(byteOffset: error.offset)
        }
        self.tape = tape
        self.root = 0
    }

    private func value(_ name: StaticString, _ kind: JSONKind) throws(WireError) -> Int {
        guard let index = self.tape.firstValue(of: name, in: self.root), self.tape[index].kind == kind else {
            throw .badMember("\(name)")
        }
        return index
    }

    func string(_ name: StaticString) throws(WireError) -> String {
        JSONText.string(self.tape.bytes(of: try self.value(name, .string)))
    }

    /// `nil` when the member is absent or null.
    func optionalString(_ name: StaticString) throws(WireError) -> String? {
        guard let index = self.tape.firstValue(of: name, in: self.root), self.tape[index].kind != .null else {
            return nil
        }
        return try self.string(name)
    }

    func integer(_ name: StaticString) throws(WireError) -> UInt64 {
        try self.integer(at: try self.value(name, .number), name)
    }

    /// A positive integer that bounds something.
    func count(_ name: StaticString) throws(WireError) -> Int {
        let value = try self.integer(name)
        guard value > 0 else { throw .badMember("\(name)") }
        return Int(value)
    }

    func integers(_ name: StaticString) throws(WireError) -> [UInt64] {
        let array = try self.value(name, .array)
        var result: [UInt64] = []
        var index = array + 1
        while index < Int(self.tape[array].next) {
            guard self.tape[index].kind == .number else { throw .badMember("\(name)") }
            result.append(try self.integer(at: index, name))
            index = Int(self.tape[index].next)
        }
        return result
    }

    func strings(_ name: StaticString) throws(WireError) -> [String] {
        let array = try self.value(name, .array)
        var result: [String] = []
        var index = array + 1
        while index < Int(self.tape[array].next) {
            guard self.tape[index].kind == .string else { throw .badMember("\(name)") }
            result.append(JSONText.string(self.tape.bytes(of: index)))
            index = Int(self.tape[index].next)
        }
        return result
    }

    func object(_ name: StaticString) throws(WireError) -> FlatObject {
        let index = try self.value(name, .object)
        return try FlatObject(self.tape.bytes(of: index))
    }

    private func integer(at index: Int, _ name: StaticString) throws(WireError) -> UInt64 {
        let bytes = self.tape.bytes(of: index)
        // `UInt64` takes "-0", which has a sign.
        guard bytes.first != UInt8(ascii: "-"), let value = UInt64(String(decoding: bytes, as: UTF8.self)),
            value <= LineProtocol.integerMax
        else { throw .badMember("\(name)") }
        return value
    }
}
