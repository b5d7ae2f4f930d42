import Testing
import WaybillExport
import WaybillJSON
import WaybillServerTestSupport
import WaybillSystem

/// Random events through each provider; every record is judged by checks that share nothing with the exporter.
@Suite struct LimitFuzzTests {
    private static func lines(seed: UInt64) -> [String] {
        var events = RandomEvents(seed: seed)
        return (0..<4000).map { _ in events.next() }
    }

    /// Made once, since it takes longer than all exports of it.
    private static let sharedLines = lines(seed: 6)

    private static func run(_ provider: Destination, _ lines: [String]) -> RecordingSink {
        export(lines, ExportOptions(provider: provider))
    }

    @Test(arguments: UInt64(1)...5)
    func `every GA4 request is within the limits and every event accounted for`(seed: UInt64) throws {
        let lines = Self.lines(seed: seed)
        let sink = Self.run(.ga4, lines)
        #expect(sink.accounted == lines.count)
        #expect(sink.eventCount > 500)
        for record in sink.records {
            let problems = try RecordChecks.ga4(record)
            if !problems.isEmpty { Issue.record("\(problems) \(record.text.prefix(400))") }
        }
        try Self.checkDeadLetters(sink, "ga4")
    }

    @Test(arguments: UInt64(1)...5)
    func `every Mixpanel event is within the limits and every event accounted for`(seed: UInt64) throws {
        let lines = Self.lines(seed: seed)
        let sink = Self.run(.mixpanel, lines)
        #expect(sink.accounted == lines.count)
        #expect(sink.eventCount > 500)
        for record in sink.records {
            let problems = try RecordChecks.mixpanel(record)
            if !problems.isEmpty { Issue.record("\(problems) \(record.text.prefix(400))") }
        }
        try Self.checkDeadLetters(sink, "mixpanel")
    }

    @Test(arguments: UInt64(1)...5)
    func `every row has seven harmless cells and every event is accounted for`(seed: UInt64) throws {
        let lines = Self.lines(seed: seed)
        let sink = Self.run(.csv, lines)
        #expect(sink.accounted == lines.count)
        #expect(sink.eventCount > 500)
        for record in sink.records {
            let problems = RecordChecks.csv(record)
            if !problems.isEmpty { Issue.record("\(problems) \(record.text.prefix(400))") }
        }
        try Self.checkDeadLetters(sink, "csv")
    }

    /// What a record may hold is judged by `Tools/validators`.
    @Test(arguments: Destination.allCases)
    func `every event is accounted for, whatever the provider`(provider: Destination) throws {
        let lines = Self.sharedLines
        let sink = Self.run(provider, lines)
        #expect(sink.accounted == lines.count)
        #expect(sink.records.allSatisfy { $0.ids.split(separator: ",").count == $0.eventCount })
        try Self.checkDeadLetters(sink, provider.rawValue)
    }

    @Test(arguments: Destination.allCases)
    func `the same events give the same bytes again`(provider: Destination) {
        let lines = Self.sharedLines
        let first = Self.run(provider, lines)
        let second = Self.run(provider, lines)
        #expect(second.records == first.records)
        #expect(second.refusals == first.refusals)
    }

    /// Takes most events, renames them, and drops, renames and sets fields, with text that no provider takes as it is.
    private static func mapping(seed: UInt64) -> OperatorMapping {
        var random = RandomEvents(seed: seed)
        var rules = OperatorMapping.Rules(version: 9)
        rules.leave.names = [random.name(orText: true), "p*"]
        rules.renames = (0..<8).map { _ in .init(from: random.name(orText: true), to: random.name(orText: true)) }
        for index in 0..<3 {
            var rule = OperatorMapping.FieldRule()
            rule.names = index == 0 ? [] : [random.name(orText: true), "a*"]
            rule.drops = [random.name(orText: true), "x_*"]
            rule.renames = (0..<8).map { _ in .init(from: random.name(orText: true), to: random.name(orText: true)) }
            rule.constants = [
                .init(name: random.name(orText: true), json: #""\u0000=1\"\n가""#),
                .init(name: "n\(index)", json: "1e400"),
                .init(name: "", json: "true"),
            ]
            rules.fields.append(rule)
        }
        return OperatorMapping(rules)
    }

    @Test(arguments: Destination.allCases)
    func `what a mapping made of events is within the limits too, and every event accounted for`(
        provider: Destination
    ) throws {
        var options = ExportOptions(provider: provider)
        options.mapping = Self.mapping(seed: 11)
        let sink = export(Self.sharedLines, options)
        #expect(sink.accounted == Self.sharedLines.count)
        #expect(sink.skipped.contains(.mapping))
        #expect(export(Self.sharedLines, options).records == sink.records)
        for record in sink.records {
            let problems: [String] =
                switch provider {
                case .ga4: try RecordChecks.ga4(record)
                case .mixpanel: try RecordChecks.mixpanel(record)
                case .csv: RecordChecks.csv(record)
                default: []
                }
            if !problems.isEmpty { Issue.record("\(problems) \(record.text.prefix(400))") }
        }
    }

    /// Each dead letter is one line of JSON whose event, where it may be kept, is the original and still an event.
    private static func checkDeadLetters(_ sink: RecordingSink, _ provider: String) throws {
        for refusal in sink.refusals {
            #expect(refusal.line.hasSuffix("}\n"))
            #expect(refusal.line.utf8.count { $0 == 0x0A } == 1)
            let line = String(refusal.line.dropLast())
            let start = "{\"provider\":\"\(provider)\",\"reason\":\"\(refusal.reason.rawValue)\",\"detail\":\""
            #expect(line.hasPrefix(start))
            if refusal.reason == .consent {
                #expect(!line.contains("\"event\":"))
            } else {
                let event = try #require(line.split(separator: "\"mapping\":0,\"event\":", maxSplits: 1).last)
                guard case .event = read(String(event.dropLast())) else {
                    Issue.record("not an event any more: \(event.prefix(200))")
                    return
                }
            }
        }
    }
}

/// The limit tables of the providers, written down a second time.
enum RecordChecks {
    private static let reservedEvents: Set<String> = [
        "ad_activeview", "ad_click", "ad_exposure", "ad_query", "ad_reward", "adunit_exposure", "app_clear_data",
        "app_exception", "app_install", "app_remove", "app_store_refund", "app_update", "app_upgrade",
        "dynamic_link_app_open", "dynamic_link_app_update", "dynamic_link_first_open", "error", "first_open",
        "first_visit", "notification_dismiss", "notification_foreground", "notification_open", "notification_receive",
        "notification_send", "os_update", "session_start", "user_engagement", "app_store_subscription_cancel",
        "app_store_subscription_convert", "app_store_subscription_renew", "session_start_with_rollout",
    ]
    private static let reservedProperties: Set<String> = [
        "first_open_time", "first_visit_time", "last_deep_link_referrer", "user_id", "first_open_after_install",
    ]

