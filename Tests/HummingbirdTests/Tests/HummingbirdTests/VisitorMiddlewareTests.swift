import Hummingbird
import Logging
import Testing
import Waybill
import WaybillHummingbird
import WaybillTesting

private struct Context: VisitorContext {
    var coreContext: CoreRequestContextStorage
    var visitor = Visitor()

    init(source: Source) {
        self.coreContext = CoreRequestContextStorage(source: source)
    }
}

private struct ProductViewed: Event {
    let id: String
    var name: String { "product_view" }
    func encode(into fields: inout Fields) { fields.put("id", self.id) }
}

/// A browser's consent, in a cookie of the shop's own.
@Sendable private func consent(in request: Request, _ context: Context) -> Consent? {
    switch request.cookies["consent"]?.value {
    case "yes": Consent(analytics: true, ads: false)
    case "no": Consent(analytics: false, ads: false)
    default: nil
    }
}

/// Runs a server that listens, and a browser's requests to it.
func serving<Context: VisitorContext>(
    _ router: Router<Context>, _ browse: (Browser) async throws -> Void
) async throws where Context.Source == ApplicationRequestContextSource {
    let (ports, found) = AsyncStream.makeStream(of: Int.self)
    let application = Application(
        router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
        onServerRunning: { channel in found.yield(channel.localAddress?.port ?? 0) },
        logger: Logger(label: "server") { _ in SwiftLogNoOpLogHandler() })
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await application.run() }
        var iterator = ports.makeAsyncIterator()
        let port = try #require(await iterator.next())
        try await browse(Browser(port: port))
        group.cancelAll()
    }
}

/// Requests over a socket to a server that listens, and what the client stores of them.
@Suite struct VisitorMiddlewareTests {
    private let recorder: Recorder
    private let waybill: WaybillClient

    init() throws {
        self.recorder = try Recorder()
        self.waybill = self.recorder.waybill
    }

    /// Runs a server, and a browser's requests to it.
    private func serve(
        _ adjust: (inout VisitorOptions) -> Void = { _ in },
        _ browse: @escaping @Sendable (Browser) async throws -> Void
    ) async throws {
        var options = VisitorOptions()
        adjust(&options)
        let router = Router(context: Context.self)
        router.add(
            middleware: VisitorMiddleware(
                self.waybill, options, user: { request, _ in request.cookies["login"]?.value }, consent: consent))
        let waybill = self.waybill
        router.get("/products/:id") { _, context in
            let id = try context.parameters.require("id")
            waybill.track(ProductViewed(id: id), by: context.visitor)
            return id
        }
        router.post("/orders") { _, _ -> String in throw HTTPError(.conflict) }
        router.get("/broken") { _, _ -> String in throw CancellationError() }
        try await serving(router, browse)
    }

    /// Each stored event: name and fields.
    private var events: [String] {
        self.recorder.events.map { event in
            let fields = event.fields.filter { $0.name != "duration_ms" }.map { "\($0.name)=\($0.text)" }
            return ([event.name] + fields).joined(separator: " ")
        }
    }

