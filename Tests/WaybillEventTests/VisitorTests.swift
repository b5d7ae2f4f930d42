import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillEvent

/// What an event's line says of the browser or device of a server's visitor.
@Suite struct VisitorTests {
    private static let chrome =
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36"

    private func line(of visitor: Visitor, _ draft: inout EventDraft) -> String {
        var context = EventContext(
            writer: UniqueID(high: 0x0195_505E_AAAA_7000, low: 0x8000_0000_0000_00AA),
            origin: EventOrigin(
                app: "1.4.2", build: "118", bundle: "com.example.shop.server", os: "Linux", osVersion: "6.1",
                model: "x86_64", language: "en-US", environment: .prod))
        context.zoneMinutes = 60
        context.setIdentity(
            EventIdentity(
                session: UniqueID(high: 0x0195_50FB_32B4_7000, low: 0x8000_0000_0000_0001), sessionNumber: 7,
                user: "operator", anonymous: "b5372db0-c21e-41e4-8dfc-aa07a5b093db"))
        draft.take(.action, "tap", nil, EventRules(), nil, by: visitor) { _ in }
        var line = LineBuffer()
        let stamp = EventStamp(
            id: UniqueID(high: 0x0195_50FC_21F6_7B1C, low: 0x82D3_0000_0000_0001), sequence: 1,
            wallMilliseconds: 1_740_820_455_926, upMilliseconds: 61_250, sincePreviousMilliseconds: 5,
            onScreenMilliseconds: nil)
        context.encode(draft, stamp, into: &line)
        return String(decoding: line.bytes, as: UTF8.self)
    }

    private func line(of visitor: Visitor) -> String {
        var draft = EventDraft()
        return self.line(of: visitor, &draft)
    }

    @Test func `the encoder gives the golden line of a visitor byte for byte`() throws {
        var visitor = Visitor(
            user: "u-8812345", anonymous: "0195505e-bbbb-4000-8000-0000000000bb",
            session: "019550fb-32b4-7000-8000-000000000001")
        visitor.osVersion = "15"
        visitor.model = "Pixel 8"
        visitor.language = "ko-KR"
        visitor.country = "kr"
        visitor.userAgent = Self.chrome
        visitor.zoneMinutes = 540
        #expect([self.line(of: visitor)] == (try vectorLines("visitor.ndjson")))
    }

