import Testing
import WaybillJSON
import WaybillProtocol
import WaybillSystem

/// The pages' rules and tables of members are those of the sources.
@Suite struct GrammarTests {
    @Test func `the pages allow every line that the vectors have, and every message as it is written`() throws {
        let grammar = try Grammar()
        let resting = Message.resting(count: 3, byteCount: 360, checksum: 42)
        let journal = try Vectors.rows("journal.ndjson").filter { $0["error"] == nil }
        let lines =
            try GoodLine.all().flatMap { [$0.line + [0x0A], $0.message.encoded] } + [resting.encoded]
            + journal.map { Array(try $0.requireText("line").utf8) + [0x0A] }
        for line in lines { #expect(grammar.allows(line), "\(String(decoding: line, as: UTF8.self))") }
        let words = Set(lines.map { String(decoding: $0.prefix { $0 > 0x20 }, as: UTF8.self) })
        #expect(words == Set(grammar.messages.keys))
    }

    @Test(arguments: 0..<UInt64(50))
    func `a line that is read is one that the pages allow`(seed: UInt64) throws {
        let grammar = try Grammar()
        var random = RandomMessages(seed: seed)
        for _ in 0..<200 {
            var line = Array(random.message().encoded.dropLast())
            let index = Int.random(in: 0..<line.count, using: &random.generator)
            switch Int.random(in: 0...3, using: &random.generator) {
            case 0: line[index] = UInt8.random(in: 0x20...0x7E, using: &random.generator)
            case 1: line.remove(at: index)
            case 2: line.insert(line[index], at: index)
            default: break
            }
            #expect(!Self.isRead(line) || grammar.allows(line + [0x0A]), "\(String(decoding: line, as: UTF8.self))")
        }
    }

    @Test func `a line that the pages allow is read, or refused for what they say in words`() throws {
        let grammar = try Grammar()
        var random = SeededGenerator(seed: 1)
        // Bounds, sums, what a proof and a tail must be, and members.
        let inWords: Set = ["bad-integer", "bad-proof", "bad-tail", "bad-member"]
        for (word, form) in grammar.messages.sorted(by: { $0.key < $1.key }) {
            var readCount = 0
            for _ in 0..<500 {
                let line = Array(try grammar.sample(form, &random).dropLast())
                let name = String(decoding: line, as: UTF8.self)
                switch Message.read(line) {
                case .success(let message):
                    readCount += 1
                    // A text may be left out, and is written all the same.
                    #expect([line + [0x0A], line + [0x20, 0x0A]].contains(message.encoded), "\(name)")
                case .failure(let error):
                    // SKIP has a holder with `before`, and only then.
                    let isOfHolder = word == "SKIP" && error == .fieldCount(expected: name.contains("before") ? 7 : 6)
                    #expect(inWords.contains(error.code) || isOfHolder, "\(name): \(error)")
                }
            }
            #expect(readCount > 0 || ["HELLO", "READY", "OPEN", "NOTE", "MOVE"].contains(word), "\(word)")
        }
    }

    private static func isRead(_ line: [UInt8]) -> Bool {
        if case .success = Message.read(line) { true } else { false }
    }

    /// The members in the table of a message, each with whether it may be left out.
    private static func members(of word: String) throws -> [String: Bool] {
        let section = try Vectors.section("\(word), ", of: "protocol.md")
        var members: [String: Bool] = [:]
        for row in section.matches(of: /\n\| (`[^|]+) \| ([^|]+) \|/) {
            for name in row.1.matches(of: /`([a-z]+)`/) { members[String(name.1)] = row.2.contains("optional") }
        }
        return members
    }

    @Test func `the tables have the members that are written, and those are read as they say`() throws {
        var (hello, ready) = (Sample.hello, Sample.ready())
        (hello.token, hello.key, hello.software, hello.milliseconds) = ("t", "AAECAwQFBgcICQoLDA0ODw", "s", 1)
        ready.fleet = ready.receiver.incarnation.text
        let description = StreamDescription(
            id: Sample.id("a"), source: "s", environment: "dev", bundle: "b", format: .ndjson, timeMember: "t",
            nameMember: "n", userMember: "u", anonymousMember: "a")
        let claim = OpenClaim(from: StreamOffset(9), by: "r", proof: Sample.proof(9).digest)
        for (word, message) in [
            ("HELLO", Message.hello(hello)), ("READY", .ready(ready)), ("OPEN", .open(Sample.one, description, claim)),
        ] {
            let line = Array(message.encoded.dropLast())
            let start = try #require(line.firstIndex(of: UInt8(ascii: "{")))
            let written = try #require(JSONValue(Array(line[start...]))?.keyedMembers)
            let members = try Self.members(of: word)
            #expect(Set(written.map(\.name)) == Set(members.keys), "\(word)")
            // An agent may make `id` itself.
            for (name, position, value) in written where name != "id" {
                let refused = Result<Message, WireError>.failure(.badMember(name))
                var absent = line
                absent.replaceSubrange((start + position)..<(start + position + name.utf8.count), with: "X".utf8)
                let isOptional = try #require(members[name] as Bool?)
                #expect(isOptional ? Self.isRead(absent) : Message.read(absent) == refused, "\(word) without \(name)")
                let quote = value.kind == .string ? 1 : 0
                let (first, end) = (start + value.range.lowerBound - quote, start + value.range.upperBound + quote)
                var wrong = line
                wrong.replaceSubrange(first..<end, with: "true".utf8)
                #expect(Message.read(wrong) == refused, "\(word) whose \(name) is true")
            }
        }
    }
}
