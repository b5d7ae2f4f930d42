import Testing
import WaybillProtocol
import WaybillSystem

/// `Protocol/vectors/protocol/good.ndjson` and `bad.ndjson` decide what a message is.
@Suite struct CodecTests {
    /// A message and the bytes it took, or why there is none.
    private typealias Cut = Result<Taken?, WireError>

    private struct Taken: Hashable {
        let message: Message
        let byteCount: Int
    }

    private static func cut(_ bytes: [UInt8]) -> Cut {
        bytes.withUnsafeBytes { bytes in
            do throws(WireError) {
                return .success(
                    try Message.decode(prefixOf: bytes).map { Taken(message: $0.message, byteCount: $0.byteCount) })
            } catch {
                return .failure(error)
            }
        }
    }

    @Test func `every good line is read whole, and gives the message the vector names`() throws {
        let rows = try GoodLine.all()
        #expect(rows.count >= 100)
        for row in rows { #expect(Message.read(row.line) == .success(row.message), "\(row.name)") }
    }

    @Test func `what an earlier build said of streams at rest is read, so that the rest of its head is`() {
        #expect(
            Message.read(Array("RESTING 3 0000002a".utf8)) == .success(.resting(count: 3, byteCount: 288, checksum: 42))
        )
        #expect(
            Message.read(Array("RESTING 3 360 0000002a".utf8))
                == .success(.resting(count: 3, byteCount: 360, checksum: 42)))
        #expect(Message.read(Array("RESTING 3".utf8)) == .failure(.fieldCount(expected: 3)))
        #expect(Message.read(Array("RESTING 3 360 ".utf8)) == .failure(.fieldCount(expected: 4)))
        let most = "RESTING 9007199254740991 0000002a"
        #expect(
            Message.read(Array(most.utf8))
                == .success(.resting(count: 9_007_199_254_740_991, byteCount: 864_691_128_455_135_136, checksum: 42)))
    }

    @Test func `the encoder gives the bytes of every good message`() throws {
        for row in try GoodLine.all() {
            #expect(String(decoding: row.message.encoded, as: UTF8.self) == row.encoded + "\n", "\(row.name)")
        }
    }

    @Test func `a good line that arrives byte by byte is no message before its line end`() throws {
        for row in try GoodLine.all() {
            let line = row.line + [0x0A]
            // Every prefix of a short line, and of a long one the first and the last hundred.
            for count in 0..<line.count where count < 100 || count >= line.count - 100 {
                #expect(Self.cut(Array(line[..<count])) == .success(nil), "\(row.name), \(count)")
            }
            let taken = Taken(message: row.message, byteCount: line.count)
            #expect(Self.cut(line) == .success(taken), "\(row.name)")
        }
    }

    @Test func `good lines glued together are cut one after the other`() throws {
        let rows = try GoodLine.all()
        var glued: [UInt8] = []
        for row in rows { glued += row.line + [0x0A] }
        var position = 0
        var messages: [Message] = []
        while let taken = try Self.cut(Array(glued[position...])).get() {
            messages.append(taken.message)
            position += taken.byteCount
        }
        #expect(position == glued.count)
        #expect(messages == rows.map(\.message))
    }

    @Test func `every bad line is refused with the error the vector names`() throws {
        let rows = try BadLine.all()
        #expect(rows.count >= 300)
        for row in rows {
            #expect(Self.code(Self.cut(row.line + [0x0A])) == row.error, "\(row.name)")
            if row.error == "line-too-long" {
                #expect(Self.code(Self.cut(row.line)) == row.error, "\(row.name)")
            } else {
                let whole = Message.read(row.line).map { Taken?(Taken(message: $0, byteCount: 0)) }
                #expect(Self.code(whole) == row.error, "\(row.name)")
            }
        }
    }

    @Test func `a bad line without its line end is not judged yet`() throws {
        for row in try BadLine.all() where row.error != "line-too-long" {
            #expect(Self.cut(row.line) == .success(nil), "\(row.name)")
        }
    }

    @Test func `a bad line does not touch the message in front of it`() throws {
        let ping = Array("PING 7\n".utf8)
        let taken = Taken(message: .ping(7), byteCount: ping.count)
        for row in try BadLine.all() {
            #expect(Self.cut(ping + row.line + [0x0A]) == .success(taken), "\(row.name)")
        }
    }

    @Test func `lines of journals are read and written, and bad ones refused with the error the vector names`() throws {
        let rows = try Vectors.rows("journal.ndjson")
        #expect(rows.count >= 10)
        for row in rows {
            let (name, line) = (try row.requireText("name"), Array(try row.requireText("line").utf8))
            if let error = row["error"]?.text {
                let whole = Message.read(line).map { Taken?(Taken(message: $0, byteCount: 0)) }
                #expect(Self.code(whole) == error, "\(name)")
            } else {
                let message = try Message(try #require(row["message"]))
                #expect(Message.read(line) == .success(message), "\(name)")
                #expect(message.encoded == line + [0x0A], "\(name)")
            }
        }
    }

    @Test func `every error of the codec is met in the bad vectors`() throws {
        let met = Set(try BadLine.all().map(\.error))
        let all: [WireError] = [
            .lineTooLong, .emptyLine, .notASCII(byteOffset: 0), .unknownMessage, .fieldCount(expected: 1),
            .badInteger(field: 1), .badChecksum, .badProof, .badTail, .badReason, .badHolder, .badCode,
            .badJSON(byteOffset: 0), .badMember("a"), .badStreamID,
        ]
        #expect(met == Set(all.map(\.code)))
    }

    @Test(arguments: [4094, 4095, 4096, 4097])
    func `a line has at most 4096 bytes with its line end`(byteCount: Int) {
        let text = String(repeating: "x", count: byteCount - "ERR limit \n".utf8.count)
        let line = Array("ERR limit \(text)\n".utf8)
        let expected: Cut =
            byteCount <= 4096
            ? .success(Taken(message: .err(.limit, text: text), byteCount: byteCount)) : .failure(.lineTooLong)
        #expect(Self.cut(line) == expected)
    }

    @Test(arguments: [
        ("AT\t1 5", WireError.notASCII(byteOffset: 2)), ("AT 1 5\r", .notASCII(byteOffset: 6)),
        ("AT x 5", .badInteger(field: 2)), ("AT 1 x", .badInteger(field: 3)), ("AT 1", .fieldCount(expected: 3)),
        ("AT 1 0 x", .badInteger(field: 4)), ("AT 1 0 0", .fieldCount(expected: 5)),
        ("AT 1 0 0 -", .fieldCount(expected: 6)),
        ("AT 1 0 0 - x", .badInteger(field: 6)), ("AT 1 7 0 - 6 7 8", .fieldCount(expected: 7)),
        ("ACK 1 5", .fieldCount(expected: 4)), ("SEALED 1 0 - x", .badInteger(field: 5)),
        ("BATCH 1 0 0 1 8 00000000", .badInteger(field: 4)),
        ("BATCH 1 0 5 6 8 00000000", .badInteger(field: 5)), ("BATCH 1 0 5 1 0 00000000", .badInteger(field: 6)),
        ("BATCH 1 9007199254740991 1 1 9 00000000", .badInteger(field: 3)),
        ("HELLO {\"protocol\":[1]}", .badMember("agent")), ("MOVE {\"receivers\":5}", .badMember("receivers")),
        ("MOVE {,}", .badJSON(byteOffset: 1)), ("HELLO", .fieldCount(expected: 2)),
        ("OPEN 1", .fieldCount(expected: 3)), ("HELLO  {}", .fieldCount(expected: 2)),
        ("OPEN 1  {}", .fieldCount(expected: 3)),
    ])
    func `an error says where it is`(line: String, error: WireError) {
        #expect(Message.read(Array(line.utf8)) == .failure(error))
    }

    @Test func `texts of errors hold nothing of the input and stay printable`() throws {
        for row in try BadLine.all() {
            guard case .failure(let error) = Self.cut(row.line + [0x0A]) else { continue }
            #expect(error.text.utf8.allSatisfy { (0x20...0x7E).contains($0) })
            #expect(error.text.utf8.count <= 120)
        }
    }

    private static func code(_ cut: Cut) -> String? {
        if case .failure(let error) = cut { error.code } else { nil }
    }
}