    @Test func `an event says nothing of a visitor's device that is not known, and nothing of the server's`() {
        let line = self.line(of: Visitor(anonymous: "cookie-1"))
        #expect(
            line.hasSuffix(
                #""name":"tap","anon":"cookie-1","app":"1.4.2","build":"118","bundle":"com.example.shop.server","#
                    + "\"env\":\"prod\"}\n"))
    }

    @Test(arguments: [
        (Self.chrome, "Android"),
        ("Mozilla/5.0 (Android 15; Mobile; rv:145.0) Gecko/145.0 Firefox/145.0", "Android"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15", "iOS"),
        ("Mozilla/5.0 (iPad; CPU OS 16_0 like Mac OS X) AppleWebKit/605.1.15", "iOS"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36", "Windows"),
        ("Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36", "Chrome OS"),
        // An iPad calls itself a Macintosh, and a phone that asks for the desktop's page says Linux.
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15", nil),
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", nil),
        ("curl/8.5.0", nil), ("", nil), ("Mozilla/5.0 (", nil), ("Windows NT", nil),
    ])
    func `a user agent names a system only beyond doubt`(text: String, system: String?) {
        var visitor = Visitor(user: "u")
        visitor.userAgent = text
        let line = self.line(of: visitor)
        #expect(line.contains(system.map { ",\"os\":\"\($0)\"," } ?? ",\"user_agent\":"))
        #expect(line.contains("\"os\":") == (system != nil))
        visitor.os = "HarmonyOS"
        #expect(self.line(of: visitor).contains(",\"os\":\"HarmonyOS\","))
    }

    @Test func `a long user agent is truncated and counted`() {
        var visitor = Visitor(user: "u")
        visitor.userAgent = String(repeating: "a", count: 511) + "한"
        var draft = EventDraft()
        let line = self.line(of: visitor, &draft)
        #expect(line.contains("\"user_agent\":\"\(String(repeating: "a", count: 511))\","))
        #expect(draft.repairs.cutUserAgent == 1)
        visitor.userAgent = String(repeating: "a", count: 512)
        #expect(self.line(of: visitor, &draft).contains("aaa\",") && draft.repairs.cutUserAgent == 0)
    }

    @Test(
        arguments: [
            \Visitor.os, \Visitor.osVersion, \Visitor.model, \Visitor.language, \Visitor.country,
        ] as [any WritableKeyPath<Visitor, String?> & Sendable])
    func `a visitor with an empty or long text is invalid`(member: any WritableKeyPath<Visitor, String?> & Sendable) {
        var visitor = Visitor(user: "u")
        visitor[keyPath: member] = "ko"
        #expect(visitor.isValid)
        for text in ["", String(repeating: "a", count: 129)] {
            visitor[keyPath: member] = text
            #expect(!visitor.isValid)
        }
    }

    @Test(arguments: ["ko_KR", "ko-KR,ko;q=0.9", "한국어", "1", "-ko", "k "])
    func `a visitor whose language is not a tag is invalid`(language: String) {
        var visitor = Visitor(user: "u")
        visitor.language = language
        #expect(!visitor.isValid)
    }

    @Test(arguments: ["KOR", "K", "K1", "한국", "@A", "[Z"])
    func `a visitor whose country is not two letters is invalid`(country: String) {
        var visitor = Visitor(user: "u")
        visitor.country = country
        #expect(!visitor.isValid)
    }

    @Test func `a visitor's zone is at most a day`() {
        var visitor = Visitor(user: "u")
        for (minutes, isValid) in [(-1441, false), (-1440, true), (1440, true), (1441, false)] {
            visitor.zoneMinutes = minutes
            #expect(visitor.isValid == isValid)
        }
    }

    private func text(_ line: borrowing LineBuffer) -> String { String(decoding: line.bytes, as: UTF8.self) }

    @Test func `nothing of a visitor is left for the next event`() {
        var members = VisitorMembers()
        var visitor = Visitor(user: "u", anonymous: "cookie", session: "019550fb-32b4-7000-8000-000000000001")
        visitor.model = "Pixel 8"
        visitor.userAgent = String(repeating: "a", count: 513)
        visitor.country = "KOR"
        visitor.consent = Consent(analytics: false, ads: false)
        #expect(members.take(visitor, nil) == 1)
        #expect((members.isEmpty, members.isValid, members.isAllowed) == (false, false, false))
        #expect(members.hash == Sampling.hash("u"))
        var identity = LineBuffer()
        members.appendIdentity(to: &identity)
        #expect(
            self.text(identity) == #","session":"019550fb-32b4-7000-8000-000000000001","user":"u","anon":"cookie""#)
        #expect(self.text(members.device).hasPrefix(#","model":"Pixel 8","country":"KOR","user_agent":"aaa"#))
        #expect(self.text(members.consent).hasPrefix(",\"consent\":{\"analytics\":false"))

        #expect(members.take(Visitor(anonymous: "cookie-2"), nil) == 0)
        identity.removeAll()
        members.appendIdentity(to: &identity)
        #expect(self.text(identity) == ",\"anon\":\"cookie-2\"")
        #expect(members.device.isEmpty && members.consent.isEmpty && members.isValid && members.isAllowed)
        #expect(members.take(nil, nil) == 0)
        #expect(members.isEmpty && members.hash == nil && members.isValid && members.isAllowed)
    }
}

/// What a visitor takes from a request's headers.
@Suite struct VisitorHeadersTests {
    private func read(_ headers: [String: String], countryHeader: String? = nil) -> Visitor {
        var visitor = Visitor(user: "u")
        visitor.readHeaders(countryHeader: countryHeader) { headers[$0] }
        return visitor
    }

    @Test func `a browser's headers give user agent, language, system and model`() {
        let visitor = self.read([
            "User-Agent": "agent", "Accept-Language": "ko-KR,ko;q=0.9", "Sec-CH-UA-Platform": "\"macOS\"",
            "Sec-CH-UA-Model": "\"\"", "CF-IPCountry": "KR", "X-Forwarded-For": "192.0.2.1",
        ])
        var expected = Visitor(user: "u")
        expected.userAgent = "agent"
        expected.language = "ko-KR"
        expected.os = "macOS"
        #expect(visitor == expected)
        #expect(visitor.isValid)
    }

    @Test(arguments: [
        ("ko-KR", "ko-KR"), ("da, en-GB;q=0.8, en;q=0.7", "da"), ("en;q=0.5,ko;q=0.75,de;q=0.7", "ko"),
        ("fr;q=1.000, en", "fr"), ("*;q=0.9, en ; q=0.1", "en"), ("*, en;q=0.1", "en"), ("en;q=0", nil),
        ("en;q=1.5, ko;q=0.2", "en"), ("en;q=0.1234, ko;q=0.2", "ko"), ("en;level=1", nil), ("", nil), (",,", nil),
        ("e n, ko", "ko"), ("\tko\t;\tq=0.3\t,en;q=0.2", "ko"),
    ])
    func `the language with the greatest weight is taken`(header: String, language: String?) {
        #expect(Visitor.firstLanguage(header) == language)
    }

    @Test func `a header of many languages is read only at its beginning`() {
        let many = (0..<40).map { "l\($0);q=0.1" }.joined(separator: ",")
        #expect(Visitor.firstLanguage(many + ",ko") == "l0")
    }

    @Test(arguments: ["Android", "\"Unknown\"", "\"", "\"\"", "\"a\"b\"", "\"a\\b\"", "\"a\u{7}\"", "\"한\""])
    func `a client hint of another form is left out`(header: String) {
        #expect(self.read(["Sec-CH-UA-Platform": header]) == Visitor(user: "u"))
    }

    @Test(arguments: [("KR", "KR"), ("kr", "kr"), ("XX", nil), ("xx", nil), ("T1", nil), ("KOR", nil), ("", nil)])
    func `a country comes from the network's header alone, if it is one`(header: String, country: String?) {
        #expect(self.read(["CF-IPCountry": header], countryHeader: "CF-IPCountry").country == country)
        #expect(self.read(["CF-IPCountry": header]).country == nil)
    }

    @Test func `whatever the headers say, the visitor is valid`() {
        var random = SeededGenerator(seed: 20)
        let pieces = [
            "\"", "ko", "-", ";q=", "0.9", ",", " ", "*", "a\u{0}", "한", "Mozilla/5.0 (", "Android", "KR", "\\",
        ]
        for _ in 0..<2000 {
            func text() -> String {
                (0..<Int.random(in: 0...12, using: &random)).map { _ in
                    pieces[Int.random(in: pieces.indices, using: &random)]
                }.joined()
            }
            let headers = [
                "User-Agent": text(), "Accept-Language": text(), "Sec-CH-UA-Platform": text(),
                "Sec-CH-UA-Model": text(),
                "Country": text(),
            ]
            #expect(self.read(headers, countryHeader: "Country").isValid, "\(headers)")
        }
    }
}
