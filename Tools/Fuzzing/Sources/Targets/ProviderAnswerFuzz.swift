internal import WaybillDelivery
internal import WaybillExport
internal import WaybillTestSupport

/// Answers of providers, good and broken: each is a verdict on the records that were sent, and on no others.
///
/// The first byte of an input chooses the status; the rest is the body.
enum ProviderAnswerFuzz {
    private static let statuses = [200, 202, 207, 302, 400, 401, 408, 413, 422, 429, 500, 503, 600]
    private static let records: [[UInt8]] = [
        "{\"user_id\":\"u1\",\"device_id\":\"d1\"}", "{\"user_id\":\"u2\"}", "{\"device_id\":\"d1\"}", "{}",
        "{\"$token\":\"${MIXPANEL_TOKEN}\",\"$set\":{}},{\"$token\":\"${MIXPANEL_TOKEN}\",\"$add\":{}}",
    ].map { Array($0.utf8) }

    @Sendable static func run(_ input: [UInt8]) throws {
        let status = Self.statuses[Int(input.first ?? 0) % Self.statuses.count]
        let body = Array(input.dropFirst())
        for provider in DeliverableProvider.allCases {
            let rules = DeliveryRules(provider)
            let answer = Answer.response(status: status, retryAfter: nil, body: body)
            let verdict = rules.verdict(on: answer, records: Self.records)
            try Self.check(verdict, "\(provider), \(status): \(shown(body))")
            let again = rules.verdict(on: answer, records: Self.records)
            try require(again == verdict, "another verdict, \(provider), \(status): \(shown(body))")
            try Self.compare(verdict, ReferenceJSON(body), provider, status, body)
        }
    }

    private static func check(_ verdict: Verdict, _ place: String) throws {
        switch verdict {
        case .accepted(let unconfirmedCount):
            try require(0...Self.records.count ~= unconfirmedCount, "\(unconfirmedCount) unconfirmed, \(place)")
        case .partly(let refusals), .refusedSome(let refusals):
            try require(!refusals.isEmpty, "a refusal of nothing, \(place)")
            try Self.check(refusals.map(\.position), place)
            for refusal in refusals { try Self.check(text: refusal.detail + (refusal.field ?? ""), place) }
        case .throttled(let positions, let exhausted, _):
            try Self.check(positions, place)
            try Self.check(exhausted, place)
            try require(Set(positions).isDisjoint(with: exhausted), "in both lists, \(place)")
        case .refusedWhole(let detail), .tooLarge(let detail), .later(_, let detail), .ambiguous(let detail, _):
            try Self.check(text: detail, place)
        case .stop(let stop): try Self.check(text: stop.description, place)
        }
    }

    private static func check(_ positions: [Int], _ place: String) throws {
        try require(positions.allSatisfy(Self.records.indices.contains), "\(positions) outside, \(place)")
        try require(zip(positions, positions.dropFirst()).allSatisfy(<), "\(positions) in no order, \(place)")
    }

    /// What goes to logs and dead letters is one short line.
    private static func check(text: String, _ place: String) throws {
        // Each broken byte at the cut may be three of a replacement.
        try require(text.utf8.count <= 2000, "\(text.utf8.count) bytes of words, \(place)")
        try require(
            !text.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x7F }, "a control character, \(place)")
    }

    /// What a plain reader finds in the answer is in the verdict.
    private static func compare(
        _ verdict: Verdict, _ json: ReferenceJSON?, _ provider: DeliverableProvider, _ status: Int, _ body: [UInt8]
    ) throws {
        let refused: Set<Int>
        switch verdict {
        case .partly(let refusals), .refusedSome(let refusals): refused = Set(refusals.map(\.position))
        default: refused = []
        }
        if !refused.isEmpty {
            guard case .object = json else { throw Violation("refusals from no JSON: \(shown(body))") }
        }
        switch (provider.id, status) {
        case (.mixpanel, 200), (.mixpanel, 202), (.mixpanel, 207), (.mixpanel, 400), (.mixpanel, 422):
            let named = (json?["failed_records"]?.elements ?? []).compactMap { $0["index"].flatMap(Self.position) }
            try require(refused == Set(named), "mixpanel refuses \(refused), not \(named): \(shown(body))")
        case (.amplitude, 400), (.amplitude, 422):
            let fields = ["events_with_invalid_fields", "events_with_missing_fields", "events_with_invalid_id_lengths"]
            var named = (json?["silenced_events"]?.elements ?? []).compactMap(Self.position)
            for field in fields {
                guard case .object(let members) = json?[field] else { continue }
                named += members.flatMap { ($0.value.elements ?? []).compactMap(Self.position) }
            }
            try require(refused == Set(named), "amplitude refuses \(refused), not \(named): \(shown(body))")
        default: break
        }
    }

    /// A whole number in any spelling that is one, as `-0` is.
    private static func position(_ value: ReferenceJSON) -> Int? {
        guard case .number(let text) = value, let number = Int(text) else { return nil }
        return Self.records.indices.contains(number) ? number : nil
    }
}
