import Testing
import WaybillSystem

@testable import WaybillLive

@Suite struct AccessTests {
    private static let token = Secret("0123456789abcdef")

    private static func access(hosts: [String] = [], isSecure: Bool = false) throws -> Access {
        Access(token: try #require(token), port: 4392, hosts: hosts, isSecure: isSecure)
    }

    private static func head(
        _ uri: String = "/api/status", method: String = "GET", host: String? = "127.0.0.1:4392",
        headers: [(String, String)] = []
    ) -> RequestHead {
        RequestHead(
            method: method, uri: uri,
            headers: (host.map { [("Host", $0)] } ?? []).map { (name: $0.0, value: $0.1) }
                + headers.map { (name: $0.0, value: $0.1) })
    }

    private static func status(_ head: RequestHead, hosts: [String] = [], isSecure: Bool = false) throws -> Int {
        let access = try Self.access(hosts: hosts, isSecure: isSecure)
        do throws(Access.Refusal) {
            try access.check(head)
            return 200
        } catch {
            #expect(!error.text.isEmpty)
            return error.status
        }
    }

    @Test func `only names of this server are answered`() throws {
        for host in ["127.0.0.1:4392", "localhost:4392", "LOCALHOST", "[::1]:9", "127.0.0.1:8000"] {
            #expect(try Self.status(Self.head(host: host)) == 200, "\(host)")
        }
        for host in [
            "evil.example", "evil.example:4392", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0:4392", "",
            "192.168.1.2:4392", "live.example.com",
        ] {
            #expect(try Self.status(Self.head(host: host)) == 421, "\(host)")
        }
        #expect(try Self.status(Self.head(host: nil)) == 421)
        #expect(try Self.status(Self.head(host: "localhost", headers: [("Host", "localhost")])) == 421)
        #expect(try Self.status(Self.head(host: "Live.example.com:4392"), hosts: ["live.Example.com"]) == 200)
    }

    @Test func `pages of other sites are refused, whatever they send along`() throws {
        for origin in [
            "http://evil.example", "null", "https://127.0.0.1:4392", "http://127.0.0.1:80", "http://127.0.0.1",
            "http://localhost:4392", "file://",
        ] {
            #expect(try Self.status(Self.head(headers: [("Origin", origin)])) == 403, "\(origin)")
        }
        #expect(try Self.status(Self.head(headers: [("Origin", "http://127.0.0.1:4392")])) == 200)
        #expect(try Self.status(Self.head(headers: [("Origin", "https://127.0.0.1:4392")]), isSecure: true) == 200)
        for site in ["cross-site", "same-site", "odd"] {
            #expect(try Self.status(Self.head(headers: [("Sec-Fetch-Site", site)])) == 403, "\(site)")
            // A link on another page may lead here; the page's files say nothing.
            #expect(try Self.status(Self.head("/", headers: [("Sec-Fetch-Site", site)])) == 200)
        }
        for site in ["same-origin", "none"] {
            #expect(try Self.status(Self.head(headers: [("Sec-Fetch-Site", site)])) == 200)
        }
    }

    @Test func `only GET is answered, and POST where a session begins`() throws {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "CONNECT", "get"] {
            #expect(try Self.status(Self.head(method: method)) == 405, "\(method)")
        }
        #expect(try Self.status(Self.head("/api/session", method: "POST")) == 200)
        #expect(try Self.status(Self.head("/api/session", method: "POST", host: "evil.example")) == 421)
    }

    @Test func `a request's head is bounded`() throws {
        #expect(try Self.status(Self.head("/" + String(repeating: "a", count: 8192))) == 414)
        #expect(try Self.status(Self.head(headers: [("X", String(repeating: "a", count: 16 << 10))])) == 431)
        #expect(try Self.status(Self.head(headers: (0..<64).map { ("X\($0)", "") })) == 431)
        #expect(try Self.status(Self.head(headers: (0..<63).map { ("X\($0)", "") })) == 200)
    }

