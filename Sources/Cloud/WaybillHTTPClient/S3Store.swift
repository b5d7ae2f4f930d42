internal import NIOCore
internal import WaybillDelivery
package import WaybillFleet
package import WaybillSystem

/// A bucket of an S3 store over HTTP.
///
/// Constraints:
/// - The calling thread waits; any number of threads may call at once, and share the connections.
/// - A conditional write that got no answer is sent again: then `.present` may be this very write.
/// - Nothing that it throws or keeps as text has a secret in it.
package final class S3Store: ObjectStore {
    package struct Options: Sendable {
        package var connectionCountMax = 4
        package var connectTimeout = Duration.seconds(10)
        package var timeout = Duration.seconds(30)
        /// How long after a call's start an attempt may begin, and a second more for each MiB that it sends.
        package var budget = Duration.seconds(60)

        package init() {}
    }

    private struct State {
        var region: String
        /// What requests are signed with beside this host's time, once the store has refused that.
        var signingOffset = Duration.zero
        var clockOffset: Duration?
        var isStopped = false
        var generator: SeededGenerator
    }

    private let location: StoreLocation
    private let options: Options
    private let clock: any SystemClock
    private let transport: StoreTransport
    private let credentials: CredentialStore
    private let state: Monitor<State>

    /// Bodies up to this are hashed and signed over TLS, too.
    private static let signedByteCountMax = 64 << 20

    /// - Parameters:
    ///   - variables: the environment: credentials, region, proxy.
    ///   - files: where credentials' files are read.
    package init(
        _ location: StoreLocation, options: Options = Options(), variables: @escaping @Sendable (String) -> String?,
        files: any FileSystem = POSIXFileSystem(), clock: any SystemClock = POSIXClock()
    ) throws(StoreError) {
        let settings = try CredentialSettings.find(variables: variables, files: files)
        var location = location
        location.endpoint = location.endpoint ?? settings.endpoint
        let region = location.region ?? settings.region ?? "us-east-1"
        (self.location, self.options, self.clock) = (location, options, clock)
        let endpoint = try StoreEndpoint(location, region: region)
        let limits = StoreTransport.Limits(
            connectionCountMax: options.connectionCountMax, connectTimeout: options.connectTimeout,
            timeout: options.timeout)
        let url = "\(endpoint.isEncrypted ? "https" : "http")://\(endpoint.host)"
        self.transport = try StoreTransport(
            limits, proxy: try Self.proxy(for: url, variables), authorities: location.authorities)
        self.credentials = CredentialStore(region: region, clock: clock, files: files, remote: self.transport) {
            () throws(StoreError) in
            try CredentialSettings.find(variables: variables, files: files).source
        }
        self.state = Monitor(State(region: region, generator: SeededGenerator(seed: SystemRandom.seed())))
    }

    private static func proxy(for url: String, _ variables: (String) -> String?) throws(StoreError) -> ProxyAddress? {
        do throws(ProxyError) {
            return try ProxyAddress.find(for: url, in: variables)
        } catch {
            throw StoreError(
                .configuration, code: "proxy", detail: error.description, remedy: "correct the environment")
        }
    }

    /// For people: where it is, and where its credentials come from.
    package var credentialText: String { self.credentials.text }

    /// Ends each waiting call with the kind `stopped`, and closes the connections.
    ///
    /// Nothing can be called afterwards.
    package func shutDown() {
        self.state.update { $0.isStopped = true }
        self.credentials.shutDown()
        do {
            try self.transport.shutDown()
        } catch {
            // What remains are connections, which end with the process; no call waits for them.
            return
        }
    }

    // MARK: ObjectStore

    package func create(_ key: String, _ body: ObjectBody) throws(StoreError) -> Creation {
        let answer = try self.put(key, body, headers: [.init("If-None-Match", "*")])
        return answer.status == 412 ? .present : .created
    }

    package func replace(_ key: String, _ body: ObjectBody) throws(StoreError) {
        let answer = try self.put(key, body, headers: [])
        guard answer.status != 412 else { throw RequestAttempts.error(.refused, answer) }
    }

    private func put(
        _ key: String, _ body: ObjectBody, headers: [StoreRequest.Field]
    ) throws(StoreError) -> StoreAnswer {
        guard body.byteCount <= ObjectLimits.bodyByteCountMax else {
            throw StoreError(.tooLarge, detail: "\(body.byteCount) bytes are more than one PUT takes")
        }
        let answer = try self.perform(.put, key: try self.key(key), headers: headers, body: body)
        guard [200, 204, 412].contains(answer.status) else { throw RequestAttempts.error(.refused, answer) }
        return answer
    }

    package func read(_ key: String, _ range: Range<Int>?) throws(StoreError) -> [UInt8]? {
        if let range, range.isEmpty { return try self.status(of: key) == nil ? nil : [] }
        let most = range?.count ?? ObjectLimits.readByteCountMax
        guard most <= ObjectLimits.readByteCountMax, range.map({ $0.lowerBound >= 0 }) ?? true else {
            throw StoreError(.tooLarge, detail: "a range of \(most) bytes is more than one call reads")
        }
        let headers = range.map { [StoreRequest.Field("Range", "bytes=\($0.lowerBound)-\($0.upperBound - 1)")] }
        let answer = try self.perform(
            .get, key: try self.key(key), headers: headers ?? [],
            answerByteCountMax: max(most, StoreAnswer.errorByteCountMax))
        switch (answer.status, range) {
        case (404, _): return nil
        case (416, .some): return []
        case (200, nil): return answer.body
        case (200, let range?):
            // The store knows no ranges and sent everything, which was not too much.
            let range = range.clamped(to: 0..<answer.body.count)
            return Array(answer.body[range])
        case (206, let range?):
            let place = answer.header("content-range") ?? ""
            guard answer.body.count <= range.count, place.hasPrefix("bytes \(range.lowerBound)-") else {
                throw StoreError(.damaged, code: "range", detail: "the store sent another range of \(key)")
            }
            return answer.body
        default: throw RequestAttempts.error(.damaged, answer)
        }
    }

    package func status(of key: String) throws(StoreError) -> ObjectStatus? {
        let answer = try self.perform(.head, key: try self.key(key))
        switch answer.status {
        case 404: return nil
        case 200: return try answer.status(of: key)
        default: throw RequestAttempts.error(.damaged, answer)
        }
    }

    package func list(_ prefix: String, after: String?, isFolded: Bool) throws(StoreError) -> ObjectListing {
        let own = self.location.prefix.isEmpty ? "" : self.location.prefix + "/"
        var query: [StoreRequest.Field] = [
            .init("list-type", "2"), .init("encoding-type", "url"), .init("max-keys", "1000"),
            .init("prefix", own + prefix),
        ]
        if isFolded { query.append(.init("delimiter", "/")) }
        if let after {
            // Keys in a folder that was given come after its name: the greatest character skips them.
            let last = isFolded && after.hasSuffix("/") ? after + "\u{10FFFF}" : after
            query.append(.init("start-after", own + last))
        }
        let answer = try self.perform(.get, key: nil, query: query, answerByteCountMax: StoreAnswer.pageByteCountMax)
        guard answer.status == 200 else { throw RequestAttempts.error(.damaged, answer) }
        return try answer.listing(prefix: own, after: after, isFolded: isFolded)
    }

    package func delete(_ key: String) throws(StoreError) {
        let answer = try self.perform(.delete, key: try self.key(key))
        guard [200, 204, 404].contains(answer.status) else { throw RequestAttempts.error(.refused, answer) }
    }

    private func key(_ key: String) throws(StoreError) -> String {
        let whole = self.location.key(key)
        guard ObjectKey.isValid(whole) else {
            throw StoreError(
                .refused, code: "key", detail: "a key has an empty or relative part, or more than 1024 bytes")
        }
        return whole
    }

    // MARK: Attempts

    private func perform(
        _ method: StoreRequest.Method, key: String?, query: [StoreRequest.Field] = [],
        headers: [StoreRequest.Field] = [], body: ObjectBody? = nil,
        answerByteCountMax: Int = StoreAnswer.errorByteCountMax
    ) throws(StoreError) -> StoreAnswer {
        let payload = try self.digest(of: body)
        let byteCount = body?.byteCount ?? 0
        var attempts = RequestAttempts(
            start: self.clock.monotonicTime(), budget: self.options.budget + .seconds(byteCount >> 20),
            SeededGenerator(seed: self.state.withLock { $0.generator.next() }))
        while true {
            let credentials = try self.credentials.get()
            let (region, offset, isStopped) = self.state.withLock { ($0.region, $0.signingOffset, $0.isStopped) }
            guard !isStopped else { throw Self.stopped }
            let now = self.clock.wallTime()
            let request = try StoreEndpoint(self.location, region: region)
                .request(method, key: key, query: query, headers: headers)
            let signed = RequestSigner(credentials, region: region).headers(
                of: request, payload: payload,
                at: WallTime(milliseconds: now.milliseconds + offset.nanoseconds / 1_000_000))
            let outcome: AttemptOutcome
            switch self.transport.send(method, request.url, signed, body, answerByteCountMax: answerByteCountMax) {
            case .success(let answer):
                self.learnClock(answer, askedAt: now)
                outcome = .answer(answer)
            case .failure(.broken(let text)): outcome = .failure(detail: "\(request.host): \(text)")
            case .failure(.body(let error)): throw error
            case .failure(.tooLarge):
                throw StoreError(.tooLarge, detail: "the answer has more than \(answerByteCountMax) bytes")
            }
            switch attempts.judge(outcome, at: self.clock.monotonicTime(), signedAt: now) {
            case .done(let answer): return answer
            case .fail(let error): throw self.isStopped ? Self.stopped : error
            case .again(let wait): try self.wait(wait)
            case .region(let region): self.state.update { $0.region = region }
            case .clock(let offset): self.state.update { $0.signingOffset = offset }
            case .credentials: self.credentials.refused(credentials)
            }
        }
    }

    package var clockOffset: Duration? {
        self.location.clock == .host ? nil : self.state.withLock { $0.clockOffset }
    }

    /// - Parameter now: when the request was sent: its answer may take long, and the store says when that begins.
    private func learnClock(_ answer: StoreAnswer, askedAt now: WallTime) {
        guard let theirs = answer.header("date").flatMap({ HTTPDate.time($0) }) else { return }
        let offset = Duration.milliseconds(theirs.milliseconds.saturatingSum(-now.milliseconds))
        self.state.withLock { $0.clockOffset = offset }
    }

    private func digest(of body: ObjectBody?) throws(StoreError) -> PayloadDigest {
        guard let body else { return .empty }
        let region = self.state.withLock { $0.region }
        let isEncrypted = try StoreEndpoint(self.location, region: region).isEncrypted
        let isLong = body.byteCount > Self.signedByteCountMax
        guard !isEncrypted || self.location.checksum == .auto && !isLong else { return .unsigned }
        return try BodyDigest.sha256(body)
    }

    private static let stopped = StoreError(.stopped, detail: "the store's client was shut down")

    private var isStopped: Bool { self.state.withLock { $0.isStopped } }

    private func wait(_ duration: Duration) throws(StoreError) {
        let end = self.clock.monotonicTime() + duration
        let isStopped: Bool? = self.state.wait(until: end) { $0.isStopped ? true : nil }
        guard isStopped == nil else { throw Self.stopped }
    }
}
