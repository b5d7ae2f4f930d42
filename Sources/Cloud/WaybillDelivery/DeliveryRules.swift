package import WaybillExport

/// How a provider accepts requests and what its answers mean, read from its ``DeliveryFacts``.
package struct DeliveryRules: Hashable, Sendable {
    package let provider: DeliverableProvider

    package init(_ provider: DeliverableProvider) {
        self.provider = provider
    }

    package var facts: DeliveryFacts { self.provider.facts }

    /// Whether the provider would count a record twice that it gets twice.
    package func isCounted(_ record: [UInt8]) -> Bool {
        switch self.facts.repetition {
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
                guard body != nil || !self.facts.answers.isBodyNeeded else {
                    return .ambiguous(detail: "the answer \(status) broke off", after: nil)
                }
                return self.acceptance(text, records)
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

    private func acceptance(_ text: AnswerText, _ records: [[UInt8]]) -> Verdict {
        let facts = self.facts.answers
        if facts.refusals == .failedRecords, let verdict = self.refusal(text, records) { return verdict }
        if let failure = facts.failure, text.says(failure.member, failure.literal) {
            return facts.failureIsBadRequest ? self.badRequest(text, records) : .refusedWhole(detail: text.summary)
        }
        if let quota = facts.quota, text.names(quota.element, in: quota.list) {
            return .stop(.quota(detail: text.summary))
        }
        return .accepted(unconfirmedCount: facts.acceptedCount.map { text.shortfall(of: $0, from: records.count) } ?? 0)
    }

    private func badRequest(_ text: AnswerText, _ records: [[UInt8]]) -> Verdict {
        if let verdict = self.refusal(text, records) { return verdict }
        // Some providers answer 400 where others answer 401.
        if text.blamesCredentials { return .stop(.credentials(detail: text.summary)) }
        return .refusedWhole(detail: text.summary)
    }

    /// What the answer says about single records; `nil` if it names none.
    private func refusal(_ text: AnswerText, _ records: [[UInt8]]) -> Verdict? {
        let kind = self.facts.answers.refusals
        let refusals: [RecordRefusal] =
            switch kind {
            case .none: []
            case .failedRecords: text.failedRecords(Array(records.indices))
            case .failedUpdates: text.failedRecords(ProfileRecord.owners(of: records))
            case .eventsByField: text.amplitudeRefusals(recordCount: records.count)
            }
        if refusals.isEmpty { return nil }
        return kind == .failedRecords ? .partly(refusals) : .refusedSome(refusals)
    }

    private func throttling(_ text: AnswerText, _ retryAfter: Duration?, _ records: [[UInt8]]) -> Verdict {
        guard let pause = self.facts.answers.throttlingPause else {
            return .later(after: retryAfter, detail: text.summary)
        }
        let throttled = text.positions("throttled_events", recordCount: records.count)
        let exhausted = text.exhaustedPositions(of: records)
        guard !throttled.isEmpty || !exhausted.isEmpty else {
            return .later(after: retryAfter ?? pause, detail: text.summary)
        }
        return .throttled(
            positions: throttled.filter { !exhausted.contains($0) }, exhausted: exhausted, pause: retryAfter ?? pause)
    }
}