    @Test func `a request is an event with the route's template, and the route knows its visitor`() async throws {
        try await self.serve { browser in
            var browser = browser
            browser.cookies = ["consent": "yes", "login": "u-1"]
            browser.headers = [
                ("User-Agent", "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"), ("Accept-Language", "ko-KR,ko;q=0.9"),
                ("X-Forwarded-For", "192.0.2.7"), ("CF-IPCountry", "KR"),
            ]
            let answer = try await browser.ask("GET", "/products/p-1?email=a@example.com")
            #expect(answer.status == 200 && answer.body == "p-1")
        }
        #expect(
            self.events == [
                "product_view id=p-1", "http_request method=GET route=/products/{id} status=200",
            ])
        let event = try #require(self.recorder.events.last)
        #expect(event[member: "user"] == "u-1" && event[member: "os"] == "Windows" && event[member: "lang"] == "ko-KR")
        #expect(event[member: "user_agent"] == "Mozilla/5.0 (Windows NT 10.0; Win64; x64)")
        #expect(event[member: "country"] == nil)
        let duration = try #require(event.fields.first { $0.name == "duration_ms" }.flatMap { Int($0.text) })
        #expect((0..<60_000).contains(duration))
        let lines = self.recorder.events.map(\.description).joined()
        #expect(!lines.contains("example.com") && !lines.contains("192.0.2.7") && !lines.contains("127.0.0.1"))
    }

    @Test func `a visitor is known again by a cookie that only the server reads`() async throws {
        try await self.serve { browser in
            var browser = browser
            browser.cookies = ["consent": "yes"]
            let first = try await browser.ask("GET", "/products/p-1").cookies
            let (anonymous, session) = (browser.cookies["wb_anonymous"] ?? "", browser.cookies["wb_session"] ?? "")
            let attributes = ["HttpOnly", "Max-Age=1800", "Path=/", "SameSite=Lax", "Secure", "wb_session=\(session)"]
            #expect(
                first == [
                    [
                        "HttpOnly", "Max-Age=31536000", "Path=/", "SameSite=Lax", "Secure",
                        "wb_anonymous=\(anonymous)",
                    ], attributes,
                ])
            let second = try await browser.ask("GET", "/products/p-2").cookies
            #expect(second == [attributes])
            var stranger = Browser(port: browser.port)
            stranger.cookies = ["consent": "yes", "wb_anonymous": "forged", "wb_session": "0195505e-aaaa-4000"]
            _ = try await stranger.ask("GET", "/products/p-3")
        }
        let people = self.recorder.events.map { $0["anon"] ?? "" }
        #expect(Set(people[0..<4]).count == 1 && Set(people[4...]).count == 1 && people[0] != people[4])
        #expect(people.allSatisfy { $0.utf8.count == 36 })
        let sessions = self.recorder.events.map { $0["session"] ?? "" }
        #expect(Set(sessions[0..<4]).count == 1 && Set(sessions[4...]).count == 1 && sessions[0] != sessions[4])
    }

    @Test func `without consent, or without an answer, nothing is stored and no cookie is set`() async throws {
        try await self.serve { browser in
            for cookies in [[:], ["consent": "no"], ["consent": "no", "login": "u-1"]] {
                var browser = browser
                browser.cookies = cookies
                let answer = try await browser.ask("GET", "/products/p-1")
                #expect(answer.cookies == [])
            }
        }
        #expect(self.events == [])
        #expect(self.waybill.counters.dropped(.optedOut) == 6 && self.waybill.counters.droppedCount == 6)
    }

    @Test func `a withdrawn consent removes the cookies`() async throws {
        try await self.serve { browser in
            var browser = browser
            browser.cookies = ["consent": "yes"]
            _ = try await browser.ask("GET", "/products/p-1")
            #expect(Set(browser.cookies.keys) == ["consent", "wb_anonymous", "wb_session"])
            browser.cookies["consent"] = "no"
            let withdrawn = try await browser.ask("GET", "/products/p-1").cookies
            #expect(withdrawn.count == 2 && withdrawn.allSatisfy { $0.contains("Max-Age=0") })
            #expect(browser.cookies == ["consent": "no"])
        }
        #expect(self.events.count == 2)
    }

    @Test func `a request that no route answers, or that fails, is an event with its status`() async throws {
        try await self.serve { browser in
            var browser = browser
            browser.cookies = ["consent": "yes"]
            let requests = [
                ("GET", "/admin.php?x=1"), ("POST", "/orders"), ("GET", "/broken"), ("PROPFIND", "/orders"),
            ]
            var statuses: [Int] = []
            for request in requests { statuses.append(try await browser.ask(request.0, request.1).status) }
            #expect(statuses == [404, 409, 500, 404])
        }
        #expect(
            self.events == [
                "http_request method=GET status=404", "http_request method=POST route=/orders status=409",
                "http_request method=GET route=/broken status=500", "http_request method=_OTHER status=404",
            ])
    }

    @Test func `options name cookies, event and country, and leave requests out`() async throws {
        try await self.serve { options in
            options.anonymousCookie = "who"
            options.anonymousLifetime = .seconds(60)
            options.sessionCookie = "visit"
            options.sessionTimeout = .seconds(5)
            options.isSecure = false
            options.countryHeader = "CF-IPCountry"
            options.eventName = "request"
            options.tracks = { $0.uri.path != "/products/health" }
        } _: { browser in
            var browser = browser
            browser.cookies = ["consent": "yes"]
            browser.headers = [("CF-IPCountry", "KR")]
            _ = try await browser.ask("GET", "/products/health")
            let names = Set(browser.cookies.keys)
            #expect(names == ["consent", "who", "visit"])
            let given = try await browser.ask("GET", "/products/p-1").cookies
            #expect(given.count == 1 && given.allSatisfy { !$0.contains("Secure") })
        }
        #expect(
            self.events == [
                "product_view id=health", "product_view id=p-1", "request method=GET route=/products/{id} status=200",
            ])
        #expect(self.recorder.events.allSatisfy { $0["country"] == "KR" })
    }

    @Test func `visitors at the same time are kept apart`() async throws {
        try await self.serve { browser in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<8 {
                    group.addTask {
                        var browser = Browser(port: browser.port)
                        browser.cookies = ["consent": "yes", "login": "u-\(number)"]
                        for _ in 0..<10 { _ = try await browser.ask("GET", "/products/p-\(number)") }
                    }
                }
                try await group.waitForAll()
            }
        }
        let events = self.recorder.events.filter { $0.name == "product_view" }
        #expect(events.count == 80)
        #expect(events.allSatisfy { "u-\($0.fields[0].text.dropFirst(2))" == $0["user"] })
        #expect(Set(events.map { "\($0["user"] ?? "") \($0["anon"] ?? "") \($0["session"] ?? "")" }).count == 8)
    }
}
