import Testing
import WaybillCompression
import WaybillEvent
import WaybillExport
import WaybillSystem

@testable import WaybillDelivery

private let values = Dictionary(
    uniqueKeysWithValues: DeliverableProvider.allCases.flatMap(\.facts.credentials).map {
        ($0.variable(.prod), "s3cret-\"\\&/\($0.rawValue)")
    })

private func credentials(_ provider: DeliverableProvider) throws -> Credentials {
    try #require(try CredentialSource(values).credentials(for: provider, .prod))
}

@Suite struct RequestTemplateTests {
    private func request(
        _ provider: DeliverableProvider, _ records: [String], isHistorical: Bool = false, endpoint: String? = nil
    ) throws -> DeliveryRequest {
        try RequestTemplate(provider, region: nil, endpoint: endpoint, isHistorical: isHistorical)
            .request(records.map { Array($0.utf8) }, try credentials(provider))
    }

    @Test func `each provider gets the body that it documents`() throws {
        let records = ["{\"a\":1}", "{\"b\":2}"]
        func body(_ provider: DeliverableProvider, isHistorical: Bool = false) throws -> String {
            String(
                decoding: try self.request(
                    provider, records, isHistorical: isHistorical,
                    endpoint: provider == .snowplow ? "https://c.example.com" : nil
                ).body, as: UTF8.self)
        }
        #expect(
            try body(.amplitude)
                == "{\"api_key\":\"s3cret-\\\"\\\\&/AMPLITUDE_API_KEY\",\"events\":[{\"a\":1},{\"b\":2}],"
                + "\"options\":{\"min_id_length\":5}}")
        #expect(
            try body(.segment)
                == "{\"batch\":[{\"a\":1},{\"b\":2}],\"writeKey\":\"s3cret-\\\"\\\\&/SEGMENT_WRITE_KEY\"}")
        #expect(
            try body(.posthog, isHistorical: true)
                == "{\"api_key\":\"s3cret-\\\"\\\\&/POSTHOG_API_KEY\",\"historical_migration\":true,"
                + "\"batch\":[{\"a\":1},{\"b\":2}]}")
        #expect(
            try body(.snowplow)
                == "{\"schema\":\"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4\","
                + "\"data\":[{\"a\":1},{\"b\":2}]}")
    }

    @Test func `GA4 has one record a request and its secrets in the query`() throws {
        let request = try self.request(.ga4, ["{\"a\":1}"])
        #expect(request.body == Array("{\"a\":1}".utf8))
        #expect(
            request.url
                == "https://www.google-analytics.com/mp/collect?firebase_app_id=s3cret-%22%5C%26%2FGA4_FIREBASE_APP_ID"
                + "&api_secret=s3cret-%22%5C%26%2FGA4_API_SECRET")
    }

    @Test func `Mixpanel's lines are compressed, and the login is in a header`() throws {
        let request = try self.request(.mixpanel, ["{\"a\":1}", "{\"b\":2}"])
        #expect(request.body.starts(with: [0x1F, 0x8B, 8]))
        #expect(request.headers.map(\.name) == ["Content-Type", "Authorization", "Content-Encoding"])
        let login = "s3cret-\"\\&/MIXPANEL_SERVICE_ACCOUNT:s3cret-\"\\&/MIXPANEL_SERVICE_SECRET"
        #expect(request.headers[1].value == "Basic \(Base64.text(Array(login.utf8)))")
    }

    @Test func `the token goes where the exporter left room, and nowhere else`() throws {
        let token = "${MIXPANEL_TOKEN}"
        let record = """
            {"$token":"\(token)","$distinct_id":"u","$set":{"a":"\(token)","n":{"$token":"\(token)"},\
            "t":"{\\"$token\\":\\"\(token)\\"}"}},{"$token":"\(token)","$unset":["x"]}
            """
        let body = String(decoding: try self.request(.mixpanelProfiles, [record]).body, as: UTF8.self)
        let filled = "{\"$token\":\"s3cret-\\\"\\\\&/MIXPANEL_TOKEN\",\""
        #expect(body.hasPrefix("[\(filled)$distinct_id"))
        #expect(body.contains("},\(filled)$unset"))
        #expect(body.split(separator: "s3cret", omittingEmptySubsequences: false).count == 3)
        #expect(body.split(separator: token, omittingEmptySubsequences: false).count == 4)
    }

    @Test(arguments: DeliverableProvider.allCases)
    func `what is shown holds no secret`(provider: DeliverableProvider) throws {
        let template = try RequestTemplate(provider, region: nil, endpoint: "https://c.example.com")
        let shown = template.shown([Array("{\"a\":1}".utf8)], .prod)
        #expect(!shown.contains("s3cret"))
        #expect(shown.hasPrefix("POST https://c.example.com/"))
        for name in provider.facts.credentials where name != provider.facts.updateToken {
            #expect(shown.contains("${\(name.variable(.prod))"))
        }
        #expect("\(template.request([], try credentials(provider)))" == "<request>")
    }

    @Test(
        arguments: [
            ("https://c.example.com", "https://c.example.com/v1/batch"), ("HTTPS://c/", "https://c/v1/batch"),
            ("https://c:8443/own/path", "https://c:8443/own/path"),
            ("http://127.0.0.1:80", "http://127.0.0.1:80/v1/batch"),
            ("http://[::1]:80", "http://[::1]:80/v1/batch"),
        ])
    func `an endpoint without a path gets the provider's`(endpoint: String, address: String) throws {
        #expect(try RequestTemplate(.segment, region: nil, endpoint: endpoint).address == address)
    }

    @Test func `addresses that are none, give secrets away or are missing are refused`() {
        func error(_ provider: DeliverableProvider, _ endpoint: String?, _ region: ProviderRegion? = nil)
            -> EndpointError?
        {
            #expect(throws: EndpointError.self) {
                try RequestTemplate(provider, region: region, endpoint: endpoint)
            }
        }
        #expect(error(.segment, "http://c.example.com") == .cleartext("http://c.example.com"))
        #expect(error(.segment, "http://127.evil.example.com") == .cleartext("http://127.evil.example.com"))
        #expect(error(.segment, "https://me:pw@c") == .holdsCredentials)
        for text in ["", "c.example.com", "https://", "https:///x", "https://c/?a=b", "https://c/#x", "https://c d"] {
            #expect(error(.segment, text) == .malformed(text))
        }
        #expect(error(.snowplow, nil) == .missing(.snowplow))
        #expect(error(.snowplow, nil, .eu) == .noRegion(.snowplow))
        #expect(throws: Never.self) { try RequestTemplate(.snowplow, region: nil, endpoint: "http://c.example.com") }
    }

    @Test(arguments: [0, 1, 70_000])
    func `gzip holds what went in`(byteCount: Int) throws {
        let bytes = (0..<byteCount).map { UInt8(truncatingIfNeeded: $0 * 7 >> 3) }
        let packed = Gzip.member(of: bytes)
        // One byte more than there is, so that the end of the member is reached in one call.
        var output = [UInt8](repeating: 0, count: byteCount + 1)
        var inflater = GzipInflater()
        let (taken, filled) = try packed.withUnsafeBytes { input in
            try output.withUnsafeMutableBytes { try inflater.inflate(input, into: $0) }
        }
        #expect(taken == packed.count && filled == byteCount && inflater.isBetweenMembers)
        #expect(Array(output.dropLast()) == bytes)
        let tail = packed.suffix(8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        #expect(tail >> 32 == UInt64(byteCount))
        #expect(UInt32(truncatingIfNeeded: tail) == CRC32.checksum(of: bytes))
    }
}

