import Testing
import WaybillEvent
import WaybillExport
import WaybillSystem
import WaybillTestSupport

@testable import WaybillLive

@Suite struct FilterTests {
    private static let line =
        #"{"v":1,"id":"019550FC-0000-7000-8000-000000000001","ts":"2026-11-20T11:00:00.000Z","kind":"screen","name":"#
        + #""Product Tapped","screen":"Cart","prev":"Home","env":"prod","bundle":"com.example.shop","app":"1.4.0","#
        + #""user":"u-7","anon":"a-1","session":"s-1","data":{"method":"Kakao","price":12.50,"gift":true,"#
        + #""city":"Zürich \u00e9","tags":["new","토스터"]}}"#

    private func matches(_ text: String, refusals: [(String, String)] = []) throws -> Bool {
        try self.matching(try Filter(text), refusals)
    }

    @Test(arguments: [
        "", "   ", "name:tapped", "name:TAPPED", "user:u-7", "user:U-7",
        "screen:cart", "prev:home", "kind:screen", "env:PROD", "app:shop", "version:1.4", "version:1", "version:1.4.0",
        "data.method:kakao", "data.price:12.50", "data.gift:true", "data.city:zürich", "data.city:ZÜRICH",
        "data.city:É",
        "data.tags:토스터", "data.method:*", "user:*", "session:s-1", "anon:a-1", "kakao", "\"product tapped\"", "토스터",
        "name:\"product tapped\" user:u-7 -kind:user", "-kind:user -data.method:email",
        "id:019550fc-0000-7000-8000-000000000001",
        "-user:u-70", "-version:1.40", "-refused:*", "-refused:ga4", "é",
    ])
    func `these words match the event`(text: String) throws {
        #expect(try self.matches(text))
    }

    @Test(arguments: [
        "-name:tapped", "user:u-70", "user:u", "user:-", "screen:login", "kind:event", "env:dev", "version:1.40",
        "version:1.4.00", "data.method:email", "data.missing:*", "traits.tier:*", "-data.method:*", "email",
        "name:tapped kind:user", "-kakao", "refused:*", "refused:ga4", "reason:late", "\"tapped product\"", "stream:x",
    ])
    func `these do not`(text: String) throws {
        #expect(try !self.matches(text))
    }

    @Test func `what providers refuse can be asked for by provider and by reason`() throws {
        let refusals = [("ga4", "ga4.no_app_instance_id"), ("mixpanel", "mixpanel.bad_id")]
        for text in [
            "refused:ga4", "refused:GA4", "refused:*", "reason:no_app", "reason:mixpanel.bad_id", "-refused:csv",
        ] {
            #expect(try self.matches(text, refusals: refusals), "\(text)")
        }
        for text in ["refused:ga", "refused:csv", "reason:too_old", "-refused:*", "refused:ga4 -refused:mixpanel"] {
            #expect(try !self.matches(text, refusals: refusals), "\(text)")
        }
    }

    @Test(arguments: [
        ("a colour:red", 2, "there is nothing called \"colour\""), ("name:", 0, "name: needs a value"),
        ("a  -", 3, "- negates the word after it"), ("\"open", 0, "the quote is not closed"),
        ("name:\"\"", 0, "nothing between the quotes"), ("a\"b\"", 0, "a quote stands at the beginning"),
        ("data.:x", 0, "there is nothing called \"data.\""), ("data:x", 0, "there is nothing called \"data\""),
        ("https://example.com", 0, "For a text with a colon use quotes: \"https:…\""),
        (":x", 0, "there is nothing called \"\""),
    ])
    func `what is not a filter is explained, with its place`(text: String, position: Int, cause: String) {
        #expect {
            _ = try Filter(text)
        } throws: { error in
            let failure = error as? Filter.Failure
            return failure?.position == position && failure?.description.contains(cause) == true
        }
    }

    @Test func `a filter is bounded`() throws {
        _ = try Filter(String(repeating: "a ", count: 32))
        #expect(throws: Filter.Failure.self) { try Filter(String(repeating: "a ", count: 33)) }
        _ = try Filter(String(repeating: "a", count: 1000))
        #expect(throws: Filter.Failure.self) { try Filter(String(repeating: "a", count: 1001)) }
    }

    @Test(arguments: 0..<UInt64(20))
    func `any text is a filter or names a place in it, and a word and its negation disagree`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let pieces = [
            "name:", "user:", "data.method:", "data.", "refused:", "-", "--", "\"", " ", "\t", "\n", ":", "*", "a", "Ü",
            "토",
            "\u{301}", "\u{0}", "\u{202e}", "tapped", "kakao", ".", "\\", "{", "ß", "İ",
        ]
        for _ in 0..<300 {
            let count = Int.random(in: 0...8, using: &generator)
            let text = (0..<count).map { _ in pieces[Int.random(in: 0..<pieces.count, using: &generator)] }.joined()
            do throws(Filter.Failure) {
                let filter = try Filter(text)
                let scalars = text.unicodeScalars
                guard filter.words.count == 1, !scalars.contains(where: \.properties.isWhitespace),
                    scalars.first != "-"
                else { continue }
                let negated = try Filter("-" + text)
                #expect(filter.words[0].subject == negated.words[0].subject)
                let refusals = [("ga4", "ga4.late")]
                let (isMatch, isOther) = try (self.matching(filter, refusals), self.matching(negated, refusals))
                #expect(isMatch != isOther, "\(text.debugDescription)")
            } catch {
                #expect((0...text.unicodeScalars.count).contains(error.position), "\(text.debugDescription): \(error)")
            }
        }
    }

    private func matching(_ filter: Filter, _ refusals: [(String, String)]) throws(Filter.Failure) -> Bool {
        var line = ShownLine(mask: .none)
        let reader = EventReader(source: SourceDescription(env: .prod, bundle: "com.example.shop"))
        _ = Array(Self.line.utf8).withUnsafeBytes { line.load($0, reader) }
        return filter.matches(line, refusals: { refusals.map { (provider: $0.0, reason: $0.1) } })
    }

    @Test func `a log's fields are found at the top, and by the names of its source`() throws {
        let source = SourceDescription(
            env: .prod, bundle: "com.example.web", isForeign: true, nameMember: "msg", userMember: "uid")
        var line = ShownLine(mask: .none)
        let text = #"{"time":"2026-11-20T11:00:00Z","msg":"login","uid":"u-9","status":200}"#
        let isEvent = Array(text.utf8).withUnsafeBytes { line.load($0, EventReader(source: source)) }
        #expect(isEvent)
        for text in ["user:u-9", "name:login", "data.status:200", "kind:line", "app:web"] {
            #expect(try Filter(text).matches(line, refusals: { [] }), "\(text)")
        }
    }
}