    @Test func `the token or its cookie lets in, and nothing else`() throws {
        let access = try Self.access()
        let cookie = try #require(access.cookie(for: "0123456789abcdef"))
        let pair = String(cookie.prefix { $0 != ";" })
        #expect(cookie.hasSuffix("; HttpOnly; SameSite=Strict; Path=/"))
        #expect(!cookie.contains("0123456789abcdef"))
        for headers in [
            [("Authorization", "Bearer 0123456789abcdef")], [("authorization", "bearer 0123456789abcdef")],
            [("Cookie", pair)], [("Cookie", "a=b; \(pair); c=d")], [("Cookie", "a=b"), ("Cookie", pair)],
        ] {
            #expect(access.admits(Self.head(headers: headers)), "\(headers)")
        }
        for headers in [
            [], [("Authorization", "0123456789abcdef")], [("Authorization", "Bearer ")], [("Authorization", "Basic x")],
            [("Authorization", "Bearer 0123456789abcdeg")], [("Cookie", "waybill-4392=0123456789abcdef")],
            [("Cookie", pair + "0")], [("Cookie", String(pair.dropLast()))], [("Cookie", "waybill-4392")],
            [("Cookie", pair.replacing("4392", with: "4393"))], [("X-Token", "0123456789abcdef")],
        ] {
            #expect(!access.admits(Self.head(headers: headers)), "\(headers)")
        }
        for token in ["", "0123456789abcde", "0123456789abcdef0", "x"] { #expect(access.cookie(for: token) == nil) }
        let secure = try Self.access(isSecure: true).cookie(for: "0123456789abcdef")
        #expect(secure?.hasSuffix("; Secure") == true)
        // A session of another token, or of another port, is none here.
        let other = Access(token: try #require(Secret("fedcba9876543210")), port: 4392, hosts: [], isSecure: false)
        #expect(!other.admits(Self.head(headers: [("Cookie", pair)])))
    }

    @Test func `questions are read from paths and parameters`() throws {
        guard
            case .events(let filter, let before, 7, let fields) = try LiveQuestion(
                Self.head("/api/events?q=name%3Atapped+-kind:screen&before=12.3&limit=7&fields=data.a,app"))
        else { throw Unexpected() }
        #expect(try filter == Filter("name:tapped -kind:screen"))
        #expect(before == LineID("12.3"))
        #expect(fields == [["data", "a"], ["app"]])
        guard
            case .stream(_, _, let after) = try LiveQuestion(
                Self.head("/api/stream?q=&after=1.1", headers: [("Last-Event-ID", "5.6")]))
        else { throw Unexpected() }
        #expect(after == LineID("5.6"))
        guard case .stream(_, _, let place) = try LiveQuestion(Self.head("/api/stream?after=1.1")) else {
            throw Unexpected()
        }
        #expect(place == LineID("1.1"))
        guard case .person("토스터", nil) = try LiveQuestion(Self.head("/api/person?key=%ED%86%A0%EC%8A%A4%ED%84%B0"))
        else { throw Unexpected() }
    }

    @Test(arguments: [
        ("/api/nothing", 404), ("/api/", 404), ("/apistatus", 404), ("/../etc/passwd", 404), ("/live.js/", 404),
        ("/api/events?q=name:", 400), ("/api/events?limit=0", 400), ("/api/events?limit=1001", 400),
        ("/api/events?limit=x", 400), ("/api/events?before=x", 400), ("/api/events?wrong=1", 400),
        ("/api/events?q=%zz", 400), ("/api/events?q=%ff", 400), ("/api/events?q=%4", 400), ("/api/event", 400),
        ("/api/event?at=1", 400), ("/api/person", 400), ("/api/person?key=", 400), ("/api/status?x", 400),
        ("/api/events?fields=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", 400),
    ])
    func `what cannot be read is refused with a text`(uri: String, status: Int) {
        #expect {
            _ = try LiveQuestion(Self.head(uri))
        } throws: { error in
            let refusal = error as? Access.Refusal
            return refusal?.status == status && refusal?.text.isEmpty == false
        }
    }

    private struct Unexpected: Error {}
}
