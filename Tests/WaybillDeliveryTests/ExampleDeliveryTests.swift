import Testing
import WaybillEvent
import WaybillExport
import WaybillServerTestSupport

@testable import WaybillDelivery

/// A provider whose facts are outside all modules is sent to by them.
@Suite struct ExampleDeliveryTests {
    private let example = DeliverableProvider.of(Destination(Example.self))

    @Test func `its requests are made from its facts`() throws {
        let source = CredentialSource(["WAYBILL_EXAMPLE_KEY_PROD": "s3\"cret"])
        let credentials = try #require(try source.credentials(for: self.example, .prod))
        let template = try RequestTemplate(self.example, region: .eu, endpoint: nil)
        let request = template.request([Array("{\"a\":1}".utf8), Array("{\"b\":2}".utf8)], credentials)
        #expect(request.url == "https://eu.example.com/v2/events")
        #expect(request.headers.map(\.name) == ["Content-Type"])
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == "{\"key\":\"s3\\\"cret\",\"events\":[{\"a\":1},{\"b\":2}]}")
        #expect(source.missingVariables(for: self.example, .dev) == ["WAYBILL_EXAMPLE_KEY_DEV"])
    }

    @Test func `its answers are read by its facts`() {
        let rules = DeliveryRules(self.example)
        let records = [Array("{}".utf8), Array("{}".utf8)]
        func verdict(_ status: Int, _ body: String) -> Verdict {
            rules.verdict(
                on: .response(status: status, retryAfter: nil, body: Array(body.utf8)), records: records)
        }
        #expect(verdict(200, "{\"accepted\":2}") == .accepted(unconfirmedCount: 0))
        #expect(verdict(200, "{\"accepted\":1}") == .accepted(unconfirmedCount: 1))
        #expect(verdict(400, "no") == .refusedWhole(detail: "status 400: no"))
        #expect(!rules.isCounted(records[0]) && rules.facts.inFlightMax == 1)
    }
}
