package import WaybillExport

/// How a provider accepts requests and what its answers mean (`providers.md`, section 0.6 and each provider's section).
package struct DeliveryRules: Hashable, Sendable {
    package let provider: DeliverableProvider
    package let recordsPerRequestMax: Int
    package let requestByteCountMax: Int
    /// How many requests of one part are sent at the same time.
    package let inFlightMax: Int
    /// Which records may be sent again although the provider may have accepted them.
    package enum Repetition: Hashable, Sendable {
        /// All: the provider counts a repeated record once.
        case harmless
        /// All except updates of profiles that add numbers: setting a property again changes nothing.
        case addsNumbers
        /// None.
        case counted
    }

    package let repetition: Repetition
    /// A whole export that is regenerated and sent again also counts once, at any later time.
    package let isRepeatableForEver: Bool
    /// The provider's limit for all events together; `nil` if it documents none.
    package let eventsPerSecondMax: Double?

    package init(_ provider: DeliverableProvider) {
        self.provider = provider
        self.inFlightMax = provider == .ga4 ? 4 : 1
        switch provider {
        case .ga4: self.repetition = .counted
        case .mixpanelProfiles: self.repetition = .addsNumbers
        case .mixpanel, .amplitude, .segment, .posthog, .snowplow: self.repetition = .harmless
        }
        switch provider {
        case .ga4:
            self.recordsPerRequestMax = 1
            self.requestByteCountMax = Limits.GA4.requestByteCountMax
        case .mixpanel:
            self.recordsPerRequestMax = Limits.Mixpanel.eventsPerRequestMax
            self.requestByteCountMax = Limits.Mixpanel.requestByteCountMax
        case .mixpanelProfiles:
            self.recordsPerRequestMax = Limits.MixpanelProfiles.eventsPerRequestMax
            self.requestByteCountMax = Limits.MixpanelProfiles.requestByteCountMax
        case .amplitude:
            self.recordsPerRequestMax = Limits.Amplitude.batchEventsMax
            self.requestByteCountMax = Limits.Amplitude.batchByteCountMax
        case .segment:
            self.recordsPerRequestMax = Limits.Segment.callsPerRequestMax
            self.requestByteCountMax = Limits.Segment.requestByteCountMax
        case .posthog:
            self.recordsPerRequestMax = Limits.PostHog.eventsPerRequestMax
            self.requestByteCountMax = Limits.PostHog.requestByteCountMax
        case .snowplow:
            self.recordsPerRequestMax = Limits.Snowplow.eventsPerRequestMax
            self.requestByteCountMax = Limits.Snowplow.requestByteCountMax
        }
        switch provider {
        case .mixpanel, .posthog, .snowplow: self.isRepeatableForEver = true
        case .ga4, .mixpanelProfiles, .amplitude, .segment: self.isRepeatableForEver = false
        }
        switch provider {
        case .mixpanel: self.eventsPerSecondMax = Limits.Mixpanel.eventsPerSecondMax
        case .segment: self.eventsPerSecondMax = Limits.Segment.eventsPerSecondMax
        case .posthog: self.eventsPerSecondMax = Limits.PostHog.eventsPerMinuteMax / 60
        case .ga4, .mixpanelProfiles, .amplitude, .snowplow: self.eventsPerSecondMax = nil
        }
    }

    /// Whether the provider would count a record twice that it gets twice.
    package func isCounted(_ record: [UInt8]) -> Bool {
        switch self.repetition {
        case .harmless: false
        case .addsNumbers: ProfileRecord.addsNumbers(record)
        case .counted: true
        }
    }

    /// The meaning of `answer` for a request with these records.
    package func verdict(on answer: Answer, records: [[UInt8]]) -> Verdict {
        switch answer {
        case .notSent(let detail): return .later(after: nil, detail: detail)
        case .unknown(let detail): return .ambiguous(detail: detail, after: nil)
        case .response(let status, let retryAfter, let body):
            let text = AnswerText(status: status, body: body ?? [])
            switch status {
            case 200..<300:
                // GA4 answers everything with 2xx, so its body is useless.
                guard body != nil || self.provider == .ga4 else {
                    return .ambiguous(detail: "the answer \(status) broke off", after: nil)
                }
                return self.acceptance(text, recordCount: records.count, records)
            case 400, 422: return self.badRequest(text, records)
            case 401, 403: return .stop(.credentials(detail: text.summary))
            case 408, 502, 504:
                // The sender of this answer has forwarded the request and waited in vain.
                return .ambiguous(detail: text.summary, after: retryAfter)
            case 413: return .tooLarge(detail: text.summary)
            case 429: return self.throttling(text, retryAfter, records)
            case 500..<600: return .later(after: retryAfter, detail: text.summary)
            default: return .stop(.endpoint(detail: text.summary))
            }
        }
    }

    private func acceptance(_ text: AnswerText, recordCount: Int, _ records: [[UInt8]]) -> Verdict {
        switch self.provider {
        case .ga4, .snowplow: return .accepted(unconfirmedCount: 0)
        case .mixpanel:
            let refusals = text.failedRecords(Array(0..<recordCount))
            if !refusals.isEmpty { return .partly(refusals) }
            return .accepted(unconfirmedCount: text.shortfall(of: "num_records_imported", from: recordCount))
        case .mixpanelProfiles:
            // Even a refused profile update is answered with 200.
            if text.says("status", "0") { return self.badRequest(text, records) }
            return .accepted(unconfirmedCount: 0)
        case .amplitude:
            return .accepted(unconfirmedCount: text.shortfall(of: "events_ingested", from: recordCount))
        case .segment:
            return text.says("success", "false")
                ? .refusedWhole(detail: text.summary) : .accepted(unconfirmedCount: 0)
        case .posthog:
            return text.names("events", in: "quota_limited")
                ? .stop(.quota(detail: text.summary)) : .accepted(unconfirmedCount: 0)
        }
    }

    private func badRequest(_ text: AnswerText, _ records: [[UInt8]]) -> Verdict {
        switch self.provider {
        case .mixpanel:
            let refusals = text.failedRecords(Array(records.indices))
            if !refusals.isEmpty { return .partly(refusals) }
        case .mixpanelProfiles:
            let refusals = text.failedRecords(ProfileRecord.owners(of: records))
            if !refusals.isEmpty { return .refusedSome(refusals) }
        case .amplitude:
            let refusals = text.amplitudeRefusals(recordCount: records.count)
            if !refusals.isEmpty { return .refusedSome(refusals) }
        case .ga4, .segment, .posthog, .snowplow: break
        }
        // Some providers answer 400 where others answer 401.
        if text.blamesCredentials { return .stop(.credentials(detail: text.summary)) }
        return .refusedWhole(detail: text.summary)
    }

    private func throttling(_ text: AnswerText, _ retryAfter: Duration?, _ records: [[UInt8]]) -> Verdict {
        guard self.provider == .amplitude else { return .later(after: retryAfter, detail: text.summary) }
        let throttled = text.positions("throttled_events", recordCount: records.count)
        let exhausted = text.exhaustedPositions(of: records)
        guard !throttled.isEmpty || !exhausted.isEmpty else {
            return .later(after: retryAfter ?? Self.amplitudePause, detail: text.summary)
        }
        return .throttled(
            positions: throttled.filter { !exhausted.contains($0) }, exhausted: exhausted,
            pause: retryAfter ?? Self.amplitudePause)
    }

    /// The pause that `/batch` requires after a 429 (amplitude.com/docs/apis/analytics/batch-event-upload).
    private static let amplitudePause = Duration.seconds(15)
}
