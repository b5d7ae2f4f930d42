internal import WaybillJSON

/// The body of an answer: a JSON object in most cases, anything in the worst.
struct AnswerText {
    let status: Int
    private let body: [UInt8]

    init(status: Int, body: [UInt8]) {
        self.status = status
        self.body = body
    }

    /// Of an answer's text so much is kept.
    private static let detailByteCountMax = 400

    /// The status, and the beginning of the text on one line.
    var summary: String {
        let text = Self.oneLine(String(decoding: self.body.prefix(Self.detailByteCountMax), as: UTF8.self))
        return text.isEmpty ? "status \(self.status)" : "status \(self.status): \(text)"
    }

    /// Control characters of a peer's text reach neither a terminal nor a log.
    private static func oneLine(_ text: String) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7F ? " " : $0 }))
    }

    private func read<Value>(_ body: (borrowing JSONTape) -> Value?) -> Value? {
        self.body.withUnsafeBytes { buffer in
            var tape = JSONTape()
            do throws(JSONError) {
                try tape.parse(buffer)
            } catch {
                // Text that is no JSON says nothing about single records.
                return nil
            }
            return body(tape)
        }
    }

    /// Whether a member is this literal.
    func says(_ name: StaticString, _ literal: String) -> Bool {
        self.read { tape in
            tape.firstValue(of: name, in: 0).map { tape.bytes(of: $0).elementsEqual(literal.utf8) }
        } ?? false
    }

    /// Whether a list of texts has this one.
    func names(_ text: String, in name: StaticString) -> Bool {
        self.read { tape in
            guard let list = tape.firstValue(of: name, in: 0), tape[list].kind == .array else { return nil }
            return tape.elements(of: list).contains { tape.text($0) == text }
        } ?? false
    }

    /// How many fewer than `count` a member says; 0 where it says nothing.
    func shortfall(of name: StaticString, from count: Int) -> Int {
        let said = self.read { tape in tape.firstValue(of: name, in: 0).flatMap { tape.integer($0) } }
        return max(0, count - (said ?? count))
    }

    /// Whether the text of a refused request is about the key and not about the events.
    var blamesCredentials: Bool {
        let text = String(decoding: self.body.prefix(2048), as: UTF8.self).lowercased()
        return ["api key", "api_key", "write key", "writekey", "invalid token", "project token"].contains {
            text.contains($0)
        }
    }

    /// GA4's debug endpoint: `validationMessages[{fieldPath, description, validationCode}]`.
    var validationMessages: [String] {
        self.read { tape -> [String]? in
            guard let list = tape.firstValue(of: "validationMessages", in: 0), tape[list].kind == .array else {
                return nil
            }
            return tape.elements(of: list).map { item in
                let words = (["fieldPath", "validationCode", "description"] as [StaticString]).compactMap { name in
                    tape.firstValue(of: name, in: item).flatMap { tape.text($0) }
                }
                return Self.short(words.joined(separator: ": "))
            }
        } ?? []
    }

    /// Mixpanel: `failed_records[{index, field, message}]`.
    ///
    /// - Parameter owners: the record that each index belongs to.
    func failedRecords(_ owners: [Int]) -> [RecordRefusal] {
        let found = self.read { tape -> [RecordRefusal]? in
            guard let list = tape.firstValue(of: "failed_records", in: 0), tape[list].kind == .array else { return nil }
            return tape.elements(of: list).compactMap { item in
                guard let index = tape.firstValue(of: "index", in: item).flatMap({ tape.integer($0) }),
                    owners.indices.contains(index)
                else { return nil }
                return RecordRefusal(
                    position: owners[index],
                    detail: self.detail(tape.firstValue(of: "message", in: item).flatMap { tape.text($0) }),
                    field: tape.firstValue(of: "field", in: item).flatMap { tape.text($0) }.map(Self.short))
            }
        }
        return Self.firstOfEach(found ?? [])
    }

    /// Amplitude: `events_with_invalid_fields{field: [index]}` and its kin, and `silenced_events[index]`.
    func amplitudeRefusals(recordCount: Int) -> [RecordRefusal] {
        let found = self.read { tape -> [RecordRefusal] in
            var refusals: [RecordRefusal] = []
            for (name, words) in Self.amplitudeLists {
                guard let object = tape.firstValue(of: name, in: 0), tape[object].kind == .object else { continue }
                var members = tape.members(of: object)
                while let (key, value) = members.next(in: tape) {
                    let field = tape.text(key) ?? ""
                    for position in Self.positions(value, in: tape, below: recordCount) {
                        refusals.append(
                            RecordRefusal(
                                position: position, detail: Self.short("\(words) \(field)"), field: Self.short(field)))
                    }
                }
            }
            if let list = tape.firstValue(of: "silenced_events", in: 0) {
                refusals += Self.positions(list, in: tape, below: recordCount).map {
                    RecordRefusal(position: $0, detail: "the provider silences this device")
                }
            }
            return refusals
        }
        return Self.firstOfEach(found ?? [])
    }

    private static let amplitudeLists: [(name: StaticString, words: String)] = [
        ("events_with_invalid_fields", "invalid field"), ("events_with_missing_fields", "missing field"),
        ("events_with_invalid_id_lengths", "id too short"),
    ]

    /// The positions in a list.
    func positions(_ name: StaticString, recordCount: Int) -> [Int] {
        self.read { tape in
            tape.firstValue(of: name, in: 0).map { Self.positions($0, in: tape, below: recordCount) }
        } ?? []
    }

    /// Amplitude: records of users and devices that have used up their day.
    func exhaustedPositions(of records: [[UInt8]]) -> [Int] {
        let users = self.memberNames(of: "exceeded_daily_quota_users")
        let devices = self.memberNames(of: "exceeded_daily_quota_devices")
        guard !users.isEmpty || !devices.isEmpty else { return [] }
        return records.indices.filter { index in
            let ids = AnswerText(status: 0, body: records[index]).read { tape in
                (
                    tape.firstValue(of: "user_id", in: 0).flatMap { tape.text($0) },
                    tape.firstValue(of: "device_id", in: 0).flatMap { tape.text($0) }
                )
            }
            return ids.map { ($0.0.map(users.contains) ?? false) || ($0.1.map(devices.contains) ?? false) } ?? false
        }
    }

    private func memberNames(of name: StaticString) -> Set<String> {
        self.read { tape in
            guard let object = tape.firstValue(of: name, in: 0), tape[object].kind == .object else { return nil }
            var names: Set<String> = []
            var members = tape.members(of: object)
            while let (key, _) = members.next(in: tape) { names.insert(tape.text(key) ?? "") }
            return names
        } ?? []
    }

    private static func positions(_ list: Int, in tape: borrowing JSONTape, below count: Int) -> [Int] {
        guard tape[list].kind == .array else { return [] }
        return tape.elements(of: list).compactMap { tape.integer($0) }.filter { (0..<count).contains($0) }
    }

    private func detail(_ text: String?) -> String {
        text.map(Self.short) ?? self.summary
    }

    private static func short(_ text: String) -> String {
        Self.oneLine(String(decoding: Array(text.utf8.prefix(Self.detailByteCountMax)), as: UTF8.self))
    }

    /// A record that is refused for two reasons is refused once.
    private static func firstOfEach(_ refusals: [RecordRefusal]) -> [RecordRefusal] {
        var seen: Set<Int> = []
        return refusals.filter { seen.insert($0.position).inserted }.sorted { $0.position < $1.position }
    }
}

extension JSONTape {
    /// The elements of the array at `index`, in order.
    func elements(of index: Int) -> [Int] {
        var elements: [Int] = []
        var next = index + 1
        while next < Int(self[index].next) {
            elements.append(next)
            next = Int(self[next].next)
        }
        return elements
    }

    /// The text of a string; `nil` for other values.
    func text(_ index: Int) -> String? {
        self[index].kind == .string ? JSONText.string(self.bytes(of: index)) : nil
    }

    /// A whole number that fits; `nil` for other values.
    func integer(_ index: Int) -> Int? {
        self[index].kind == .number ? Int(String(decoding: self.bytes(of: index), as: UTF8.self)) : nil
    }
}
