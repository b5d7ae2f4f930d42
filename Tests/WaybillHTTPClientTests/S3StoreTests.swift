import Testing
import WaybillFleet
import WaybillHTTPClient
import WaybillSystem

/// The client of a bucket against a server in this process that fails in every way it can think of.
@Suite(.timeLimit(.minutes(5))) struct S3StoreTests {
    private static let environment = [
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "hidden-secret", "HOME": "/nonexistent",
    ]

    private static func store(
        _ server: ScriptedServer, timeout: Duration = .seconds(30), budget: Duration = .seconds(60),
        clock: StoreLocation.Clock = .earlier
    ) throws -> S3Store {
        var location = try StoreLocation("s3://events/p")
        location.endpoint = server.address
        location.clock = clock
        var options = S3Store.Options()
        (options.timeout, options.budget) = (timeout, budget)
        return try S3Store(location, options: options, variables: { Self.environment[$0] })
    }

    /// Runs `body` with a store in front of a server, and ends both.
    private static func with(
        _ reply: @escaping @Sendable (Int, ScriptedServer.Request) -> ScriptedServer.Reply?,
        timeout: Duration = .seconds(30), budget: Duration = .seconds(60), clock: StoreLocation.Clock = .earlier,
        _ body: (S3Store, ScriptedServer) throws -> Void
    ) throws {
        let server = try ScriptedServer(reply)
        let store = try Self.store(server, timeout: timeout, budget: budget, clock: clock)
        defer { store.shutDown() }
        try body(store, server)
        try server.close()
    }

    private static func kind(_ body: () throws -> Void) -> StoreError.Kind? {
        do {
            try body()
            return nil
        } catch let error as StoreError {
            #expect(!"\(error)".contains("hidden-secret"))
            return error.kind
        } catch {
            return nil
        }
    }

    private static func error(_ code: String) -> String {
        "<?xml version=\"1.0\"?><Error><Code>\(code)</Code><Message>words</Message></Error>"
    }

    @Test func `a conditional write says so, encodes its key, signs its body, and waits for no 100`() throws {
        try Self.with({ _, _ in .init(200) }) { (store, server) throws in
            #expect(try store.create("env=prod/a b", ObjectBody([1, 2, 3])) == .created)
            let request = try #require(server.requests.first)
            #expect(request.line == "PUT /events/p/env%3Dprod/a%20b HTTP/1.1")
            #expect(request.header("if-none-match") == "*")
            #expect(request.header("expect") == nil)
            #expect(request.header("content-length") == "3")
            #expect(
                request.header("x-amz-content-sha256")
                    == "039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81")
            #expect(request.header("authorization")?.contains("host;if-none-match;x-amz-content-sha256") == true)
            #expect(request.body == [1, 2, 3])
            try store.replace("b", ObjectBody([]))
            #expect(server.requests.last?.header("if-none-match") == nil)
        }
    }

    @Test func `a write whose answer is lost is sent again, and finds its key present`() throws {
        try Self.with({ number, _ in number == 0 ? .init(raw: "", closes: true) : .init(412) }) {
            (store, server) throws in
            #expect(try store.create("a", ObjectBody([1])) == .present)
            #expect(server.requests.count == 2)
        }
    }

    @Test func `503, 409 and a cut answer are tried again; the budget ends it`() throws {
        let replies: [ScriptedServer.Reply] = [
            .init(503, body: Self.error("SlowDown")), .init(409, body: Self.error("ConditionalRequestConflict")),
            .init(raw: "HTTP/1.1 200 OK\r\nContent-Le", closes: true), .init(500), .init(200),
        ]
        try Self.with({ number, _ in replies[number] }) { (store, server) throws in
            #expect(try store.create("a", ObjectBody([1])) == .created)
            #expect(server.requests.count == 5)
        }
        try Self.with({ _, _ in .init(503, body: Self.error("SlowDown")) }, budget: .milliseconds(300)) {
            (store, _) throws in
            #expect(Self.kind { _ = try store.create("a", ObjectBody([1])) } == .busy)
        }
    }

    @Test func `a body that ends early is read again, and never taken for whole`() throws {
        try Self.with({ number, _ in
            number == 0
                ? .init(raw: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345", closes: true)
                : .init(200, body: "1234567890")
        }) { (store, _) throws in
            #expect(try store.read("a", nil) == Array("1234567890".utf8))
        }
    }

    @Test func `refusals come at once, each as its kind`() throws {
        for (status, code, kind): (Int, String, StoreError.Kind) in [
            (403, "AccessDenied", .forbidden), (403, "InvalidAccessKeyId", .credentials),
            (403, "SignatureDoesNotMatch", .credentials), (404, "NoSuchBucket", .noBucket),
            (501, "NotImplemented", .notAllowedHere), (400, "InvalidRequest", .refused),
        ] {
            try Self.with({ _, _ in .init(status, body: Self.error(code)) }) { (store, server) throws in
                #expect(Self.kind { _ = try store.create("a", ObjectBody([1])) } == kind)
                #expect(server.requests.count == 1)
            }
        }
    }

    @Test func `the offset of a wrong clock is learned, and kept for the next request`() throws {
        try Self.with({ number, _ in
            number == 0
                ? .init(
                    403, ["Date: Fri, 20 Nov 2026 09:15:00 GMT"], body: Self.error("RequestTimeTooSkewed"))
                : .init(200)
        }) { (store, server) throws in
            _ = try store.create("a", ObjectBody([1]))
            _ = try store.create("b", ObjectBody([1]))
            for request in server.requests.dropFirst() {
                #expect(request.header("x-amz-date")?.hasPrefix("20261120T09") == true)
            }
        }
    }

    @Test func `the store's time is learned from each answer, unless the host's alone counts`() throws {
        for clock in StoreLocation.Clock.allCases {
            try Self.with(
                { number, _ in
                    .init(200, number == 0 ? [] : ["Date: Fri, 20 Nov 2026 09:15:00 GMT"])
                }, clock: clock
            ) { (store, _) throws in
                _ = try store.create("a", ObjectBody([1]))
                #expect(store.clockOffset == nil)
                _ = try store.create("b", ObjectBody([1]))
                let theirs = try #require(WallTime(text: "2026-11-20T09:15:00.000Z"))
                let own = POSIXClock().wallTime()
                let late = store.clockOffset.map {
                    own.milliseconds + $0.nanoseconds / 1_000_000 - theirs.milliseconds
                }
                // What the call took is the difference.
                #expect(late.map { (0..<600_000).contains($0) } == (clock == .earlier ? true : nil))
            }
        }
    }

    @Test func `a redirect to another region is followed once, by signing for it`() throws {
        let redirect = ScriptedServer.Reply(
            301, ["x-amz-bucket-region: eu-west-1"], body: Self.error("PermanentRedirect"))
        try Self.with({ number, _ in number == 0 ? redirect : .init(200) }) { (store, server) throws in
            _ = try store.create("a", ObjectBody([1]))
            #expect(server.requests.last?.header("authorization")?.contains("/eu-west-1/s3/") == true)
        }
        try Self.with({ _, _ in redirect }) { (store, server) throws in
            #expect(Self.kind { _ = try store.create("a", ObjectBody([1])) } == .region)
            #expect(server.requests.count == 2)
        }
    }

    @Test func `ranges, absent objects, and answers to another question`() throws {
        try Self.with({ _, request in
            if request.line.contains("/absent") { return .init(404, body: Self.error("NoSuchKey")) }
            if request.line.contains("/short") { return .init(416, body: Self.error("InvalidRange")) }
            if request.line.contains("/other") { return .init(206, ["Content-Range: bytes 0-1/9"], body: "ab") }
            if request.line.contains("/whole") { return .init(200, body: "abcdef") }
            return .init(206, ["Content-Range: bytes 2-3/9"], body: "cd")
        }) { (store, server) throws in
            #expect(try store.read("a", 2..<4) == Array("cd".utf8))
            #expect(server.requests.last?.header("range") == "bytes=2-3")
            #expect(try store.read("absent", nil) == nil)
            #expect(try store.read("short", 7..<9) == [])
            #expect(try store.read("whole", 2..<4) == Array("cd".utf8))
            #expect(Self.kind { _ = try store.read("other", 2..<4) } == .damaged)
            #expect(Self.kind { _ = try store.read("a", 0..<(65 << 20)) } == .tooLarge)
        }
    }

    @Test func `garbage for a listing, an endless body and a flood of headers are errors, not memory`() throws {
        try Self.with({ _, _ in .init(200, body: "<ListBucketResult><Contents>") }) { (store, _) throws in
            #expect(Self.kind { _ = try store.list("", after: nil, isFolded: false) } == .damaged)
        }
        var endless = ScriptedServer.Reply(raw: "HTTP/1.1 200 OK\r\n\r\n", closes: false)
        endless.endless = [UInt8](repeating: 0x20, count: 1 << 20)
        let body = endless
        try Self.with({ _, _ in body }) { (store, _) throws in
            #expect(Self.kind { _ = try store.list("", after: nil, isFolded: false) } == .tooLarge)
        }
        var flood = ScriptedServer.Reply(raw: "HTTP/1.1 200 OK\r\n", closes: false)
        flood.endless = Array("x-header: value\r\n".utf8)
        let headers = flood
        try Self.with({ _, _ in headers }, budget: .milliseconds(200)) { (store, _) throws in
            #expect(Self.kind { _ = try store.read("a", nil) } == .unreachable)
        }
    }

    @Test func `a long body is streamed from its source in pieces, again from the start for each attempt`() throws {
        let byteCount = (40 << 20) + 3
        let offsets = Lock([Int]())
        let body = ObjectBody(byteCount: byteCount) { offset, count in
            offsets.withLock { $0.append(offset) }
            return (0..<count).map { UInt8(truncatingIfNeeded: (offset + $0) / 4096) }
        }
        try Self.with({ number, _ in number == 0 ? .init(503) : .init(200) }) { (store, server) throws in
            #expect(try store.create("part", body) == .created)
            #expect(server.requests.map(\.body.count) == [byteCount, byteCount])
            #expect(server.requests.allSatisfy { $0.body.last == UInt8(truncatingIfNeeded: (byteCount - 1) / 4096) })
            // Once for the digest and once for each attempt.
            #expect(offsets.withLock { $0 }.count { $0 == 0 } == 3)
        }
        let broken = ObjectBody(byteCount: byteCount) { (offset, count) throws(FileSystemError) in
            throw FileSystemError("read", path: "/part", errno: Errno.inputOutput)
        }
        try Self.with({ _, _ in .init(200) }) { (store, _) throws in
            #expect(Self.kind { _ = try store.create("part", broken) } == .disk)
        }
    }

    @Test func `no answer ends with the time-out, no listener at once, both as unreachable`() throws {
        try Self.with({ _, _ in nil }, timeout: .milliseconds(200), budget: .milliseconds(100)) { (store, _) throws in
            #expect(Self.kind { _ = try store.create("a", ObjectBody([1])) } == .unreachable)
        }
        let server = try ScriptedServer { _, _ in nil }
        let store = try Self.store(server, budget: .milliseconds(100))
        try server.close()
        #expect(Self.kind { _ = try store.read("a", nil) } == .unreachable)
        store.shutDown()
    }

    @Test func `a shutdown ends what waits for an answer or for the next attempt`() throws {
        for reply: ScriptedServer.Reply? in [nil, .init(503, ["Retry-After: 50"])] {
            let server = try ScriptedServer { _, _ in reply }
            let store = try Self.store(server)
            let kind = Monitor<StoreError.Kind?>(nil)
            let worker = Worker(name: "put") {
                let found = Self.kind { _ = try store.create("a", ObjectBody([1])) }
                kind.update { $0 = found }
            }
            server.awaitRequests(1)
            store.shutDown()
            worker.join()
            #expect(kind.withLock { $0 } == .stopped)
            try server.close()
        }
    }

    @Test func `keys that clients and proxies would change are refused here`() throws {
        try Self.with({ _, _ in .init(200) }) { (store, server) throws in
            for key in ["", "a//b", "../a", "a/./b", "/a", "a/", "a\nb", String(repeating: "k", count: 1023)] {
                #expect(Self.kind { _ = try store.create(key, ObjectBody([1])) } == .refused)
            }
            #expect(server.requests.isEmpty)
        }
    }
}
