import Testing
import WaybillSystem

@testable import WaybillFleet

/// Answers are hostile: bounded, well-formed, and of the shape that was asked for.
@Suite struct StoreAnswerTests {
    private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    @Test func `an error's code and words are read, and control characters are dropped`() {
        let answer = StoreAnswer(
            status: 403,
            body: Self.bytes(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code>"
                    + "<Message>Access &lt;Denied&gt;&#27;[31m &amp; more</Message></Error>\n"))
        #expect(answer.problem.code == "AccessDenied")
        #expect(answer.problem.message == "Access <Denied>[31m & more")
        let error = RequestAttempts.error(.forbidden, answer)
        #expect(error.description.hasPrefix("Access <Denied>[31m & more (AccessDenied, HTTP 403); allow it"))
    }

    @Test(arguments: [
        "", "garbage", "<", "<a", "<a>", "</a>", "<a></b>", "<a/><b/>", "<a>&undefined;</a>", "<a>&#xFFFFFFFF;</a>",
        "<a>&#0;</a>", "<a><![CDATA[x</a>", "<!-- <a/>", "<a b='>",
        "<!DOCTYPE a [<!ENTITY x \"lol\">]><a>&x;</a>", "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
        "<a>&lt</a>", "x<a/>", "<a/>x", "<\u{E9}/>", "< a/>", "<a>\u{26}",
    ])
    func `what is not a small XML text is refused`(text: String) {
        #expect(XMLElement.parse(Self.bytes(text)) == nil)
    }

    @Test func `depth and count are bounded, and bytes that are no UTF-8 are refused`() {
        let deep = String(repeating: "<a>", count: 17) + String(repeating: "</a>", count: 17)
        #expect(XMLElement.parse(Self.bytes(deep)) == nil)
        #expect(XMLElement.parse(Self.bytes("<a>" + String(repeating: "<b/>", count: 20_000) + "</a>")) == nil)
        #expect(XMLElement.parse(Self.bytes("<a>") + [0xFF] + Self.bytes("</a>")) == nil)
    }

    @Test func `prefixes, attributes, comments, sections and references of characters are understood`() throws {
        let text =
            "\u{FEFF}<?xml version='1.0'?><!-- c --><s:a xmlns:s='u>v'><b c=\"/>\">1<![CDATA[<&]]>&#x41;&#66;</b><c/></s:a>\n"
        let root = try #require(XMLElement.parse(Self.bytes(text)))
        #expect(root.name == "a")
        #expect(root.text(of: "b") == "1<&AB")
        #expect(root.text(of: "c") == "")
    }

    private static func page(_ body: String, isTruncated: Bool = false) -> StoreAnswer {
        StoreAnswer(
            status: 200,
            body: Self.bytes(
                "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>\(isTruncated)</IsTruncated>\(body)"
                    + "</ListBucketResult>"))
    }

    private static func object(_ key: String, size: String = "7") -> String {
        "<Contents><Key>\(key)</Key><LastModified>2026-11-20T09:15:00.120Z</LastModified><Size>\(size)</Size></Contents>"
    }

    @Test func `a page gives keys without the prefix, decoded, and how to continue`() throws {
        let page = Self.page(
            Self.object("p/a%3Db") + Self.object("p/c%20d+e")
                + "<CommonPrefixes><Prefix>p/f/</Prefix></CommonPrefixes>", isTruncated: true)
        let listing = try page.listing(prefix: "p/", after: nil, isFolded: true)
        let time = try #require(WallTime(text: "2026-11-20T09:15:00.120Z"))
        #expect(
            listing
                == ObjectListing(
                    objects: [
                        .init(key: "a=b", byteCount: 7, modified: time),
                        .init(key: "c d e", byteCount: 7, modified: time),
                    ], folders: ["f/"], next: "f/"))
        #expect(try Self.page(Self.object("p/a")).listing(prefix: "p/", after: nil, isFolded: false).next == nil)
    }

    @Test(arguments: [
        Self.page(Self.object("q/a")), Self.page(Self.object("p/b") + Self.object("p/a")),
        Self.page(Self.object("p/a") + Self.object("p/a")), Self.page(Self.object("p/%zz")),
        Self.page(Self.object("p/a", size: "-1")), Self.page(Self.object("p/a", size: "x")),
        Self.page("", isTruncated: true), StoreAnswer(status: 200, body: Self.bytes("<Error/>")),
        StoreAnswer(status: 200, body: Self.bytes("<html>")),
    ])
    func `a page with other prefixes, other order, bad sizes, or that does not advance is damaged`(answer: StoreAnswer)
    {
        #expect { try answer.listing(prefix: "p/", after: nil, isFolded: false) } throws: { error in
            (error as? StoreError)?.kind == .damaged
        }
    }

    @Test func `a truncated page that ends where the last one did is damaged`() {
        let page = Self.page(Self.object("p/a"), isTruncated: true)
        #expect { try page.listing(prefix: "p/", after: "a", isFolded: false) } throws: { error in
            (error as? StoreError)?.kind == .damaged
        }
    }

    @Test func `dates of HTTP and of XML are read; anything else is none`() {
        #expect(HTTPDate.time("Fri, 20 Nov 2026 09:15:00 GMT") == WallTime(text: "2026-11-20T09:15:00.000Z"))
        for year in ["0001", "1969", "2200", "9999"] {
            #expect(HTTPDate.time("Mon, 01 Jan \(year) 00:00:00 GMT") == nil, "no clock shows \(year)")
        }
        #expect(HTTPDate.timestamp("2026-11-20T09:15:00Z") == WallTime(text: "2026-11-20T09:15:00.000Z"))
        #expect(HTTPDate.timestamp("2026-11-20T09:15:00.123456789Z") == WallTime(text: "2026-11-20T09:15:00.123Z"))
        for text in ["", "Fri, 99 Nov 2026 09:15:00 GMT", "2026-11-20", "Fri, 20 Nov 2026 09:15:00 CET", "GMT"] {
            #expect(HTTPDate.time(text) == nil)
            #expect(HTTPDate.timestamp(text) == nil)
        }
    }

    @Test func `an error's word is bounded`() {
        let error = StoreError(.refused, code: "a b\n" + String(repeating: "x", count: 200), detail: "d")
        #expect(error.code == "ab" + String(repeating: "x", count: 62))
    }
}
