internal import WaybillEvent
internal import WaybillExport
internal import WaybillSystem
internal import WaybillTestSupport

/// Lines of events, good and broken, through the reader and every exporter.
enum ExportFuzz {
    private static let receivedAt = WallTime(milliseconds: 1_740_823_200_000)  // 2025-03-01T10:00:00Z
    private static let sources = [
        SourceDescription(env: .prod, bundle: "com.example.shop"),
        SourceDescription(env: .internal, bundle: "org.example.proxy", isForeign: true),
        SourceDescription(
            env: .dev, bundle: "org.example.proxy", isForeign: true, timeMember: "msec", nameMember: "request",
            userMember: "login", anonymousMember: "cookie", stream: LineStream(principal: "web", id: "s-1")),
    ]

    private struct Sink: ExportSink {
        var records: [(bytes: [UInt8], ids: [UInt8], eventCount: Int)] = []
        var refusals: [[UInt8]] = []
        var accounted = 0

        mutating func write(_ record: ExportRecord) {
            self.records.append((Array(record.bytes), Array(record.ids), record.eventCount))
            self.accounted += record.eventCount
        }

        mutating func refuse(_ refusal: Refusal) {
            self.refusals.append(Array(refusal.deadLetter))
            self.accounted += 1
        }

        mutating func hold(_ event: HeldEvent) {
            self.accounted += 1
        }

        mutating func skip(_ reason: NotExported) {
            self.accounted += 1
        }
    }

    @Sendable static func run(_ input: [UInt8]) throws {
        let source = Self.sources[Int(input.first ?? 0) % Self.sources.count]
        let reader = EventReader(source: source)
        var events: [(line: [UInt8], facts: EventFacts)] = []
        for line in input.dropFirst().split(separator: 0x0A, omittingEmptySubsequences: false).map(Array.init) {
            switch withExactBytes(line, { reader.read($0) }) {
            case .event(let facts):
                try Self.checkEvent(line, facts, source)
                events.append((line, facts))
            case .quarantine(let reason): try Self.checkQuarantine(line, reason, source)
            }
        }
        for options in Self.allOptions { try Self.export(events, options, source) }
    }

    /// Each provider, without and with a mapping that touches every event, and custom ones of both formats.
    private static let allOptions: [ExportOptions] = {
        var rules = OperatorMapping.Rules(version: 1)
        rules.leave.names = ["x*"]
        rules.renames = [.init(from: "tap", to: "\u{1}\"탭"), .init(from: "", to: "empty")]
        var rule = OperatorMapping.FieldRule()
        rule.drops = ["b*"]
        rule.renames = [.init(from: "a", to: "가\\"), .init(from: "k", to: "")]
        rule.constants = [.init(name: "c\"", json: "1e400"), .init(name: "items", json: "\"\\u0000\"")]
        rules.fields = [rule]
        let providers = Destination.allCases.map { ExportOptions(provider: $0) }
        let customs = CustomOptions.Format.allCases.map { format in
            var options = ExportOptions(provider: .custom("custom-\(format.rawValue)"))
            var columns = ["ts", "name", "data", "data.a", "traits", "ids.ga4", "received_at"].flatMap { from in
                CustomOptions.ColumnType.allCases.map { type in
                    var column = CustomOptions.Column(name: "\(from) \(type)", from: from)
                    column.type = type
                    return column
                }
            }
            columns[0].characterCountMax = 3
            options.custom = CustomOptions(format: format, columns: columns)
            return options
        }
        return (providers + customs).flatMap { plain in
            var mapped = plain
            mapped.mapping = OperatorMapping(rules)
            return [plain, mapped]
        }
    }()

    /// The object of a line, without a byte order mark.
    private static func object(_ line: [UInt8]) -> ReferenceJSON? {
        let json = line.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(line.dropFirst(3)) : line
        guard let value = ReferenceJSON(json), case .object = value else { return nil }
        return value
    }

    private static func checkEvent(_ line: [UInt8], _ facts: EventFacts, _ source: SourceDescription) throws {
        guard let object = Self.object(line) else { throw Violation("not an object: \(shown(line))") }
        try require(facts.time.milliseconds >= 946_684_800_000, "a time before 2000: \(shown(line))")
        guard !source.isForeign else { return }
        try require(object["ts"]?.text != nil, "an event without time: \(shown(line))")
        try require(object["env"]?.text == facts.env.rawValue, "an event of another environment: \(shown(line))")
        try require(object["name"]?.text?.isEmpty == false, "an event without name: \(shown(line))")
        try require(object["bundle"]?.text?.isEmpty == false, "an event without bundle: \(shown(line))")
        try require([nil, .number("1")].contains(object["v"]), "an event of another version: \(shown(line))")
    }

    private static func checkQuarantine(
        _ line: [UInt8], _ reason: QuarantineReason, _ source: SourceDescription
    ) throws {
        let isObject = Self.object(line) != nil
        switch reason {
        case .notJSON, .notObject, .empty, .nul, .badUTF8:
            try require(!isObject, "an object is called \(reason): \(shown(line))")
        default:
            try require(isObject || line.count > 1 << 20, "no object is called \(reason): \(shown(line))")
        }
    }

