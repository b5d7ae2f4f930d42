internal import WaybillData
package import WaybillSystem

/// A request to a store, before it is signed.
package struct StoreRequest: Hashable, Sendable {
    package enum Method: String, Hashable, Sendable {
        case get = "GET"
        case put = "PUT"
        case head = "HEAD"
        case delete = "DELETE"
        case post = "POST"
    }

    package struct Field: Hashable, Sendable {
        package let name: String
        package let value: String

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    package var method: Method
    package var isEncrypted: Bool
    /// With the port if it is not the scheme's own.
    package var host: String
    /// Percent-encoded, from its slash.
    package var path: String
    /// Names and values as they are meant, not encoded.
    package var query: [Field]
    package var headers: [Field]

    package init(
        _ method: Method, isEncrypted: Bool, host: String, path: String, query: [Field] = [], headers: [Field] = []
    ) {
        self.method = method
        self.isEncrypted = isEncrypted
        self.host = host
        self.path = path
        self.query = query
        self.headers = headers
    }

    /// The query in the order that is signed, and encoded as it is signed: so that nothing on the way needs to change it.
    package var encodedQuery: String {
        let pairs = self.query.map { (URIText.encode($0.name), URIText.encode($0.value)) }
            .sorted { ($0.0, $0.1) < ($1.0, $1.1) }
        return pairs.map { "\($0.0)=\($0.1)" }.joined(separator: "&")
    }

    package var url: String {
        let query = self.query.isEmpty ? "" : "?" + self.encodedQuery
        return "\(self.isEncrypted ? "https" : "http")://\(self.host)\(self.path)\(query)"
    }
}

/// What a signature says of the body.
package enum PayloadDigest: Hashable, Sendable {
    /// Hexadecimal SHA-256; the store refuses other bytes.
    case sha256(String)
    /// Over TLS alone.
    case unsigned

    package static let empty = PayloadDigest.sha256(Hexadecimal.text(SHA256.digest([])))

    var text: String {
        switch self {
        case .sha256(let text): text
        case .unsigned: "UNSIGNED-PAYLOAD"
        }
    }
}

/// Signs requests with AWS Signature Version 4, in headers.
///
/// - SeeAlso: "Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)", Amazon S3 API Reference.
package struct RequestSigner: Sendable {
    private let credentials: StoreCredentials
    private let region: String
    private let service: String

    package init(_ credentials: StoreCredentials, region: String, service: String = "s3") {
        self.credentials = credentials
        self.region = region
        self.service = service
    }

    /// The headers that the request is sent with: its own, `Host`, the date, the digest, the session's token, the signature.
    package func headers(
        of request: StoreRequest, payload: PayloadDigest, at time: WallTime
    ) -> [StoreRequest.Field] {
        let stamp = Self.stamp(time)
        var fields = request.headers
        fields.append(.init("Host", request.host))
        fields.append(.init("x-amz-content-sha256", payload.text))
        fields.append(.init("x-amz-date", stamp))
        if let token = self.credentials.token { fields.append(.init("x-amz-security-token", token.revealed)) }
        let signed = fields.map { ($0.name.lowercased(), Self.canonical($0.value)) }.sorted { $0.0 < $1.0 }
        let names = signed.map(\.0).joined(separator: ";")
        let canonical = [
            request.method.rawValue, request.path, request.encodedQuery,
            signed.map { "\($0.0):\($0.1)\n" }.joined(), names, payload.text,
        ].joined(separator: "\n")
        let scope = "\(stamp.prefix(8))/\(self.region)/\(self.service)/aws4_request"
        let text = "AWS4-HMAC-SHA256\n\(stamp)\n\(scope)\n\(Hexadecimal.text(SHA256.digest(Array(canonical.utf8))))"
        var key = Array("AWS4\(self.credentials.secret.revealed)".utf8)
        for part in [String(stamp.prefix(8)), self.region, self.service, "aws4_request"] {
            key = HMAC.sha256(key: key, Array(part.utf8))
        }
        let signature = Hexadecimal.text(HMAC.sha256(key: key, Array(text.utf8)))
        fields.append(
            .init(
                "Authorization",
                "AWS4-HMAC-SHA256 Credential=\(self.credentials.keyID)/\(scope),SignedHeaders=\(names),"
                    + "Signature=\(signature)"))
        return fields
    }

    /// Without spaces around it, and one space for several.
    private static func canonical(_ value: String) -> String {
        value.split(separator: " ", omittingEmptySubsequences: true).joined(separator: " ")
    }

    /// `YYYYMMDD'T'HHMMSS'Z'`.
    private static func stamp(_ time: WallTime) -> String {
        String(time.text.prefix(19).filter { $0 != "-" && $0 != ":" }) + "Z"
    }
}

/// HMAC (RFC 2104) with SHA-256.
enum HMAC {
    static func sha256(key: [UInt8], _ message: [UInt8]) -> [UInt8] {
        var block = key.count > 64 ? SHA256.digest(key) : key
        block += [UInt8](repeating: 0, count: 64 - block.count)
        let inner = SHA256.digest(block.map { $0 ^ 0x36 } + message)
        return SHA256.digest(block.map { $0 ^ 0x5C } + inner)
    }
}

/// Hashes a body while it is read, piece by piece.
package enum BodyDigest {
    private static let pieceByteCount = 1 << 20

    package static func sha256(_ body: ObjectBody) throws(StoreError) -> PayloadDigest {
        var hash = SHA256Digest()
        var offset = 0
        while offset < body.byteCount {
            let piece = try body.piece(offset, Self.pieceByteCount)
            piece.withUnsafeBytes { hash.update($0) }
            offset += piece.count
        }
        return .sha256(hash.finish())
    }
}

extension ObjectBody {
    /// The bytes from `offset`, at most `count`; fewer only at the end.
    package func piece(_ offset: Int, _ count: Int) throws(StoreError) -> [UInt8] {
        let wanted = min(count, self.byteCount - offset)
        let bytes: [UInt8]
        do throws(FileSystemError) {
            bytes = try self.read(offset, wanted)
        } catch {
            throw StoreError(.disk, code: error.code.rawValue, detail: error.description, remedy: error.remedy)
        }
        guard bytes.count == wanted else {
            throw StoreError(
                .disk, code: "short", detail: "\(bytes.count) bytes in place of \(wanted) at byte \(offset)")
        }
        return bytes
    }
}
