import Testing
import WaybillEvent
import WaybillSystem

private func text(_ body: (inout Fields) -> Void) -> String {
    let box = EventDraftBox()
    box.draft.take(.event, "e", nil, EventRules(), nil, adding: body)
    return String(decoding: box.draft.fields.buffer.bytes, as: UTF8.self)
}

private func repairs(_ body: (inout Fields) -> Void) -> [Int] {
    let box = EventDraftBox()
    box.draft.take(.event, "e", nil, EventRules(), nil, adding: body)
    let repairs = box.draft.repairs
    return [repairs.nonFinite, repairs.duplicate, repairs.nested, repairs.cutName]
}

/// What a line's encoder appends in one piece, each with the room that it declares.
private let pieces: [@Sendable (inout LineBuffer) -> Void] = [
    { $0.append(UInt8(ascii: "x")) }, { $0.append("a static text") }, { $0.appendString("") },
    { $0.appendString("a text of more than two words") }, { $0.appendString("an \"escaped\" text\n") },
    { $0.append(UniqueID(high: 0x0123_4567_89AB_CDEF, low: .max)) }, { $0.appendDecimal(.max) },
    { $0.appendDecimal(0) },
    { $0.appendDecimal(7, digitCount: 3) }, { $0.appendHexadecimal(0xABCD_EF01, digitCount: 8) },
    { $0.appendHexadecimal(0xABCD_EF01, digitCount: 1) }, { $0.appendNumber(-0.000_123) },
    { buffer in
        var timestamp = Timestamp()
        timestamp.append(1_740_820_455_926, to: &buffer)
    },
]

@Test func `a buffer holds a piece that just fits, and no byte beyond its limit`() {
    for (number, piece) in pieces.enumerated() {
        var whole = LineBuffer(capacity: 512, byteCountMax: 512)
        piece(&whole)
        let expected = Array(whole.bytes)
        for before in 0..<20 {
            for limit in max(1, before)...(before + expected.count + 2) {
                var buffer = LineBuffer(capacity: 1, byteCountMax: limit)
                for _ in 0..<before { buffer.append(UInt8(ascii: "-")) }
                piece(&buffer)
                let found = Array(buffer.bytes.dropFirst(before))
                let fits = before + expected.count <= limit
                let isOverflowing = buffer.isOverflowing
                #expect(isOverflowing == !fits && found.count + before <= limit, "piece \(number), limit \(limit)")
                #expect(fits ? found == expected : found.count < expected.count, "piece \(number), limit \(limit)")
            }
        }
    }
}

@Test func `fields keep their order and nil writes nothing`() {
    let key: StaticString = "static"
    #expect(
        text { fields in
            fields.put("text", "a")
            fields.put("none", nil as Int?)
            fields.put(key, true)
            fields.put("int", -7)
            fields.put("unsigned", UInt64(7))
            fields.put("double", 0.5)
            fields.putNull("null")
            fields.put("list", [1, 2])
            fields.put("empty", [] as [String])
            fields.put("scalar", Scalar.string("s"))
            fields.put("object", object: { $0.put("a", 1) })
            fields.put("nothing", object: { _ in })
            fields.put("objects", objects: ["x", "y"]) { $0.put("id", $1) }
            fields.put("last", false)
        }
            == #""text":"a","static":true,"int":-7,"unsigned":7,"double":0.5,"null":null,"list":[1,2],"empty":[],"#
            + #""scalar":"s","object":{"a":1},"nothing":{},"objects":[{"id":"x"},{"id":"y"}],"last":false"#)
}

@Test func `of two fields with one key the first stays and the other is counted`() {
    let body: (inout Fields) -> Void = { fields in
        fields.put("a", 1)
        fields.put(
            "o",
            object: {
                $0.put("a", 2); $0.put("a", 3)
            })
        fields.put("a", "again")
        fields.putNull("o")
        fields.put("b", 4)
    }
    #expect(text(body) == #""a":1,"o":{"a":2},"b":4"#)
    #expect(repairs(body) == [0, 3, 0, 0])
}

