package import WaybillSystem

/// What one attempt of a request ended with.
package enum AttemptOutcome: Sendable {
    case answer(StoreAnswer)
    /// No answer; the request may have been done.
    case failure(detail: String)
}

/// Decides whether a request is sent again: all requests here may be, because a key has one content for ever.
///
///     500, 502, 503, 504, 429, SlowDown, no answer        again, after a wait with full jitter, within the budget
///     400 RequestTimeout, BadDigest                       again: the body arrived late or damaged
///     409 ConditionalRequestConflict                      again: the other write may fail
///     301, 307, 400 with another region                   once more, signed for that region
///     403 RequestTimeTooSkewed                            once more, with the offset that `Date` shows
///     403 ExpiredToken, InvalidToken                      once more, with new credentials
///     everything else                                     an answer, or an error at once
package struct RequestAttempts: Sendable {
    /// What the caller must do now.
    package enum Step: Hashable, Sendable {
        case done(StoreAnswer)
        case again(after: Duration)
        /// Sign for this region, and send again.
        case region(String)
        /// Add this to the clock, and send again.
        case clock(offset: Duration)
        /// Get new credentials, and send again.
        case credentials
        case fail(StoreError)
    }

    /// What has been tried once and is not tried again.
    private enum Remedy: Hashable {
        case region
        case clock
        case credentials
    }

    private var backoff: Backoff
    private let deadline: MonotonicTime
    private var tried: Set<Remedy> = []

    /// The body did not arrive whole, or in time.
    private static let transferFailures: Set<String> = ["RequestTimeout", "BadDigest", "XAmzContentSHA256Mismatch"]
    private static let waitMin = Duration.milliseconds(100)
    private static let waitMax = Duration.seconds(20)

    /// - Parameter budget: how long waits and attempts may take together.
    package init(start: MonotonicTime, budget: Duration, _ generator: SeededGenerator) {
        self.backoff = Backoff(from: Self.waitMin, to: Self.waitMax, generator)
        self.deadline = start + budget
    }

    /// - Parameters:
    ///   - now: when the attempt ended.
    ///   - time: the time that it was signed with, by this host's clock.
    package mutating func judge(_ outcome: AttemptOutcome, at now: MonotonicTime, signedAt time: WallTime) -> Step {
        switch outcome {
        case .failure(let detail):
            return self.retry(nil, at: now, or: StoreError(.unreachable, code: "no-answer", detail: detail))
        case .answer(let answer):
            switch answer.status {
            case 200, 204, 206, 404, 412, 416: return Self.verdict(answer)
            case 100..<300: return .fail(Self.error(.damaged, answer))
            case 408, 429, 500, 502, 503, 504:
                let wait = answer.header("retry-after").flatMap { HTTPDate.wait($0, now: time) }
                return self.retry(wait, at: now, or: Self.error(.busy, answer))
            case 409: return self.conflict(answer, at: now)
            case 400 where Self.transferFailures.contains(answer.problem.code ?? ""):
                return self.retry(nil, at: now, or: Self.error(.damaged, answer))
            case 301, 302, 307, 308, 400: return self.otherRegion(answer)
            case 401, 403: return self.refusal(answer, signedAt: time)
            case 405, 501: return .fail(Self.error(.notAllowedHere, answer))
            default: return .fail(Self.error(answer.status < 400 ? .damaged : .refused, answer))
            }
        }
    }

    private static func verdict(_ answer: StoreAnswer) -> Step {
        guard answer.status == 404, answer.problem.code == "NoSuchBucket" else { return .done(answer) }
        return .fail(Self.error(.noBucket, answer))
    }

    private mutating func retry(_ least: Duration?, at now: MonotonicTime, or error: StoreError) -> Step {
        let wait = max(self.backoff.fail(), least ?? .zero)
        return now + wait < self.deadline ? .again(after: wait) : .fail(error)
    }

    private mutating func conflict(_ answer: StoreAnswer, at now: MonotonicTime) -> Step {
        let code = answer.problem.code
        guard code == nil || code == "ConditionalRequestConflict" || code == "OperationAborted" else {
            return .fail(Self.error(.refused, answer))
        }
        return self.retry(nil, at: now, or: Self.error(.busy, answer))
    }

    private mutating func otherRegion(_ answer: StoreAnswer) -> Step {
        let (code, _, region) = answer.problem
        let isRegional =
            answer.status != 400 || code == "AuthorizationHeaderMalformed"
            || code == "IllegalLocationConstraintException"
        if isRegional, let region, Self.isRegion(region), self.tried.insert(.region).inserted { return .region(region) }
        if let code, Self.endings.contains(code) { return self.renewal(answer) }
        if code == "InvalidBucketName" { return .fail(Self.error(.configuration, answer)) }
        return .fail(Self.error(isRegional ? .region : .refused, answer))
    }

    /// A session's token has ended; AWS answers 400, others 403.
    private static let endings: Set<String> = ["ExpiredToken", "InvalidToken", "TokenRefreshRequired"]

    private mutating func renewal(_ answer: StoreAnswer) -> Step {
        guard self.tried.insert(.credentials).inserted else { return .fail(Self.error(.credentials, answer)) }
        return .credentials
    }

    private static func isRegion(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D }
    }

    private mutating func refusal(_ answer: StoreAnswer, signedAt time: WallTime) -> Step {
        switch answer.problem.code {
        case "RequestTimeTooSkewed", "RequestExpired":
            guard let theirs = answer.header("date").flatMap({ HTTPDate.time($0) }),
                self.tried.insert(.clock).inserted
            else { return .fail(Self.error(.clock, answer)) }
            return .clock(offset: .milliseconds(theirs.milliseconds - time.milliseconds))
        case .some(let code) where Self.endings.contains(code): return self.renewal(answer)
        case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidClientTokenId", "UnrecognizedClientException":
            return .fail(Self.error(.credentials, answer))
        case .none where answer.status == 401: return .fail(Self.error(.credentials, answer))
        case .some, .none: return .fail(Self.error(.forbidden, answer))
        }
    }

    /// The store's own words are part of it; the request is not.
    package static func error(_ kind: StoreError.Kind, _ answer: StoreAnswer) -> StoreError {
        let (code, message, region) = answer.problem
        let place = kind == .region ? region.map { " (the bucket is in \($0))" } ?? "" : ""
        return StoreError(
            kind, code: code, status: answer.status, detail: (message ?? "the store refused the request") + place)
    }
}