    private static func export(
        _ events: [(line: [UInt8], facts: EventFacts)], _ options: ExportOptions, _ source: SourceDescription
    ) throws {
        var sink = Sink()
        let provider = options.provider
        var exporter = Exporter(options)
        for (offset, (line, facts)) in events.enumerated() {
            withExactBytes(line) {
                exporter.export(
                    $0, facts, source: source, at: UInt64(offset), receivedAt: Self.receivedAt, isAgeJudged: true,
                    to: &sink)
            }
        }
        exporter.finishGroup(to: &sink)
        try require(sink.accounted == events.count, "\(provider): \(sink.accounted) of \(events.count) events")
        for record in sink.records { try Self.check(record, provider) }
        for letter in sink.refusals {
            try require(letter.last == 0x0A && letter.count { $0 == 0x0A } == 1, "a dead letter of two lines")
            // The event in it may be as deep as an event may be.
            try require(
                ReferenceJSON(letter, depthMax: 66) != nil, "\(provider): a dead letter is no JSON: \(shown(letter))")
        }
    }

    private static func check(
        _ record: (bytes: [UInt8], ids: [UInt8], eventCount: Int), _ provider: Destination
    ) throws {
        let text = shown(record.bytes)
        // A length of the journal's is no text.
        if provider != .journald {
            try require(String(validating: record.bytes, as: UTF8.self) != nil, "\(provider): not UTF-8: \(text)")
        }
        try require(
            record.ids.split(separator: 0x2C).count == record.eventCount, "\(provider): ids \(shown(record.ids))")
        try require(!record.ids.contains(0x0A), "\(provider): ids on two lines: \(shown(record.ids))")
        switch provider {
        case .csv:
            try require(record.bytes.suffix(2) == [0x0D, 0x0A], "csv: no end of a row: \(text)")
            try require(Self.cellCount(record.bytes.dropLast(2)) == 7, "csv: not a row of 7 cells: \(text)")
        case .flurry:
            try require(record.bytes.suffix(2) == [0x0D, 0x0A], "flurry: no end of a row: \(text)")
            try require(Self.cellCount(record.bytes.dropLast(2)) == 12, "flurry: not a row of 12 cells: \(text)")
        case .mixpanelProfiles:
            let array = Array("[".utf8) + record.bytes + Array("]".utf8)
            try require(!record.bytes.contains(0x0A), "\(provider): an update of two lines: \(text)")
            try require(ReferenceJSON(array, depthMax: 66) != nil, "\(provider): no updates: \(text)")
        case .syslog:
            try require(record.bytes.count { $0 == 0x0A } == 1 && record.bytes.last == 0x0A, "syslog: \(text)")
            try require(record.bytes.count <= 2049, "syslog: \(record.bytes.count) bytes: \(text)")
            try require(!record.bytes.dropLast().contains { $0 < 0x20 || $0 == 0x7F }, "syslog: control: \(text)")
        case .journald:
            try require(Self.journalFieldCount(record.bytes).map { $0 <= 1000 } ?? false, "journald: \(text)")
        case .custom("custom-csv"):
            try require(record.bytes.suffix(2) == [0x0D, 0x0A], "custom: no end of a row: \(text)")
            try require(Self.cellCount(record.bytes.dropLast(2)) == 35, "custom: not a row of 35 cells: \(text)")
        default:
            try require(record.bytes.count { $0 == 0x0A } == 1 && record.bytes.last == 0x0A, "\(provider): \(text)")
            try require(ReferenceJSON(record.bytes, depthMax: 66) != nil, "\(provider): a record is no JSON: \(text)")
        }
    }

    /// The fields of one entry of the journal's export format; `nil` when it is none.
    private static func journalFieldCount(_ entry: [UInt8]) -> Int? {
        var rest = entry[...]
        var count = 0
        while let first = rest.first, first != 0x0A {
            guard let end = rest.firstIndex(of: 0x0A) else { return nil }
            let line = rest[rest.startIndex..<end]
            let name = line.prefix { $0 != 0x3D }
            guard 1...64 ~= name.count, name.allSatisfy({ 0x41...0x5A ~= $0 || 0x30...0x39 ~= $0 || $0 == 0x5F }) else {
                return nil
            }
            rest = rest[(end + 1)...]
            count += 1
            if name.count < line.count { continue }
            guard rest.count > 8 else { return nil }
            let length = rest.prefix(8).reversed().reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(8)
            guard rest.count > length, rest[rest.startIndex + length] == 0x0A else { return nil }
            rest = rest.dropFirst(length + 1)
        }
        return count > 0 && rest.elementsEqual([0x0A]) ? count : nil
    }

    /// The cells of one row (RFC 4180); `nil` when it is none.
    private static func cellCount(_ row: some Collection<UInt8>) -> Int? {
        var count = 1
        var isQuoted = false
        var previous: UInt8 = 0x2C
        for byte in row {
            switch byte {
            case 0x22:
                // A quote opens a cell, closes it, or stands twice in it.
                if !isQuoted, previous != 0x2C, previous != 0x22 { return nil }
                isQuoted.toggle()
            case 0x2C where !isQuoted: count += 1
            case 0x0A, 0x0D: if !isQuoted { return nil }
            default: if !isQuoted, previous == 0x22 { return nil }
            }
            previous = byte
        }
        return isQuoted ? nil : count
    }
}
