import Testing
import WaybillJSON

@Suite struct JSONValueTests {
    private func json(_ text: String) throws -> JSONValue {
        try #require(JSONValue(Array(text.utf8)), "\(text)")
    }

    @Test func `members are read by name, and the first of a name counts`() throws {
        let json = try self.json(#"{"a":"x\u0041\n","n":12,"a":"y","list":[1,{"b":true},null],"o":{"c":false}}"#)
        #expect(json["a"]?.string == "xA\n" && json["a"]?.literal == #"x\u0041\n"#)
        #expect(json["n"]?.integer == 12 && json["n"]?.string == nil && json["missing"] == nil)
        #expect(json["list"]?.elements?.map(\.kind) == [.number, .object, .null])
        #expect(json["list"]?.elements?[1]["b"]?.bool == true && json["o"]?["c"]?.bool == false)
        #expect(json.members?.map(\.name) == ["a", "n", "a", "list", "o"])
        #expect(json["n"]?["a"] == nil && json["n"]?.elements == nil && json["list"]?.members == nil)
        #expect(json["n"].map { $0.range } == 21..<23)
    }

    @Test func `a count is whole, has no sign, and fits 53 bits`() throws {
        let json = try self.json(#"{"max":9007199254740991,"more":9007199254740992,"minus":-1,"zero":-0,"part":1.0}"#)
        #expect(json["max"]?.count == 9_007_199_254_740_991 && json["more"]?.integer == 9_007_199_254_740_992)
        #expect(json["minus"]?.integer == -1)
        for name in ["more", "minus", "zero", "part"] as [StaticString] { #expect(json[name]?.count == nil, "\(name)") }
    }

    @Test func `one element that is not good makes a list that is not`() throws {
        let json = try self.json(#"{"good":[1,2],"bad":[1,"2"],"counts":{"a":1},"texts":{"a":"1"}}"#)
        #expect(json["good"]?.elements?.all(\.count) == [1, 2] && json["bad"]?.elements?.all(\.count) == nil)
        #expect(json["counts"]?.counts == ["a": 1] && json["texts"]?.counts == nil)
    }

    @Test(arguments: ["", "[1]", "1", "{", "{}x", #"{"a":}"#])
    func `what is not one object is no value`(text: String) {
        #expect(JSONValue(Array(text.utf8)) == nil)
    }

    @Test func `a written object is read as it was written`() throws {
        let bytes = JSONWriter.object { json in
            json.member("text", "\"\n")
            json.member("count", 7)
            json.member("none", Int?.none)
            json.member("flag", true)
            json.member("counts", ["b": 2, "a\t": 1])
            json.member("list", objects: [1, 2]) { json, number in json.member("n", number) }
            json.member("inner") { json in json.member("raw", verbatim: "[]") }
        }
        #expect(
            String(decoding: bytes, as: UTF8.self)
                == #"{"text":"\"\n","count":7,"none":null,"flag":true,"counts":{"a\t":1,"b":2},"#
                + #""list":[{"n":1},{"n":2}],"inner":{"raw":[]}}"#)
        #expect(JSONValue(bytes)?["counts"]?.counts == ["a\t": 1, "b": 2])
    }
}
