import Testing
import WaybillFleet
import WaybillSystem

@Suite struct RequestAttemptsTests {
    private static let time = WallTime(milliseconds: 1_800_000_000_000)
    private static let start = MonotonicTime(nanoseconds: 0)

    private static func attempts(seed: UInt64 = 1) -> RequestAttempts {
        RequestAttempts(start: Self.start, budget: .seconds(60), SeededGenerator(seed: seed))
    }

    private static func answer(_ status: Int, _ code: String? = nil, _ headers: [StoreRequest.Field] = [])
        -> AttemptOutcome
    {
        let body = code.map { "<Error><Code>\($0)</Code><Message>words</Message></Error>" } ?? ""
        return .answer(StoreAnswer(status: status, headers: headers, body: Array(body.utf8)))
    }

    private static func step(_ outcome: AttemptOutcome, at now: MonotonicTime = Self.start) -> RequestAttempts.Step {
        var attempts = Self.attempts()
        return attempts.judge(outcome, at: now, signedAt: Self.time)
    }

    private static func kind(_ step: RequestAttempts.Step) -> StoreError.Kind? {
        if case .fail(let error) = step { error.kind } else { nil }
    }

    private static func wait(_ step: RequestAttempts.Step) -> Duration? {
        if case .again(let wait) = step { wait } else { nil }
    }

    @Test(arguments: [200, 204, 206, 404, 412, 416])
    func `answers that the caller understands are its own`(status: Int) {
        guard case .done(let answer) = Self.step(Self.answer(status)) else {
            Issue.record("not done")
            return
        }
        #expect(answer.status == status)
    }

    @Test(arguments: [408, 429, 500, 502, 503, 504])
    func `a store that cannot now is asked again, within the budget`(status: Int) {
        #expect(Self.wait(Self.step(Self.answer(status, "SlowDown"))).map { $0 <= .milliseconds(100) } == true)
        let late = MonotonicTime(nanoseconds: 60_000_000_000)
        #expect(Self.kind(Self.step(Self.answer(status, "SlowDown"), at: late)) == .busy)
    }

    @Test func `waits grow to a bound with full jitter, and no answer is asked again`() {
        var longest = Duration.zero
        for seed in 0..<200 {
            var attempts = Self.attempts(seed: UInt64(seed))
            for attempt in 0..<6 {
                let step = attempts.judge(.failure(detail: "reset"), at: Self.start, signedAt: Self.time)
                let wait = Self.wait(step) ?? .zero
                #expect(wait <= .milliseconds(100 << attempt))
                if attempt == 5 { longest = max(longest, wait) }
            }
        }
        #expect(longest > .milliseconds(1600))
        let late = MonotonicTime(nanoseconds: 60_000_000_000)
        #expect(Self.kind(Self.step(.failure(detail: "reset"), at: late)) == .unreachable)
    }

    @Test func `Retry-After is the least wait, and none beyond the budget is begun`() {
        let soon = Self.answer(503, nil, [.init("Retry-After", "7")])
        #expect(Self.wait(Self.step(soon)) == .seconds(7))
        #expect(Self.kind(Self.step(Self.answer(503, nil, [.init("Retry-After", "61")]))) == .busy)
    }

    @Test func `a conflict of conditional writes is asked again; another conflict is not`() {
        #expect(Self.wait(Self.step(Self.answer(409, "ConditionalRequestConflict"))) != nil)
        #expect(Self.kind(Self.step(Self.answer(409, "BucketNotEmpty"))) == .refused)
    }

    @Test(arguments: ["RequestTimeout", "BadDigest", "XAmzContentSHA256Mismatch"])
    func `a body that arrived late or damaged is sent again, within the budget`(code: String) {
        #expect(Self.wait(Self.step(Self.answer(400, code))) != nil)
        let late = MonotonicTime(nanoseconds: 60_000_000_000)
        #expect(Self.kind(Self.step(Self.answer(400, code), at: late)) == .damaged)
    }

    @Test func `another region is tried once`() {
        var attempts = Self.attempts()
        let redirect = Self.answer(301, "PermanentRedirect", [.init("x-amz-bucket-region", "eu-west-1")])
        #expect(attempts.judge(redirect, at: Self.start, signedAt: Self.time) == .region("eu-west-1"))
        #expect(Self.kind(attempts.judge(redirect, at: Self.start, signedAt: Self.time)) == .region)
        #expect(Self.kind(Self.step(Self.answer(307, "TemporaryRedirect"))) == .region)
        #expect(Self.kind(Self.step(Self.answer(301, nil, [.init("x-amz-bucket-region", "evil.example/")]))) == .region)
    }

    @Test func `the clock's offset is learned once from Date`() {
        var attempts = Self.attempts()
        let theirs = WallTime(milliseconds: Self.time.milliseconds - 3_600_000)
        let skewed = Self.answer(403, "RequestTimeTooSkewed", [.init("Date", "Fri, 15 Jan 2027 07:00:00 GMT")])
        #expect(theirs.text == "2027-01-15T07:00:00.000Z")
        #expect(attempts.judge(skewed, at: Self.start, signedAt: Self.time) == .clock(offset: .seconds(-3600)))
        #expect(Self.kind(attempts.judge(skewed, at: Self.start, signedAt: Self.time)) == .clock)
        #expect(Self.kind(Self.step(Self.answer(403, "RequestTimeTooSkewed"))) == .clock)
    }

    @Test func `refusals are not repeated`() {
        #expect(Self.kind(Self.step(Self.answer(403, "AccessDenied"))) == .forbidden)
        #expect(Self.kind(Self.step(Self.answer(403))) == .forbidden)
        #expect(Self.kind(Self.step(Self.answer(403, "InvalidAccessKeyId"))) == .credentials)
        #expect(Self.kind(Self.step(Self.answer(403, "SignatureDoesNotMatch"))) == .credentials)
        #expect(Self.kind(Self.step(Self.answer(404, "NoSuchBucket"))) == .noBucket)
        #expect(Self.kind(Self.step(Self.answer(501, "NotImplemented"))) == .notAllowedHere)
        #expect(Self.kind(Self.step(Self.answer(418))) == .refused)
    }

    @Test(arguments: [400, 403], ["ExpiredToken", "InvalidToken", "TokenRefreshRequired"])
    func `credentials that have ended are replaced once`(status: Int, code: String) {
        var attempts = Self.attempts()
        let ended = Self.answer(status, code)
        #expect(attempts.judge(ended, at: Self.start, signedAt: Self.time) == .credentials)
        #expect(Self.kind(attempts.judge(ended, at: Self.start, signedAt: Self.time)) == .credentials)
    }
}
