import Testing
import WaybillExport

@testable import WaybillDelivery

private let three = ["{\"user_id\":\"u-1\",\"device_id\":\"d-1\"}", "{\"device_id\":\"d-2\"}", "{\"user_id\":\"u-3\"}"]
    .map { Array($0.utf8) }

private func verdict(
    _ provider: DeliverableProvider, _ status: Int, _ body: String = "", retryAfter: Duration? = nil,
    records: [[UInt8]] = three
) -> Verdict {
    DeliveryRules(provider).verdict(
        on: .response(status: status, retryAfter: retryAfter, body: Array(body.utf8)), records: records)
}

@Suite struct CommonRuleTests {
    @Test(arguments: DeliverableProvider.allCases)
    func `a plain success takes all`(provider: DeliverableProvider) {
        #expect(verdict(provider, 200) == .accepted(unconfirmedCount: 0))
        #expect(verdict(provider, 204) == .accepted(unconfirmedCount: 0))
    }

    @Test(arguments: DeliverableProvider.allCases, [401, 403])
    func `refused credentials stop the provider`(provider: DeliverableProvider, status: Int) {
        #expect(verdict(provider, status, "no") == .stop(.credentials(detail: "status \(status): no")))
    }

    @Test(arguments: DeliverableProvider.allCases, [301, 302, 307, 404, 405, 407, 410])
    func `an address that is not the provider's stops it`(provider: DeliverableProvider, status: Int) {
        #expect(verdict(provider, status) == .stop(.endpoint(detail: "status \(status)")))
    }

    @Test(arguments: DeliverableProvider.allCases)
    func `a request that is too large is halved`(provider: DeliverableProvider) {
        #expect(verdict(provider, 413) == .tooLarge(detail: "status 413"))
    }

    @Test(arguments: DeliverableProvider.allCases, [500, 503, 599])
    func `a failing provider gets it later`(provider: DeliverableProvider, status: Int) {
        #expect(verdict(provider, status) == .later(after: nil, detail: "status \(status)"))
        #expect(
            verdict(provider, status, retryAfter: .seconds(9)) == .later(after: .seconds(9), detail: "status \(status)")
        )
    }

    @Test(arguments: DeliverableProvider.allCases, [408, 502, 504])
    func `a gateway that waited in vain does not know`(provider: DeliverableProvider, status: Int) {
        #expect(verdict(provider, status) == .ambiguous(detail: "status \(status)", after: nil))
    }

    @Test func `no connection is no ambiguity, and no answer is one`() {
        let rules = DeliveryRules(.ga4)
        #expect(rules.verdict(on: .notSent(detail: "x"), records: three) == .later(after: nil, detail: "x"))
        #expect(rules.verdict(on: .unknown(detail: "x"), records: three) == .ambiguous(detail: "x", after: nil))
    }

    @Test func `an answer that broke off says enough for GA4 alone`() {
        let answer = Answer.response(status: 200, retryAfter: nil, body: nil)
        #expect(DeliveryRules(.ga4).verdict(on: answer, records: three) == .accepted(unconfirmedCount: 0))
        #expect(
            DeliveryRules(.posthog).verdict(on: answer, records: three)
                == .ambiguous(detail: "the answer 200 broke off", after: nil))
    }

    @Test(arguments: [DeliverableProvider.ga4, .segment, .posthog, .snowplow])
    func `a refusal without an index is about the whole request`(provider: DeliverableProvider) {
        #expect(verdict(provider, 400, "bad\u{1B}[2J\nline") == .refusedWhole(detail: "status 400: bad [2J line"))
    }

    @Test(
        arguments: [
            (DeliverableProvider.amplitude, "{\"code\":400,\"error\":\"Invalid API key: ${X}\"}"),
            (.segment, "{\"message\":\"Invalid write key\"}"), (.posthog, "project token missing"),
        ])
    func `a refusal that speaks of the key stops the provider`(provider: DeliverableProvider, body: String) {
        #expect(verdict(provider, 400, body) == .stop(.credentials(detail: "status 400: \(body)")))
    }
}

