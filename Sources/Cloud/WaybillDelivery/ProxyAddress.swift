package import WaybillSystem

/// The error for an unusable proxy in the environment.
package struct ProxyError: Error, Hashable, Sendable, CustomStringConvertible {
    let variable: String

    package var description: String {
        "\(self.variable) is not an address such as http://proxy.example.com:3128; correct it or unset it"
    }
}

/// The proxy for a host from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`; lower-case names take
/// precedence).
package struct ProxyAddress: Hashable, Sendable {
    package let host: String
    package let port: Int
    /// `name:password`.
    package let login: Secret?

    /// - Returns: `nil` for a direct connection, which is always used for this machine.
    package static func find(
        for url: String, in variables: (String) -> String?
    ) throws(ProxyError) -> ProxyAddress? {
        guard let target = URLParts(url), !target.isLoopback else { return nil }
        let excluded = (variables("no_proxy") ?? variables("NO_PROXY") ?? "").split(separator: ",")
        for entry in excluded.map({ String($0).trimmed.lowercased() }) where !entry.isEmpty {
            let domain = entry.hasPrefix(".") ? String(entry.dropFirst()) : entry
            if domain == "*" || target.host.lowercased() == domain || target.host.lowercased().hasSuffix(".\(domain)") {
                return nil
            }
        }
        for variable in target.isEncrypted ? ["https_proxy", "HTTPS_PROXY"] : ["http_proxy", "HTTP_PROXY"] {
            guard let text = variables(variable), !text.isEmpty else { continue }
            guard let address = ProxyAddress(text) else { throw ProxyError(variable: variable) }
            return address
        }
        return nil
    }

    private init?(_ text: String) {
        guard text.hasPrefix("http://") || !text.contains("://") else { return nil }
        let rest = text.dropFirst(text.hasPrefix("http://") ? "http://".count : 0).prefix { $0 != "/" }
        let pieces = rest.split(separator: "@", maxSplits: 1)
        guard let address = pieces.last, let colon = address.lastIndex(of: ":"),
            let port = Int(address[address.index(after: colon)...]), (1...65_535).contains(port),
            colon != address.startIndex
        else { return nil }
        self.host = String(address[..<colon].filter { $0 != "[" && $0 != "]" })
        self.port = port
        self.login = pieces.count == 2 ? Secret(String(pieces[0])) : nil
    }
}