/// Texts are looked through eight bytes at a time, the last eight twice.
@Test func `an escape is found at every place of a text of any length`() {
    for count in 0...34 {
        for place in 0..<max(1, count) {
            for (character, escape) in [
                ("\"", #"\""#), ("\\", #"\\"#), ("\n", #"\n"#), ("\u{1F}", #"\u001f"#), ("é", "é"),
            ] {
                let before = String(repeating: "k", count: place)
                let after = String(repeating: "\u{7F}", count: max(0, count - place - 1))
                let plain = before + (count == 0 ? "" : character) + after
                let escaped = before + (count == 0 ? "" : escape) + after
                #expect(text { $0.put(plain, plain) } == "\"\(escaped)\":\"\(escaped)\"")
            }
        }
    }
}

@Test func `keys of any length are told apart by each of their bytes`() {
    for count in 1...20 {
        let keys = (0..<count).map { index in
            String(repeating: "k", count: index) + "l" + String(repeating: "k", count: count - index - 1)
        }
        let expected = keys.map { "\"\($0)\":1" }.joined(separator: ",")
        #expect(text { fields in for key in keys + keys { fields.put(key, 1) } } == expected)
        #expect(repairs { fields in for key in keys + keys { fields.put(key, 1) } } == [0, count, 0, 0])
    }
}

@Test func `numbers that JSON cannot hold are left out and counted`() {
    let body: (inout Fields) -> Void = { fields in
        fields.put("nan", Double.nan)
        fields.put("inf", [1, -Double.infinity])
        fields.put("scalar", Scalar.double(.infinity))
        fields.put("ok", 1.5)
    }
    #expect(text(body) == #""ok":1.5"#)
    #expect(repairs(body) == [3, 0, 0, 0])
}

@Test func `objects are flat`() {
    let body: (inout Fields) -> Void = { fields in
        fields.put(
            "o",
            object: { object in
                object.put("a", 1)
                object.put("deep", object: { $0.put("b", 2) })
                object.put("list", objects: [1]) { $0.put("c", $1) }
            })
    }
    #expect(text(body) == #""o":{"a":1}"#)
    #expect(repairs(body) == [0, 0, 2, 0])
}

@Test(arguments: [
    (Int64(0), "0"), (-1, "-1"), (9, "9"), (10, "10"), (99, "99"), (100, "100"),
    (9_007_199_254_740_992, "9007199254740992"), (-9_007_199_254_740_992, "-9007199254740992"),
    (9_007_199_254_740_993, "\"9007199254740993\""), (-9_007_199_254_740_993, "\"-9007199254740993\""),
    (.max, "\"9223372036854775807\""), (.min, "\"-9223372036854775808\""),
])
func `integers beyond 2^53 become strings`(value: Int64, expected: String) {
    #expect(text { $0.put("n", value) } == "\"n\":\(expected)")
}

@Test func `every decimal length of an unsigned number is right`() {
    var power: UInt64 = 1
    for _ in 0..<20 {
        for value in [power - 1, power, power + 1] {
            let expected = value > 1 << 53 ? "\"\(value)\"" : "\(value)"
            #expect(text { $0.put("n", value) } == "\"n\":\(expected)")
        }
        power = power.multipliedReportingOverflow(by: 10).partialValue
    }
    #expect(text { $0.put("n", UInt64.max) } == "\"n\":\"18446744073709551615\"")
}

@Test(arguments: [
    (0.0, "0.0"), (-0.0, "-0.0"), (1, "1.0"), (0.1, "0.1"), (4.35, "4.35"), (-2.5, "-2.5"), (100, "100.0"),
    (0.3, "0.3"),
    (1e15, "1000000000000000.0"), (1e16, "1e+16"), (123_456.789, "123456.789"), (0.001, "0.001"),
    (1.0 / 3, "0.3333333333333333"),
    (.leastNonzeroMagnitude, "5e-324"), (1e22, "1e+22"), (.greatestFiniteMagnitude, "1.7976931348623157e+308"),
])
func `doubles are as short as reads back`(value: Double, expected: String) {
    #expect(text { $0.put("n", value) } == "\"n\":\(expected)")
}

@Test func `any double reads back as itself and is as short as the library's`() {
    var generator = SeededGenerator(seed: 53)
    for round in 0..<20_000 {
        let value: Double
        switch round % 4 {
        case 0: value = Double(bitPattern: generator.next())
        case 1: value = Double(Int64(truncatingIfNeeded: generator.next()) >> 20) / 100
        case 2: value = Double(generator.next() % 1_000_000_000) / 1e6
        default: value = Double(generator.next() >> 11) * 0x1p-53
        }
        guard value.isFinite else { continue }
        let number = String(text { $0.put("n", value) }.dropFirst(4))
        #expect(Double(number)?.bitPattern == value.bitPattern)
        if !number.contains("e"), !value.description.contains("e") { #expect(number == value.description) }
    }
}

/// What RFC 8259 asks, written the slow way.
private func reference(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
        switch scalar {
        case "\"": result += "\\\""
        case "\\": result += "\\\\"
        case "\u{8}": result += "\\b"
        case "\t": result += "\\t"
        case "\n": result += "\\n"
        case "\u{C}": result += "\\f"
        case "\r": result += "\\r"
        case _ where scalar.value < 0x20: result += "\\u" + Hexadecimal.text(UInt(scalar.value), digitCount: 4)
        default: result.unicodeScalars.append(scalar)
        }
    }
    return result + "\""
}

private func randomText(_ generator: inout SeededGenerator) -> String {
    let pieces = [
        "a", "Z", "\"", "\\", "\n", "\u{0}", "\u{1F}", "\u{7F}", "é", "토", "🎈", "\u{2028}", "/", "\t", "plain",
    ]
    let count = Int(generator.next() % 24)
    return (0..<count).map { _ in pieces[Int(generator.next() % UInt64(pieces.count))] }.joined()
}

@Test(arguments: 0..<UInt64(400))
func `random fields are what the slow writer writes`(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var expected: [String] = []
    var seen: Set<String> = []
    var duplicateCount = 0
    let box = EventDraftBox()
    // Twice: the second event uses the memory of the first.
    for _ in 0..<2 {
        expected = []
        seen = []
        duplicateCount = 0
        box.draft.take(.event, "e", nil, EventRules(), nil) { fields in
            for _ in 0..<(generator.next() % 40) {
                let key = randomText(&generator)
                let value = randomText(&generator)
                let written: String
                switch generator.next() % 4 {
                case 0:
                    fields.put(key, value)
                    written = reference(value)
                case 1:
                    fields.put(key, [value, key])
                    written = "[\(reference(value)),\(reference(key))]"
                case 2:
                    fields.put(key, object: { $0.put(value, key.utf8.count) })
                    written = "{\(reference(value)):\(key.utf8.count)}"
                default:
                    fields.put(key, value.isEmpty)
                    written = "\(value.isEmpty)"
                }
                if seen.insert(reference(key)).inserted {
                    expected.append("\(reference(key)):\(written)")
                } else {
                    duplicateCount += 1
                }
            }
        }
    }
    let text = String(decoding: box.draft.fields.buffer.bytes, as: UTF8.self)
    #expect(text == expected.joined(separator: ","))
    #expect(!text.utf8.contains(10))
    let repairs = box.draft.repairs
    #expect(repairs.duplicate == duplicateCount)
}