@Suite struct CredentialTests {
    @Test func `credentials print nowhere and are taken out of others' text`() throws {
        let found = try credentials(.mixpanel)
        #expect(!"\(found)".contains("s3cret"))
        var dumped = ""
        dump(found, to: &dumped)
        #expect(!dumped.contains("s3cret"))
        let echo =
            "a s3cret-\"\\&/MIXPANEL_SERVICE_SECRET b s3cret-\\\"\\\\&/MIXPANEL_SERVICE_SECRET "
            + "c s3cret-%22%5C%26%2FMIXPANEL_SERVICE_SECRET"
        let name = "${WAYBILL_MIXPANEL_SERVICE_SECRET_PROD}"
        #expect(found.redacted(echo) == "a \(name) b \(name) c \(name)")
    }

    @Test func `an environment has all or none`() throws {
        var values = values
        #expect(try CredentialSource(values).credentials(for: .ga4, .dev) == nil)
        values["WAYBILL_GA4_API_SECRET_PROD"] = nil
        let source = CredentialSource(values)
        #expect(try source.credentials(for: .ga4, .prod) == nil)
        #expect(source.missingVariables(for: .ga4, .prod) == ["WAYBILL_GA4_API_SECRET_PROD"])
        #expect(try source.credentials(for: .snowplow, .dev) != nil)
    }

    @Test func `two environments never share, and values are printable`() {
        var values = values
        values["WAYBILL_SEGMENT_WRITE_KEY_DEV"] = values["WAYBILL_SEGMENT_WRITE_KEY_PROD"]
        #expect(throws: CredentialError.shared(CredentialName(rawValue: "SEGMENT_WRITE_KEY"), .prod, .dev)) {
            try CredentialSource(values).credentials(for: .segment, .prod)
        }
        values["WAYBILL_SEGMENT_WRITE_KEY_PROD"] = "a\r\nHost: evil"
        #expect(throws: CredentialError.badValue(variable: "WAYBILL_SEGMENT_WRITE_KEY_PROD")) {
            try CredentialSource(values).credentials(for: .segment, .prod)
        }
    }
}

@Suite struct ProxyAddressTests {
    private func find(_ url: String, _ variables: [String: String]) throws -> ProxyAddress? {
        try ProxyAddress.find(for: url, in: { variables[$0] })
    }

    @Test func `the proxy is the one for the scheme, and small letters win`() throws {
        let variables = ["HTTPS_PROXY": "http://p:1", "https_proxy": "q:2", "HTTP_PROXY": "http://user:pw@r:3/"]
        #expect(try self.find("https://x.example.com", variables)?.host == "q")
        let plain = try #require(try self.find("http://x.example.com", variables))
        #expect(plain.host == "r" && plain.port == 3)
        #expect(plain.login == Secret("user:pw"))
        #expect(!"\(plain)".contains("pw"))
        #expect(try self.find("https://x.example.com", [:]) == nil)
    }

    @Test(arguments: ["*", "x.example.com", "a.b, example.com", ".example.com", "EXAMPLE.com"])
    func `excluded hosts are reached directly`(excluded: String) throws {
        let variables = ["HTTPS_PROXY": "http://p:1", "NO_PROXY": excluded]
        #expect(try self.find("https://x.example.com", variables) == nil)
        #expect((try self.find("https://notexample.com", variables) == nil) == (excluded == "*"))
    }

    @Test func `this machine is reached directly, and nonsense is an error`() throws {
        #expect(try self.find("http://127.0.0.1:4000", ["http_proxy": "nonsense"]) == nil)
        for text in ["nonsense", "socks5://p:1", "http://p", "http://p:0", "http://:1"] {
            #expect(throws: ProxyError(variable: "http_proxy")) {
                try self.find("http://x.example.com", ["http_proxy": text])
            }
        }
    }
}
