import Testing
import WaybillFleet

@Suite struct StoreLocationTests {
    @Test func `a location has a bucket and a prefix`() throws {
        let location = try StoreLocation("s3://example-events/waybill/eu/")
        #expect(location.bucket == "example-events")
        #expect(location.prefix == "waybill/eu")
        #expect(location.key("a") == "waybill/eu/a")
        #expect(location.text == "s3://example-events/waybill/eu")
        #expect(try StoreLocation("s3://abc").key("a") == "a")
    }

    @Test(arguments: [
        "", "s3:/a", "http://x/y", "s3://", "s3://ab", "s3://a b c/x", "s3://a..b/x", "s3://.abc", "s3://abc//x",
        "s3://abc/x//y", "s3://abc/../y", "s3://abc/x\n", "s3://user:secret@abc/x",
    ])
    func `what is no location is refused`(url: String) {
        #expect { try StoreLocation(url) } throws: { ($0 as? StoreError)?.kind == .configuration }
    }

    private static func url(
        _ endpoint: String?, _ bucket: String = "events", region: String = "eu-west-1",
        addressing: StoreLocation.Addressing = .auto
    ) throws -> String {
        var location = try StoreLocation("s3://\(bucket)/p")
        (location.endpoint, location.addressing) = (endpoint, addressing)
        return try StoreEndpoint(location, region: region).request(.get, key: location.key("k=1")).url
    }

    @Test func `the bucket is in the host's name at AWS, and in the path elsewhere`() throws {
        #expect(try Self.url(nil) == "https://events.s3.eu-west-1.amazonaws.com/p/k%3D1")
        #expect(try Self.url(nil, "ev.ents") == "https://s3.eu-west-1.amazonaws.com/ev.ents/p/k%3D1")
        #expect(try Self.url(nil, region: "cn-north-1") == "https://events.s3.cn-north-1.amazonaws.com.cn/p/k%3D1")
        #expect(try Self.url(nil, addressing: .path) == "https://s3.eu-west-1.amazonaws.com/events/p/k%3D1")
        #expect(try Self.url("http://127.0.0.1:9000/") == "http://127.0.0.1:9000/events/p/k%3D1")
        #expect(
            try Self.url("https://store.example.com:443", addressing: .virtual)
                == "https://events.store.example.com/p/k%3D1")
    }

    @Test(arguments: [
        "store.example.com", "https://", "https://a b", "https://user@host", "https://h/path", "http://h:0",
        "http://h:x",
    ])
    func `an endpoint that is no address is refused`(endpoint: String) {
        #expect { try Self.url(endpoint) } throws: { ($0 as? StoreError)?.code == "endpoint" }
    }
}
