internal import WaybillFleet
internal import WaybillSystem

/// Credentials for the threads of a store: one gets new ones, others wait or use the old.
final class CredentialStore: Sendable {
    private let region: String
    private let clock: any SystemClock
    private let files: any FileSystem
    /// Through the proxy, for STS.
    private let remote: StoreTransport
    private let find: @Sendable () throws(StoreError) -> CredentialSource
    private let cache = Monitor(CredentialCache())
    private let source = Lock<CredentialSource?>(nil)
    /// Without a proxy, for this machine's own addresses; made when it is needed.
    private let local = Lock<StoreTransport?>(nil)

    /// Nothing but this machine answers there, at once or never.
    private static let localTimeout = Duration.seconds(3)
    private static let waitMax = Duration.seconds(60)
    private static let tokenByteCountMax = 64 << 10

    init(
        region: String, clock: any SystemClock, files: any FileSystem, remote: StoreTransport,
        find: @escaping @Sendable () throws(StoreError) -> CredentialSource
    ) {
        (self.region, self.clock, self.files, self.remote, self.find) = (region, clock, files, remote, find)
    }

    /// Where they come from; no secret is in it.
    var text: String { self.source.withLock { $0 }?.text ?? "none yet" }

    func get() throws(StoreError) -> StoreCredentials {
        let deadline = self.clock.monotonicTime() + Self.waitMax
        let step = self.cache.wait(until: deadline) { cache -> CredentialCache.Step? in
            let step = cache.need(at: self.clock.wallTime())
            return step == .wait ? nil : step
        }
        switch step {
        case .use(let credentials): return credentials
        case .refresh: return try self.refresh()
        case .wait, nil:
            throw StoreError(.credentials, code: "slow", detail: "the source of credentials does not answer")
        }
    }

    /// The store refused them as ended.
    func refused(_ credentials: StoreCredentials) {
        self.cache.update { $0.refused(credentials) }
    }

    func shutDown() {
        do {
            try self.local.withLock { try $0?.shutDown() }
        } catch {
            // What remains are connections, which end with the process.
            return
        }
    }

    private func refresh() throws(StoreError) -> StoreCredentials {
        do throws(StoreError) {
            let credentials = try self.fetch()
            self.cache.update { $0.refreshed(credentials) }
            return credentials
        } catch {
            self.cache.update { $0.refreshFailed(at: self.clock.wallTime()) }
            throw error
        }
    }

    private func fetch() throws(StoreError) -> StoreCredentials {
        // Found again each time: a file may have been replaced.
        let source = try self.find()
        self.source.withLock { $0 = source }
        var fetch = CredentialFetch(source, region: self.region, token: try self.token(of: source))
        var step = fetch.first
        while true {
            switch step {
            case .done(let credentials): return credentials
            case .fail(let error): throw error
            case .send(let request):
                let transport = request.isLocal ? try self.localTransport() : self.remote
                switch transport.send(
                    request.method, request.url, request.headers, nil,
                    answerByteCountMax: StoreAnswer.errorByteCountMax)
                {
                case .success(let answer): step = fetch.answered(answer)
                case .failure: throw Self.unanswered(source)
                }
            }
        }
    }

    private static func unanswered(_ source: CredentialSource) -> StoreError {
        switch source {
        case .instance: StoreError(.credentials, code: "none", detail: "no credentials for the store were found")
        case .fixed, .webIdentity, .container:
            StoreError(
                .credentials, code: "unreachable", detail: "\(source.text) does not answer",
                remedy: "check the network and the address")
        }
    }

    private func token(of source: CredentialSource) throws(StoreError) -> String? {
        guard let file = source.tokenFile else { return nil }
        do throws(FileSystemError) {
            let bytes = try self.files.contents(of: file, byteCountMax: Self.tokenByteCountMax)
            return bytes.map { String(decoding: $0.filter { (0x21...0x7E).contains($0) }, as: UTF8.self) }
        } catch {
            throw StoreError(.credentials, code: error.code.rawValue, detail: error.description, remedy: error.remedy)
        }
    }

    private func localTransport() throws(StoreError) -> StoreTransport {
        try self.local.withLock { (local) throws(StoreError) in
            if let local { return local }
            let limits = StoreTransport.Limits(
                connectionCountMax: 1, connectTimeout: Self.localTimeout, timeout: Self.localTimeout)
            let transport = try StoreTransport(limits, proxy: nil, authorities: nil)
            local = transport
            return transport
        }
    }
}