@Suite struct MixpanelRuleTests {
    @Test(arguments: [200, 400])
    func `failed records are refused and the others were taken`(status: Int) {
        let body = """
            {"code":400,"failed_records":[{"index":2,"$insert_id":"x","field":"properties.time","message":"too \\"old\\""},
            {"index":0,"message":"bad"},{"index":2,"message":"again"},{"index":7},{"index":-1},{"index":"0"},{}],
            "num_records_imported":1}
            """.replacing("\n", with: "")
        #expect(
            verdict(.mixpanel, status, body)
                == .partly([
                    RecordRefusal(position: 0, detail: "bad"),
                    RecordRefusal(position: 2, detail: "too \"old\"", field: "properties.time"),
                ]))
    }

    @Test func `what was not counted is unconfirmed`() {
        #expect(verdict(.mixpanel, 200, "{\"num_records_imported\":1}") == .accepted(unconfirmedCount: 2))
        #expect(verdict(.mixpanel, 200, "{\"num_records_imported\":9}") == .accepted(unconfirmedCount: 0))
    }

    @Test(arguments: ["{}", "not json", "{\"failed_records\":[]}", "{\"failed_records\":5}", "[1]"])
    func `a refusal that names no one is about the whole request`(body: String) {
        #expect(verdict(.mixpanel, 400, body) == .refusedWhole(detail: "status 400: \(body)"))
    }

    @Test func `a profile update's index is its record's`() {
        let records = [
            "{\"$token\":\"${MIXPANEL_TOKEN}\",\"$set\":{}},{\"$token\":\"${MIXPANEL_TOKEN}\",\"$unset\":[\"a\"]}",
            "{\"$token\":\"${MIXPANEL_TOKEN}\",\"$set\":{\"b\":1}}",
        ].map { Array($0.utf8) }
        let body =
            "{\"failed_records\":[{\"index\":1,\"message\":\"a\"},{\"index\":2,\"message\":\"b\"},{\"index\":3}]}"
        #expect(
            verdict(.mixpanelProfiles, 400, body, records: records)
                == .refusedSome([RecordRefusal(position: 0, detail: "a"), RecordRefusal(position: 1, detail: "b")]))
    }

    @Test func `a profile update that is refused by 200 is refused`() {
        #expect(
            verdict(.mixpanelProfiles, 200, "{\"status\":0,\"error\":\"x\"}")
                == .refusedWhole(detail: "status 200: {\"status\":0,\"error\":\"x\"}"))
        #expect(verdict(.mixpanelProfiles, 200, "{\"status\":1,\"error\":null}") == .accepted(unconfirmedCount: 0))
    }
}

@Suite struct AmplitudeRuleTests {
    @Test func `invalid, missing and silenced events are refused, and nothing is known of the others`() {
        let body = """
            {"code":400,"events_with_invalid_fields":{"time":[0,9]},"events_with_missing_fields":{"event_type":[0]},
            "events_with_invalid_id_lengths":{"user_id":[]},"silenced_events":[2]}
            """.replacing("\n", with: "")
        #expect(
            verdict(.amplitude, 400, body)
                == .refusedSome([
                    RecordRefusal(position: 0, detail: "invalid field time", field: "time"),
                    RecordRefusal(position: 2, detail: "the provider silences this device"),
                ]))
    }

    @Test func `throttled events wait 15 seconds, or what the provider says`() {
        let body = "{\"code\":429,\"throttled_events\":[1,5]}"
        #expect(
            verdict(.amplitude, 429, body) == .throttled(positions: [1], exhausted: [], pause: .seconds(15)))
        #expect(
            verdict(.amplitude, 429, body, retryAfter: .seconds(2))
                == .throttled(positions: [1], exhausted: [], pause: .seconds(2)))
        #expect(verdict(.amplitude, 429, "{}") == .later(after: .seconds(15), detail: "status 429: {}"))
    }

    @Test func `who has used up the day is held by user or device`() {
        let body = """
            {"code":429,"throttled_events":[0,1,2],"exceeded_daily_quota_users":{"u-3":500001},\
            "exceeded_daily_quota_devices":{"d-1":500001}}
            """
        #expect(
            verdict(.amplitude, 429, body) == .throttled(positions: [1], exhausted: [0, 2], pause: .seconds(15)))
    }

    @Test func `what was not counted is unconfirmed`() {
        #expect(verdict(.amplitude, 200, "{\"code\":200,\"events_ingested\":2}") == .accepted(unconfirmedCount: 1))
    }
}

@Suite struct QuirkTests {
    @Test func `PostHog's quota answers 200 and drops`() {
        let body = "{\"status\":\"Ok\",\"quota_limited\":[\"recordings\",\"events\"]}"
        #expect(verdict(.posthog, 200, body) == .stop(.quota(detail: "status 200: \(body)")))
        #expect(
            verdict(.posthog, 200, "{\"quota_limited\":[\"recordings\"]}") == .accepted(unconfirmedCount: 0))
    }

    @Test func `Segment's success can be false`() {
        #expect(
            verdict(.segment, 200, "{\"success\":false}") == .refusedWhole(detail: "status 200: {\"success\":false}"))
    }

    @Test func `GA4 proves nothing, whatever it says`() {
        #expect(verdict(.ga4, 204, "{\"success\":false}") == .accepted(unconfirmedCount: 0))
    }

    @Test func `a long text is cut`() {
        guard case .refusedWhole(let detail) = verdict(.segment, 400, String(repeating: "é", count: 5000)) else {
            return #expect(Bool(false), "a refusal")
        }
        #expect(detail.utf8.count < 450)
    }
}

@Test func `a record is counted twice by GA4, and by Mixpanel's profiles if it adds numbers`() {
    let head = "{\"$token\":\"${MIXPANEL_TOKEN}\",\"$distinct_id\":\"u\","
    let adds = Array("\(head)\"$set\":{\"$add\":1}},\(head)\"$add\":{\"n\":1}}".utf8)
    let sets = Array("\(head)\"$set\":{\"$add\":1}},\(head)\"$set_once\":{\"a\":{\"$add\":1}}}".utf8)
    for provider in DeliverableProvider.allCases {
        let rules = DeliveryRules(provider)
        #expect(rules.isCounted(adds) == (provider == .ga4 || provider == .mixpanelProfiles))
        #expect(rules.isCounted(sets) == (provider == .ga4))
    }
}
