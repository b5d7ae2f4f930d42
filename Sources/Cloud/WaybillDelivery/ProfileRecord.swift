internal import WaybillJSON

/// A record of Mixpanel profiles: one to four updates, each with a placeholder for the project's token.
///
///     {"$token":"${MIXPANEL_TOKEN}","$distinct_id":…,"$set":{…}},{"$token":"${MIXPANEL_TOKEN}",…,"$unset":[…]}
enum ProfileRecord {
    /// The index of the record that each update of a request belongs to.
    static func owners(of records: [[UInt8]]) -> [Int] {
        records.indices.flatMap { Array(repeating: $0, count: Self.tokenRanges(in: records[$0]).count) }
    }

    /// The record with the token in place of the placeholders; similar text elsewhere stays.
    static func filled(_ record: [UInt8], token: [UInt8]) -> [UInt8] {
        var filled: [UInt8] = []
        var position = 0
        for range in Self.tokenRanges(in: record) {
            filled += record[position..<range.lowerBound]
            filled += token
            position = range.upperBound
        }
        return filled + record[position...]
    }

    /// Whether one of the updates adds numbers to properties.
    static func addsNumbers(_ record: [UInt8]) -> Bool {
        Self.updates(in: record).updates.contains { $0["$add"] != nil }
    }

    /// The ranges of the values of the updates' own `$token`, without their quotes.
    private static func tokenRanges(in record: [UInt8]) -> [Range<Int>] {
        let (updates, start) = Self.updates(in: record)
        return updates.compactMap { update in
            update["$token"].map { $0.range.lowerBound - start..<$0.range.upperBound - start }
        }
    }

    /// The updates, and where the record begins in their ranges.
    private static func updates(in record: [UInt8]) -> (updates: [JSONValue], start: Int) {
        let head = Array("{\"updates\":[".utf8)
        // A part with its manifest's SHA-256 contains what the exporter wrote; anything else has no token.
        return (JSONValue(head + record + Array("]}".utf8))?["updates"]?.elements ?? [], head.count)
    }
}