    private static func isName(_ name: String, _ limit: Int) -> Bool {
        guard 1...limit ~= name.utf8.count, name.first.map({ "a"..."z" ~= $0 }) == true else { return false }
        let reserved = ["_", "firebase_", "ga_", "google_", "gtag."]
        return name.unicodeScalars.allSatisfy { "a"..."z" ~= $0 || "0"..."9" ~= $0 || $0 == "_" }
            && !reserved.contains { name.hasPrefix($0) }
    }

    private static func hasDuplicates(_ json: PlainJSON) -> Bool {
        Set(json.members.map { Array($0.key.utf8) }).count != json.members.count
    }

    static func ga4(_ record: RecordingSink.Record) throws -> [String] {
        var problems: [String] = []
        let json = try PlainJSON(String(record.text.dropLast()))
        if record.text.utf8.count > 120_000 { problems.append("size") }
        let order = ["app_instance_id", "user_id", "consent", "events", "user_properties"]
        if json.members.map(\.key) != order.filter({ json[$0] != nil }) { problems.append("members") }
        let instance = json["app_instance_id"]?.text ?? ""
        if instance.count != 32 || !instance.allSatisfy(\.isHexDigit) { problems.append("instance") }
        if (json["user_id"]?.text ?? "").utf16.count > 256 { problems.append("user") }
        let events = json["events"]?.elements ?? []
        if !(1...25 ~= events.count) || events.count != record.eventCount { problems.append("count") }
        if record.ids.split(separator: ",").count != events.count { problems.append("ids") }
        for event in events { problems += Self.ga4Event(event, day: record.day) }
        if let properties = json["user_properties"] {
            if properties.members.count > 25 || Self.hasDuplicates(properties) { problems.append("properties") }
            for member in properties.members {
                let (key, value) = (member.key, member.value)
                if !Self.isName(key, 24) || Self.reservedProperties.contains(key) { problems.append("property \(key)") }
                if (value["value"]?.text ?? "").utf16.count > 36 { problems.append("property value") }
                if value["value"]?.text == nil, value["value"]?.number == nil { problems.append("property type") }
                if value["timestamp_micros"]?.number == nil { problems.append("property time") }
            }
        }
        return problems
    }

    private static func ga4Event(_ event: PlainJSON, day: String) -> [String] {
        var problems: [String] = []
        let name = event["name"]?.text ?? ""
        if !Self.isName(name, 40) || Self.reservedEvents.contains(name) { problems.append("name \(name)") }
        let micros = Int64(event["timestamp_micros"]?.number ?? "") ?? 0
        if CalendarDay(daysSince1970: Int32(micros / 86_400_000_000)).description != day { problems.append("day") }
        if receivedAt.milliseconds - micros / 1000 > 72 * 3_600_000 { problems.append("age") }
        let parameters = event["params"] ?? .null
        if parameters.members.count > 25 || Self.hasDuplicates(parameters) { problems.append("params") }
        if (Int(parameters["engagement_time_msec"]?.number ?? "") ?? 0) < 1 { problems.append("engagement") }
        for member in parameters.members {
            let (key, value) = (member.key, member.value)
            if !Self.isName(key, 40) { problems.append("param \(key)") }
            let limit = ["page_title": 300, "page_referrer": 420, "page_location": 1000][key] ?? 100
            switch value {
            case .string(let text): if text.utf16.count > limit { problems.append("value of \(key)") }
            case .number: break
            case .array(let items) where key == "items":
                if items.count > 200 { problems.append("items") }
                for item in items {
                    if item.depth > 1 || Self.hasDuplicates(item) { problems.append("item") }
                    if item.members.count(where: { $0.key.hasPrefix("custom") }) > 27 { problems.append("item count") }
                }
            case .null, .bool, .array, .object: problems.append("type of \(key)")
            }
        }
        return problems
    }

