internal import WaybillJSON

/// The body of an answer: usually a JSON object, but possibly anything.
struct AnswerText {
    let status: Int
    private let body: [UInt8]

    init(status: Int, body: [UInt8]) {
        self.status = status
        self.body = body
    }

    /// How many bytes of an answer's text are kept.
    private static let detailByteCountMax = 400

    /// The status, and the beginning of the text on one line.
    var summary: String {
        let text = Self.oneLine(String(decoding: self.body.prefix(Self.detailByteCountMax), as: UTF8.self))
        return text.isEmpty ? "status \(self.status)" : "status \(self.status): \(text)"
    }

    /// Replaces control characters, so that a peer's text cannot send them to a terminal or a log.
    private static func oneLine(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7F ? " " : $0 }))
    }

    /// `nil` for text that is not JSON and so has no facts about single records.
    private var json: JSONValue? { JSONValue(self.body) }

    /// Whether a member is this literal.
    func says(_ name: StaticString, _ literal: String) -> Bool {
        self.json?[name]?.literal == literal
    }

    /// Whether a list of texts contains this one.
    func names(_ text: String, in name: StaticString) -> Bool {
        self.json?[name]?.elements?.contains { $0.string == text } ?? false
    }

    /// How much smaller than `count` a member is; 0 if it is missing.
    func shortfall(of name: StaticString, from count: Int) -> Int {
        max(0, count - (self.json?[name]?.integer ?? count))
    }

    /// Whether the text of a refused request is about the key, not about the events.
    var blamesCredentials: Bool {
        let text = String(decoding: self.body.prefix(2048), as: UTF8.self).lowercased()
        return ["api key", "api_key", "write key", "writekey", "invalid token", "project token"].contains {
            text.contains($0)
        }
    }

    /// GA4's debug endpoint: `validationMessages[{fieldPath, description, validationCode}]`.
    var validationMessages: [String] {
        (self.json?["validationMessages"]?.elements ?? []).map { item in
            let words = [item["fieldPath"], item["validationCode"], item["description"]].compactMap { $0?.string }
            return Self.short(words.joined(separator: ": "))
        }
    }

    /// Mixpanel: `failed_records[{index, field, message}]`.
    ///
    /// - Parameter owners: the record that each index belongs to.
    func failedRecords(_ owners: [Int]) -> [RecordRefusal] {
        Self.firstOfEach(
            (self.json?["failed_records"]?.elements ?? []).compactMap { item in
                guard let index = item["index"]?.integer, owners.indices.contains(index) else { return nil }
                return RecordRefusal(
                    position: owners[index], detail: self.detail(item["message"]?.string),
                    field: item["field"]?.string.map(Self.short))
            })
    }

    /// Amplitude: `events_with_invalid_fields{field: [index]}` and similar members, and `silenced_events[index]`.
    func amplitudeRefusals(recordCount: Int) -> [RecordRefusal] {
        guard let json = self.json else { return [] }
        var refusals: [RecordRefusal] = []
        for (name, words) in Self.amplitudeLists {
            for (field, positions) in json[name]?.members ?? [] {
                for position in Self.positions(positions, below: recordCount) {
                    refusals.append(
                        RecordRefusal(
                            position: position, detail: Self.short("\(words) \(field)"), field: Self.short(field)))
                }
            }
        }
        refusals += Self.positions(json["silenced_events"], below: recordCount).map {
            RecordRefusal(position: $0, detail: "the provider silences this device")
        }
        return Self.firstOfEach(refusals)
    }

    private static let amplitudeLists: [(name: StaticString, words: String)] = [
        ("events_with_invalid_fields", "invalid field"), ("events_with_missing_fields", "missing field"),
        ("events_with_invalid_id_lengths", "id too short"),
    ]

    /// The positions in a list.
    func positions(_ name: StaticString, recordCount: Int) -> [Int] {
        Self.positions(self.json?[name], below: recordCount)
    }

    /// Amplitude: records of users and devices that have used up their daily quota.
    func exhaustedPositions(of records: [[UInt8]]) -> [Int] {
        guard let json = self.json else { return [] }
        let users = Set(json["exceeded_daily_quota_users"]?.members?.map(\.name) ?? [])
        let devices = Set(json["exceeded_daily_quota_devices"]?.members?.map(\.name) ?? [])
        guard !users.isEmpty || !devices.isEmpty else { return [] }
        return records.indices.filter { index in
            let record = JSONValue(records[index])
            return (record?["user_id"]?.string.map(users.contains) ?? false)
                || (record?["device_id"]?.string.map(devices.contains) ?? false)
        }
    }

    private static func positions(_ list: JSONValue?, below count: Int) -> [Int] {
        (list?.elements ?? []).compactMap(\.integer).filter { (0..<count).contains($0) }
    }

    private func detail(_ text: String?) -> String {
        text.map(Self.short) ?? self.summary
    }

    private static func short(_ text: String) -> String {
        Self.oneLine(String(decoding: Array(text.utf8.prefix(Self.detailByteCountMax)), as: UTF8.self))
    }

    /// Keeps the first refusal of each record.
    private static func firstOfEach(_ refusals: [RecordRefusal]) -> [RecordRefusal] {
        var seen: Set<Int> = []
        return refusals.filter { seen.insert($0.position).inserted }.sorted { $0.position < $1.position }
    }
}
