internal import WaybillMetrics
internal import WaybillSystem
internal import WaybillTLS

/// What a reload replaces while the agent runs, outside of its pump.
final class AgentLive: Sendable {
    /// The configuration that was taken last.
    let taken: Lock<AgentConfiguration>
    /// The token that the agent had then.
    let token = Lock<Secret?>(nil)
    let tls = Lock<TLSClient?>(nil)
    let compression = Lock<Compression?>(nil)
    let statusToken: StatusToken
    /// The pump's; `nil` before it starts.
    let inbox = Lock<PumpInbox?>(nil)
    let reloads = Lock(ReloadCounts())

    init(_ configuration: AgentConfiguration) {
        self.taken = Lock(configuration)
        self.statusToken = StatusToken(configuration.statusToken)
    }

    /// Remembers the token, for a reload to compare; each connection reads it again, and says why it cannot.
    func rememberToken(of configuration: AgentConfiguration) {
        let token: Secret?
        do throws(TokenFile.Failure) {
            token = try configuration.presentToken(on: POSIXFileSystem())
        } catch {
            token = nil
        }
        self.token.withLock { $0 = token }
    }
}
