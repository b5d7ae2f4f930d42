package import WaybillSystem

/// Who may read `GET /status`, which names agents, addresses and files.
///
///     by the UNIX socket                             the socket's permissions decide
///     from this machine, under a loopback name       yes: a page of another site has another name
///     with `Authorization: Bearer TOKEN`             if it is the token: a page of another site does not know it
///     anything else                                  no
package struct StatusAccess: Sendable {
    /// Why a request is refused.
    package enum Refusal: Error, Hashable, Sendable {
        /// There is no token, so other machines get nothing.
        case elsewhere
        /// The token is missing or wrong.
        case token

        var text: String {
            switch self {
            case .elsewhere:
                "/status is for the program's own machine: ask there, with http://127.0.0.1 and the port, or set "
                    + "status_token_file and send its token\n"
            case .token: "/status from elsewhere needs the header Authorization: Bearer TOKEN, with the right token\n"
            }
        }
    }

    private let token: StatusToken

    package init(token: StatusToken) {
        self.token = token
    }

    /// - Parameters:
    ///   - isLoopback: whether the peer is on this machine.
    ///   - hosts: the values of the request's `Host` headers.
    ///   - authorizations: those of its `Authorization` headers.
    package func check(isLoopback: Bool, hosts: [String], authorizations: [String]) throws(Refusal) {
        let isOwnHost = hosts.allSatisfy { LocalRequest.host(ofHeader: $0).map(LocalRequest.isLoopbackName) ?? false }
        if isLoopback, isOwnHost { return }
        guard let token = self.token.current else { throw .elsewhere }
        guard authorizations.count == 1, let shown = Self.token(in: authorizations[0]), token.isEqual(to: shown) else {
            throw .token
        }
    }

    /// RFC 6750, section 2.1; the scheme's case does not matter.
    private static func token(in header: String) -> String? {
        let parts = header.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { return nil }
        return String(parts[1].drop { $0 == " " })
    }
}

/// What other machines must show for `GET /status`; a reload may replace it.
package final class StatusToken: Sendable {
    private let token: Lock<Secret?>

    /// - Parameter token: `nil`: other machines get nothing.
    package init(_ token: Secret?) {
        self.token = Lock(token)
    }

    /// The token for requests from now on.
    package var current: Secret? {
        get { self.token.withLock { $0 } }
        set { self.token.withLock { $0 = newValue } }
    }
}
