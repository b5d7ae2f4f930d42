import Testing
import WaybillProtocol

/// `Protocol/errors.json` lists every code once.
@Suite struct ErrorListTests {
    private static func rows() throws -> [Value] {
        // The file is an array; a row of the reader is an object.
        let bytes = Array("{\"all\":".utf8) + (try Vectors.bytes("Protocol/errors.json")) + Array("}".utf8)
        return try #require(try Vectors.value(bytes)["all"]?.values)
    }

    @Test func `the list has exactly the codes of the sources, in their order`() throws {
        let codes = try Self.rows().map { try $0.requireText("code") }
        #expect(codes == ErrorCode.allCases.map(\.rawValue))
    }

    @Test func `NAK's numbers are 1 to 15, ERR's 16 to 31, none is used twice`() throws {
        var numbers: Set<UInt64> = []
        for row in try Self.rows() {
            let number = try row.requireInteger("number")
            switch try row.requireText("on") {
            case "nak": #expect(1...15 ~= number)
            case "err": #expect(16...31 ~= number)
            case let on: Issue.record("\(on) is no message")
            }
            #expect(numbers.insert(number).inserted)
        }
    }

    @Test func `every code says what it means and what the peer must do`() throws {
        for row in try Self.rows() {
            let (meaning, peer) = (try row.requireText("meaning"), try row.requireText("peer"))
            #expect(meaning.hasSuffix(".") && peer.hasSuffix("."))
            #expect([.other("true"), .other("false")].contains(row["retryable"]))
        }
    }

    @Test func `the specification's tables have every code and its number`() throws {
        let page = String(decoding: try Vectors.bytes("Protocol/protocol.md"), as: UTF8.self)
        for row in try Self.rows() {
            let (code, number) = (try row.requireText("code"), try row.requireInteger("number"))
            #expect(page.contains("\n| `\(code)` | \(number) | "), "\(code)")
        }
    }
}
