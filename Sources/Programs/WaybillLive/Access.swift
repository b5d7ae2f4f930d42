package import WaybillSystem
internal import WaybillHost

/// The head of a request, as far as it matters here.
package struct RequestHead: Sendable {
    package let method: String
    package let uri: String
    package let headers: [(name: String, value: String)]

    /// The values of a header, whatever the case of its name.
    package func values(_ name: String) -> [String] {
        self.headers.filter { $0.name.lowercased() == name }.map(\.value)
    }

    var path: String { String(self.uri.prefix { $0 != "?" }) }
}

/// Who may look at the page: who shows the token, under a name of this server, and from a page of its own.
///
///     a token on the command line ─▶ http://127.0.0.1:4392/#t=…   the fragment is in no log and no request
///       ─▶ POST /api/session ─▶ cookie ─▶ GET /api/…
package struct Access: Sendable {
    package static let uriByteCountMax = 8192
    package static let headerCountMax = 64
    package static let headerByteCountMax = 16 << 10

    /// An answer in place of what was asked for.
    package struct Refusal: Error, Hashable, Sendable {
        package let status: Int
        package let text: String

        package init(_ status: Int, _ text: String) {
            self.status = status
            self.text = text
        }
    }

    private let token: Secret
    /// What the cookie holds: made from the token, so that it survives a start with the same one.
    private let session: Secret
    private let cookieName: String
    private let hosts: Set<String>
    private let isSecure: Bool

    /// - Parameters:
    ///   - port: part of the cookie's name, because a browser gives a cookie to all ports of a host.
    ///   - hosts: names of this server besides those of this machine.
    package init(token: Secret, port: Int, hosts: [String], isSecure: Bool) {
        self.token = token
        let digest = SHA256.digest(Array("waybill live session\n\(token.revealed)".utf8))
        guard let session = Secret(digest.map { Hexadecimal.text($0, digitCount: 2) }.joined()) else {
            preconditionFailure("a digest has 64 digits")
        }
        self.session = session
        self.cookieName = "waybill-\(port)"
        self.hosts = Set(hosts.map { $0.lowercased() })
        self.isSecure = isSecure
    }

    /// Checks what holds for every request; throws the answer if it is refused.
    package func check(_ head: RequestHead) throws(Refusal) {
        guard head.uri.utf8.count <= Self.uriByteCountMax else {
            throw Refusal(414, "the address is longer than \(Self.uriByteCountMax) bytes; shorten the filter")
        }
        let byteCount = head.headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        guard head.headers.count <= Self.headerCountMax, byteCount <= Self.headerByteCountMax else {
            throw Refusal(431, "the request has too many headers; delete the cookies of this host")
        }
        let hosts = head.values("host")
        guard hosts.count == 1, let host = LocalRequest.host(ofHeader: hosts[0]), self.isOwn(host) else {
            throw Refusal(
                421, "this is not a name of this server; use the address that it printed, or start it with --host NAME")
        }
        guard head.method == "GET" || (head.method == "POST" && head.path == "/api/session") else {
            throw Refusal(405, "this server only answers GET")
        }
        try self.checkOrigin(head, host: hosts[0])
    }

    private func isOwn(_ host: String) -> Bool {
        LocalRequest.isLoopbackName(host) || self.hosts.contains(host)
    }

    /// A page of another site gets nothing, whatever its browser would send along.
    private func checkOrigin(_ head: RequestHead, host: String) throws(Refusal) {
        let refusal = Refusal(403, "pages of other sites get nothing here; open the address that this server printed")
        for origin in head.values("origin") {
            guard origin.lowercased() == "\(self.isSecure ? "https" : "http")://\(host.lowercased())" else {
                throw refusal
            }
        }
        guard head.path.hasPrefix("/api/") else { return }
        for site in head.values("sec-fetch-site") where site != "same-origin" && site != "none" { throw refusal }
    }

    /// Whether a request shows the token or the cookie.
    package func admits(_ head: RequestHead) -> Bool {
        for value in head.values("authorization") where value.lowercased().hasPrefix("bearer ") {
            if self.token.isEqual(to: String(value.dropFirst(7))) { return true }
        }
        for value in head.values("cookie") {
            for pair in value.split(separator: ";") {
                let parts = pair.split(separator: "=", maxSplits: 1).map { $0.drop { $0 == " " } }
                if parts.count == 2, parts[0] == self.cookieName, self.session.isEqual(to: String(parts[1])) {
                    return true
                }
            }
        }
        return false
    }

    /// The cookie for who shows the token.
    package func cookie(for token: String) -> String? {
        guard self.token.isEqual(to: token) else { return nil }
        let secure = self.isSecure ? "; Secure" : ""
        return "\(self.cookieName)=\(self.session.revealed); HttpOnly; SameSite=Strict; Path=/\(secure)"
    }

    /// The headers of every answer.
    package static let headers: [(name: String, value: String)] = [
        (
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
                + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("X-Frame-Options", "DENY"),
    ]
}