    static func mixpanel(_ record: RecordingSink.Record) throws -> [String] {
        var problems: [String] = []
        let json = try PlainJSON(String(record.text.dropLast()))
        if record.text.utf8.count >= 1_000_000 { problems.append("size") }
        if json.members.map(\.key) != ["event", "properties"] { problems.append("members") }
        if (json["event"]?.text ?? String(repeating: "x", count: 256)).utf8.count > 255 { problems.append("name") }
        let properties = json["properties"] ?? .null
        if properties.members.count >= 255 || Self.hasDuplicates(properties) { problems.append("properties") }
        let known = [
            "time", "distinct_id", "$insert_id", "$device_id", "$user_id", "$os", "$os_version", "$app_version_string",
            "$app_build_number", "$model", "mp_country_code", "wb_session", "wb_seq", "wb_log", "ip", "screen",
            "screen_class",
        ]
        let forbidden = [
            "anon", "anonymous", "nil", "none", "null", "n/a", "na", "undefined", "unknown", "<nil>", "0", "-1",
        ]
        for key in ["distinct_id", "$device_id", "$user_id"] {
            if let id = properties[key]?.text, forbidden.contains(id) { problems.append(key) }
            if key != "distinct_id", properties[key]?.text == "" { problems.append(key) }
        }
        if properties["distinct_id"]?.text == nil { problems.append("distinct_id") }
        if !(1...36 ~= (properties["$insert_id"]?.text ?? "").utf8.count) { problems.append("$insert_id") }
        let time = Int64(properties["time"]?.number ?? "") ?? 0
        if time - receivedAt.milliseconds > 3_600_000 || time == 0 { problems.append("time") }
        for member in properties.members where !known.contains(member.key) {
            let (key, value) = (member.key, member.value)
            let reserved = ["token", "ip", "bucket", "time", "distinct_id", ""]
            if key.hasPrefix("$") || key.hasPrefix("mp_") || reserved.contains(key) { problems.append("key \(key)") }
            if key.utf8.count > 255 { problems.append("key length") }
            problems += Self.mixpanelValue(value)
        }
        return problems
    }

    private static func mixpanelValue(_ value: PlainJSON) -> [String] {
        var problems: [String] = []
        if value.depth > 3 { problems.append("depth") }
        switch value {
        case .null, .bool, .number: break
        case .string(let text): if text.utf8.count > 255 { problems.append("string") }
        case .array(let elements):
            if elements.count >= 255 { problems.append("list") }
            for element in elements { problems += Self.mixpanelValue(element) }
        case .object(let members):
            if members.count >= 255 { problems.append("object") }
            for member in members { problems += Self.mixpanelValue(member.value) }
        }
        return problems
    }

    static func csv(_ record: RecordingSink.Record) -> [String] {
        guard let cells = PlainCSV.row(record.text) else { return ["not a row"] }
        var problems = cells.count == 7 ? [] : ["\(cells.count) cells"]
        for cell in cells {
            if cell.utf16.count > 32_767 { problems.append("cell length") }
            if let first = cell.unicodeScalars.first, "=+-@\t\r＝＋－＠".unicodeScalars.contains(first) {
                problems.append("formula")
            }
            if cell.unicodeScalars.contains("\u{0}") { problems.append("NUL") }
        }
        return problems
    }
}

/// A strict reader of RFC 4180 rows.
enum PlainCSV {
    /// The cells of exactly one row with its CRLF; `nil` when it is anything else.
    static func row(_ text: String) -> [String]? {
        let bytes = Array(text.utf8)
        var cells: [String] = []
        var at = 0
        while true {
            var cell: [UInt8] = []
            if at < bytes.count, bytes[at] == 0x22 {
                at += 1
                while true {
                    guard at < bytes.count else { return nil }
                    if bytes[at] == 0x22 {
                        at += 1
                        guard at < bytes.count, bytes[at] == 0x22 else { break }
                    }
                    cell.append(bytes[at])
                    at += 1
                }
            } else {
                while at < bytes.count, bytes[at] != 0x2C, bytes[at] != 0x0D {
                    guard bytes[at] != 0x22, bytes[at] != 0x0A else { return nil }
                    cell.append(bytes[at])
                    at += 1
                }
            }
            guard let string = String(validating: cell, as: UTF8.self), at < bytes.count else { return nil }
            cells.append(string)
            if bytes[at] == 0x2C {
                at += 1
                continue
            }
            return bytes[at...].elementsEqual([0x0D, 0x0A]) ? cells : nil
        }
    }
}
