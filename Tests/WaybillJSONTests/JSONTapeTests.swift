import Testing
import WaybillJSON

/// Room on a tape is checked where an entry is written: whatever a line opens and leaves open, it is parsed or refused.
@Suite struct JSONTapeTests {
    /// The entries of a line, or the reason why there are none.
    private enum Parsed: Equatable {
        case entries([JSONEntry])
        case failure(JSONError)
    }

    private func parse(_ line: String, capacity: Int) -> Parsed {
        var tape = JSONTape(capacity: capacity)
        return Array(line.utf8).withUnsafeBytes { bytes in
            do throws(JSONError) {
                try tape.parse(bytes)
                return .entries(Array(tape.all))
            } catch {
                return .failure(error)
            }
        }
    }

    /// Lines whose entries are as dense as the grammar allows: a digit and its comma, brackets that open and stay open.
    private static let dense: [String] = (0...JSONLimits.depthMax).flatMap { depth in
        [0, 1, 2, 127, 229, 230, 231].flatMap { numbers in
            let head = "{\"a\":[" + String(repeating: "0,", count: numbers)
            let open = String(repeating: "[", count: depth)
            return [head + open, head + open + String(repeating: "]", count: depth) + "]}", head + "{" + open]
        }
    }

    @Test func `a line has the same entries or the same error for each capacity`() {
        for line in Self.dense {
            let expected = self.parse(line, capacity: 4096)
            for capacity in [1, 2, 3, 4, 7, 128, 232, 255, 256, 257] {
                #expect(self.parse(line, capacity: capacity) == expected, "\(line.prefix(40))… at capacity \(capacity)")
            }
        }
    }

    @Test(arguments: [230, 8_000, 100_000])
    func `brackets that stay open behind many numbers are a truncated line`(numbers: Int) {
        let line = "{\"a\":[" + String(repeating: "0,", count: numbers) + String(repeating: "[", count: 62)
        #expect(self.parse(line, capacity: 256) == .failure(JSONError(.truncated, at: line.utf8.count)))
    }

    @Test(arguments: ["[1]", "[1,2]", "[1,2,3]", "[[]]", "[]", "\"a\"", "7", "true", "null", "{}"])
    func `only an object has members`(value: String) throws {
        // Room for the entries and no more: what a walk finds behind them is not of this line.
        for capacity in 1...8 {
            var tape = JSONTape(capacity: capacity)
            try Array("{\"v\":\(value)}".utf8).withUnsafeBytes { try tape.parse($0) }
            var members = tape.members(of: 2)
            let member = members.next(in: tape)
            #expect(member == nil, "\(value) at capacity \(capacity)")
        }
    }

    @Test func `an object that is added needs room of its own`() throws {
        for numbers in 0...300 {
            let added = "{\"b\":[" + String(repeating: "0,", count: numbers) + String(repeating: "[", count: 60)
            let whole = added + "0" + String(repeating: "]", count: 61) + "}"
            for object in [added, whole] {
                var tape = JSONTape(capacity: 4)
                let line = Array("{\"a\":1}".utf8)
                try line.withUnsafeBytes { try tape.parse($0) }
                let text = line + Array(object.utf8)
                let index = text.withUnsafeBytes { bytes -> Int? in
                    do throws(JSONError) { return try tape.append(objectAt: line.count, of: bytes) } catch {
                        return nil
                    }
                }
                #expect(index == (object == whole ? 3 : nil))
                let count = tape.count
                #expect(count == (object == whole ? 3 + 3 + numbers + 60 + 1 : 3))
            }
        }
    }
}
