import Testing
import WaybillFleet
import WaybillSystem

/// AWS's published examples ("Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)", Amazon S3 API
/// Reference, examples GET Object, PUT Object, GET Bucket Lifecycle, Get Bucket (List Objects)).
@Suite struct RequestSignerTests {
    private static let time = WallTime(text: "2013-05-24T00:00:00.000Z")

    private static func signer(token: String? = nil) throws -> RequestSigner {
        let secret = try #require(Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"))
        return RequestSigner(
            StoreCredentials(keyID: "AKIAIOSFODNN7EXAMPLE", secret: secret, token: token.flatMap(Secret.init)),
            region: "us-east-1")
    }

    private static func signature(
        _ request: StoreRequest, _ payload: PayloadDigest = .empty
    ) throws -> (names: String, signature: String) {
        let fields = try Self.signer().headers(of: request, payload: payload, at: try #require(Self.time))
        let value = try #require(fields.first { $0.name == "Authorization" }?.value)
        let parts = value.split(separator: ",")
        #expect(
            parts[0] == "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request")
        return (String(parts[1].dropFirst("SignedHeaders=".count)), String(parts[2].dropFirst("Signature=".count)))
    }

    private static func request(
        _ method: StoreRequest.Method, _ path: String, query: [StoreRequest.Field] = [],
        headers: [StoreRequest.Field] = []
    ) -> StoreRequest {
        StoreRequest(
            method, isEncrypted: true, host: "examplebucket.s3.amazonaws.com", path: path, query: query,
            headers: headers)
    }

    @Test func `GET Object has the published signature`() throws {
        let found = try Self.signature(Self.request(.get, "/test.txt", headers: [.init("Range", "bytes=0-9")]))
        #expect(found.names == "host;range;x-amz-content-sha256;x-amz-date")
        #expect(found.signature == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
    }

    @Test func `PUT Object has the published signature, and a dollar sign in the key is encoded`() throws {
        let body = ObjectBody(Array("Welcome to Amazon S3.".utf8))
        let path = "/" + URIText.encode("test$file.text", keepingSlashes: true)
        let found = try Self.signature(
            Self.request(
                .put, path,
                headers: [
                    .init("Date", "Fri, 24 May 2013 00:00:00 GMT"),
                    .init("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                ]), try BodyDigest.sha256(body))
        #expect(found.names == "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class")
        #expect(found.signature == "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")
    }

    @Test func `GET Bucket Lifecycle has the published signature: a parameter without a value`() throws {
        let found = try Self.signature(Self.request(.get, "/", query: [.init("lifecycle", "")]))
        #expect(found.signature == "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
    }

    @Test func `List Objects has the published signature, in whatever order parameters are given`() throws {
        let query: [StoreRequest.Field] = [.init("prefix", "J"), .init("max-keys", "2")]
        let found = try Self.signature(Self.request(.get, "/", query: query))
        #expect(found.signature == "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
    }

    @Test func `every byte but the unreserved ones is encoded, and a slash of a key is kept`() {
        #expect(URIText.encode("env=prod/a b+c~d/é", keepingSlashes: true) == "env%3Dprod/a%20b%2Bc~d/%C3%A9")
        #expect(URIText.encode("a/b=") == "a%2Fb%3D")
        let request = Self.request(.get, "/", query: [.init("start-after", "p/q=1"), .init("list-type", "2")])
        #expect(request.url == "https://examplebucket.s3.amazonaws.com/?list-type=2&start-after=p%2Fq%3D1")
    }

    @Test func `a session's token is signed, and neither it nor the secret prints`() throws {
        let fields = try Self.signer(token: "TOKEN").headers(
            of: Self.request(.get, "/a"), payload: .unsigned, at: try #require(Self.time))
        #expect(fields.contains(.init("x-amz-security-token", "TOKEN")))
        #expect(fields.contains(.init("x-amz-content-sha256", "UNSIGNED-PAYLOAD")))
        let authorization = try #require(fields.first { $0.name == "Authorization" }?.value)
        #expect(authorization.contains("host;x-amz-content-sha256;x-amz-date;x-amz-security-token"))
        let credentials = StoreCredentials(
            keyID: "AKIAIOSFODNN7EXAMPLE", secret: try #require(Secret("hidden")), token: Secret("concealed"))
        for text in ["\(credentials)", String(reflecting: credentials)] {
            #expect(!text.contains("hidden") && !text.contains("concealed"))
        }
    }

    @Test func `a long body is hashed piece by piece`() throws {
        let bytes = (0..<(3 << 20) + 17).map { UInt8(truncatingIfNeeded: $0) }
        let body = ObjectBody(byteCount: bytes.count) { offset, count in Array(bytes[offset..<(offset + count)]) }
        #expect(try BodyDigest.sha256(body) == BodyDigest.sha256(ObjectBody(bytes)))
        let short = ObjectBody(byteCount: 9) { _, _ in [1] }
        #expect(throws: StoreError.self) { try BodyDigest.sha256(short) }
    }
}
