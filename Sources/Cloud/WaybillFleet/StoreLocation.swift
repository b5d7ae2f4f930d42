internal import WaybillSystem

/// Where a store is: `s3://bucket/prefix`, an endpoint and a region.
package struct StoreLocation: Hashable, Sendable {
    /// How the bucket is named in a request.
    package enum Addressing: String, Hashable, Sendable, CaseIterable {
        /// In the host's name at AWS, in the path elsewhere.
        case auto
        case path
        case virtual
    }

    /// How bodies are protected besides TLS.
    package enum Checksum: String, Hashable, Sendable, CaseIterable {
        /// Their SHA-256 is signed, up to 64 MiB over TLS and always without.
        case auto
        /// Over TLS, bodies are not signed.
        case none
    }

    /// By which time mergers seal and delete.
    package enum Clock: String, Hashable, Sendable, CaseIterable {
        /// The earlier of this host's and the store's.
        case earlier
        /// This host's alone, for a store whose time is wrong.
        case host
    }

    package let bucket: String
    /// Without slashes around it; may be empty.
    package let prefix: String
    /// `https://host:port`; `nil` for AWS.
    package var endpoint: String?
    package var region: String?
    package var addressing = Addressing.auto
    package var checksum = Checksum.auto
    package var clock = Clock.earlier
    /// The file with the authorities that are trusted in place of the system's (PEM).
    package var authorities: String?

    private static let prefixByteCountMax = 512

    /// Reads `s3://bucket/prefix`.
    package init(_ url: String) throws(StoreError) {
        let wanted = "write s3://BUCKET/PREFIX; the prefix may be left out"
        func refuse(_ why: String) -> StoreError {
            StoreError(
                .configuration, code: "url", detail: "\"\(PercentText.encode(String(url.prefix(200))))\" \(why)",
                remedy: wanted)
        }
        guard url.hasPrefix("s3://") else { throw refuse("does not begin with s3://") }
        let parts = url.dropFirst(5).split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        self.bucket = String(parts[0])
        guard (3...63).contains(self.bucket.utf8.count), self.bucket.utf8.allSatisfy(\.isNameByte),
            !self.bucket.hasPrefix("."), !self.bucket.contains("..")
        else { throw refuse("has no bucket's name of 3 to 63 letters, digits, '-', '.' and '_'") }
        var prefix = parts.count == 2 ? parts[1] : ""
        if prefix.hasSuffix("/") { prefix = prefix.dropLast() }
        self.prefix = String(prefix)
        guard self.prefix.isEmpty || ObjectKey.isValid(self.prefix), self.prefix.utf8.count <= Self.prefixByteCountMax
        else { throw refuse("has a prefix with an empty or relative part, or a character that is not allowed") }
    }

    /// For messages.
    package var text: String { "s3://\(self.bucket)" + (self.prefix.isEmpty ? "" : "/\(self.prefix)") }

    /// The key in the bucket.
    package func key(_ key: String) -> String { self.prefix.isEmpty ? key : "\(self.prefix)/\(key)" }
}

/// What may be the key of an object: any text of S3's, without what HTTP clients and proxies normalise.
package enum ObjectKey {
    /// S3's limit, in UTF-8, prefix included.
    package static let byteCountMax = 1024

    /// No empty, `.` or `..` component, and no control character.
    package static func isValid(_ key: String) -> Bool {
        guard !key.isEmpty, key.utf8.count <= Self.byteCountMax,
            key.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F })
        else { return false }
        return key.split(separator: "/", omittingEmptySubsequences: false).allSatisfy {
            !$0.isEmpty && $0 != "." && $0 != ".."
        }
    }
}

/// The address that requests of a location go to.
package struct StoreEndpoint: Hashable, Sendable {
    package let isEncrypted: Bool
    /// With the port, if it is not the scheme's own.
    package let host: String
    /// What precedes the key, percent-encoded: `/` or `/bucket/`.
    private let base: String

    /// - Parameter region: what requests are signed for.
    package init(_ location: StoreLocation, region: String) throws(StoreError) {
        guard let endpoint = location.endpoint else {
            let domain = region.hasPrefix("cn-") ? "amazonaws.com.cn" : "amazonaws.com"
            self.init(
                isEncrypted: true, host: "s3.\(region).\(domain)", location,
                // A certificate for one level of names does not fit a bucket with dots.
                isVirtual: location.addressing == .virtual
                    || location.addressing == .auto && !location.bucket.contains("."))
            return
        }
        guard let (isEncrypted, host) = Self.parts(endpoint) else {
            throw StoreError(
                .configuration, code: "endpoint", detail: "the endpoint is not an address such as https://host:port",
                remedy: "correct store.endpoint; it has no path, query or password")
        }
        self.init(
            isEncrypted: isEncrypted, host: host, location,
            isVirtual: location.addressing == .virtual
                || location.addressing == .auto && host.hasSuffix(".amazonaws.com") && !location.bucket.contains("."))
    }

    private init(isEncrypted: Bool, host: String, _ location: StoreLocation, isVirtual: Bool) {
        self.isEncrypted = isEncrypted
        self.host = isVirtual ? "\(location.bucket).\(host)" : host
        self.base = isVirtual ? "/" : "/\(URIText.encode(location.bucket))/"
    }

    /// - Parameter key: the key in the bucket; `nil` for the bucket itself.
    package func request(
        _ method: StoreRequest.Method, key: String?, query: [StoreRequest.Field] = [],
        headers: [StoreRequest.Field] = []
    ) -> StoreRequest {
        let path = key.map { self.base + URIText.encode($0, keepingSlashes: true) }
        // A bucket in the path has no slash behind it in the request for itself: both forms are valid, this one is AWS's.
        let own = self.base == "/" ? "/" : String(self.base.dropLast())
        return StoreRequest(
            method, isEncrypted: self.isEncrypted, host: self.host, path: path ?? own, query: query, headers: headers)
    }

    private static func parts(_ text: String) -> (isEncrypted: Bool, host: String)? {
        guard let scheme = ["https://", "http://"].first(where: text.hasPrefix) else { return nil }
        var rest = text.dropFirst(scheme.count)
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        let usual = scheme == "https://" ? ":443" : ":80"
        let isHost: (UInt8) -> Bool = { byte in
            (0x30...0x3A).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                || byte == 0x2D || byte == 0x2E || byte == 0x5B || byte == 0x5D
        }
        guard !rest.isEmpty, rest.utf8.allSatisfy(isHost), !rest.hasPrefix(":") else { return nil }
        if !rest.hasSuffix("]"), let colon = rest.lastIndex(of: ":") {
            guard let port = Int(rest[rest.index(after: colon)...]), (1...65_535).contains(port) else { return nil }
        }
        let host = rest.hasSuffix(usual) ? rest.dropLast(usual.utf8.count) : rest
        return (scheme == "https://", host.lowercased())
    }
}
