import Testing
import WaybillJSON
import WaybillSystem

@testable import WaybillIngest

/// The parts of a line that a draft takes from its request.
struct LineDraftTests {
    /// What `write` adds to an object, with the tape of a request.
    private static func written(
        _ request: String, _ write: (inout JSONWriter, borrowing JSONTape) throws -> Void
    ) throws -> String {
        var tape = JSONTape()
        return try Array(request.utf8).withUnsafeBytes { bytes in
            try tape.parse(bytes)
            var json = JSONWriter()
            json.beginObject()
            try write(&json, tape)
            json.endObject()
            return String(decoding: json.output.bytes, as: UTF8.self)
        }
    }

    private static func value(_ name: StaticString, _ tape: borrowing JSONTape) throws -> Int {
        let value = tape.firstValue(of: name, in: 0)
        return try #require(value)
    }

    @Test func `traits are set and removed in one object, and counted in others`() throws {
        let request = #"{"set":{"a":1,"b":null},"once":{"c":null,"d":2},"add":{"e":3}}"#
        let line = try Self.written(request) { json, tape in
            var traits = LineDraft.Traits()
            #expect(traits.isEmpty)
            traits.set = .init(object: try Self.value("set", tape))
            traits.once = .init(object: try Self.value("once", tape), isWithoutNull: true)
            traits.added = .init(object: try Self.value("add", tape))
            // The name of the member `set`.
            traits.unset = [1]
            #expect(!traits.isEmpty)
            traits.write(to: &json, tape)
        }
        #expect(line == #"{"traits":{"a":1,"b":null,"set":null},"traits_once":{"d":2},"traits_add":{"e":3}}"#)
    }

    @Test func `a further member takes the place of a field, and a field that of the sender's context`() throws {
        let request = #"{"own":{"a":1,"group":"x"},"other":{"context":5},"around":{"ip":"z","k":true}}"#
        func line(_ name: StaticString) throws -> String {
            try Self.written(request) { json, tape in
                var data = LineDraft.Fields()
                data.fields = [.init(object: try Self.value(name, tape))]
                data.extra = [("group", .fixed("g"))]
                let around = try Self.value("around", tape)
                data.context = [.object(name: "os", .init(object: around, without: ["ip"]))]
                data.address = "192.0.2.7"
                data.write(to: &json, tape)
            }
        }
        #expect(
            try line("own")
                == #"{"data":{"a":1,"group":"g","context":{"ip":"192.0.2.7","os":{"k":true}}}}"#)
        #expect(try line("other") == #"{"data":{"context":5,"group":"g"}}"#)
    }

    @Test func `nothing is written of nothing`() throws {
        #expect(try Self.written("{}") { LineDraft.Fields().write(to: &$0, $1) } == "{}")
    }
}
