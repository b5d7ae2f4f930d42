internal import CWaybillTexts
internal import WaybillData
internal import WaybillSystem

/// The reports as text for DuckDB: the same definitions, to change a question or to check an answer.
///
/// The text is `reports.sql`: variables, one table of events, and a query for each report under a line `-- report: NAME`.
/// What only `waybill report` can see is not in it: times of receipt, members that a source names, exports.
struct SQLReports {
    private let request: ReportRequest

    /// A line of nothing but sections' marks has no line break.
    private static let template = {
        let file = waybill_reports_sql()
        return String(decoding: UnsafeBufferPointer(start: file.bytes, count: file.count), as: UTF8.self)
            .split(separator: "\n").map { $0.hasPrefix("{{") && $0.hasSuffix("}}") ? String($0) : "\($0)\n" }.joined()
    }()

    /// The whole text.
    ///
    /// - Parameters:
    ///   - archive: the folder `archive` of a data directory.
    ///   - app: the app, and `zone` the zone, which a request need not name.
    static func text(_ request: ReportRequest, archive: String, app: String, zone: String) -> String {
        let options = request.options
        let reports = SQLReports(request: request)
        let values: [String: SQLValue?] = [
            "archive": .literal(archive), "env": .literal(options.env), "app": .literal(app),
            "bundle": .literal(PartitionPath.component(app)), "zone": .literal(zone),
            "from": .literal(request.asked.from?.description), "to": .literal(request.asked.to?.description),
            "strict_cut_off": .flag(options.strictCutOff),
            "traits": .list(reports.traits), "conditions": .list(reports.list(request.conditions)),
            "screen": options.screen.map(SQLValue.literal), "previous": .flag(options.previous),
            "before": request.before.map(reports.condition), "event": request.event.map(reports.condition),
            "by": .expression(reports.expression(request.division ?? .name)),
            "by_column": .identifier(options.by ?? "name"),
            "steps": .list(reports.list(request.steps)), "window": .number(Int(request.window)),
            "step_count": request.steps.isEmpty ? nil : .number(request.steps.count),
            "step_end": .number(request.steps.count + 1), "strict": .flag(options.strict),
            "days_first": .number(request.days.lowerBound), "days_end": .number(request.days.upperBound + 1),
            "rolling": request.rollingDayCount.map(SQLValue.number),
            "rolling_reach": .number(max(7, request.rollingDayCount ?? 0)),
            "rules": .list(
                request.rules.map {
                    [
                        "condition": reports.condition($0.condition), "count": .number($0.countMin),
                        "column": .identifier($0.text),
                    ]
                }),
            "reports": .list(
                request.names.map {
                    [$0.rawValue: $0 == .retention ? .list([[:], ["unbounded": .flag(true)]]) : .flag(true)]
                }),
        ]
        return SQLValue.fill(Self.template[...], values.compactMapValues(\.self))
    }

    // MARK: Conditions

    private var traits: [[String: SQLValue]] {
        self.request.traits.compactMap { index in
            guard case .trait(let key) = self.request.properties[index] else { return nil }
            return ["key": .literal(Self.pointer(key)), "index": .number(index)]
        }
    }

    private func list(_ conditions: [EventCondition]) -> [[String: SQLValue]] {
        conditions.map { ["condition": self.condition($0)] }
    }

    private func condition(_ condition: EventCondition) -> SQLValue {
        var parts = condition.isView ? ["kind = 'screen'"] : []
        for term in condition.terms {
            let field = self.expression(term.field)
            switch (term.value, term.isNegated) {
            case (nil, false): parts.append("\(field) IS NOT NULL")
            case (nil, true): parts.append("\(field) IS NULL")
            case (let value?, let isNegated):
                var text = value
                if term.field == .isNew {
                    text = ["yes", "true", "1", "new"].contains(value) ? "new" : "returning"
                }
                parts.append("\(field) \(isNegated ? "IS DISTINCT FROM" : "=") \(SQLValue.literal(text).sql)")
            }
        }
        return .expression(parts.joined(separator: " AND "))
    }

    private func expression(_ field: EventField) -> String {
        switch field {
        case .name: "name"
        case .screen: "screen"
        case .kind: "kind"
        case .user: "\"user\""
        case .install: "anon"
        case .session: "session"
        case .version: "version"
        case .systemVersion: "os_version"
        case .agent: "NULL::VARCHAR"
        case .isNew: "CASE WHEN person IS NULL THEN NULL WHEN born = day THEN 'new' ELSE 'returning' END"
        case .property(let index):
            switch self.request.properties[index] {
            case .member(let name): SQLValue.identifier(name).sql
            case .data(let key): "(data->>\(SQLValue.literal(Self.pointer(key)).sql))"
            case .trait: "trait_\(index)"
            }
        }
    }

    /// A member of an object, as an RFC 6901 pointer.
    static func pointer(_ key: String) -> String {
        "/" + key.unicodeScalars.map { $0 == "~" ? "~0" : $0 == "/" ? "~1" : String($0) }.joined()
    }
}

/// What stands in a text of SQL for a variable; what comes from a user is quoted.
enum SQLValue {
    /// `nil`: NULL.
    case literal(String?)
    /// A name of a column.
    case identifier(String)
    case number(Int)
    case flag(Bool)
    /// SQL, made of the others.
    case expression(String)
    /// What is repeated, with the variables of each time.
    case list([[String: SQLValue]])

    var sql: String {
        switch self {
        case .literal(let text): text.map { Self.quoted($0, "'") } ?? "NULL"
        case .identifier(let name): Self.quoted(name, "\"")
        case .number(let number): "\(number)"
        case .flag(let isOn): "\(isOn)"
        case .expression(let sql): sql
        case .list: ""
        }
    }

    /// The variables of each time that a section stands in the text.
    private var times: [[String: SQLValue]] {
        switch self {
        case .flag(false): []
        case .list(let items):
            items.enumerated().map { index, item in
                item.merging(["number": .number(index + 1), "former": index > 0 ? .number(index) : .flag(false)]) { $1 }
            }
        default: [[:]]
        }
    }

    /// Without zero bytes, which end a statement in some drivers.
    private static func quoted(_ text: String, _ quote: Unicode.Scalar) -> String {
        let inner = text.unicodeScalars.map { $0 == quote ? "\(quote)\(quote)" : $0 == "\0" ? "" : String($0) }
        return "\(quote)\(inner.joined())\(quote)"
    }

    /// A text with its variables filled in; what they put there is not read again.
    ///
    ///     {{name}}              the value
    ///     {{#name}}…{{/name}}   a section: once for each item of a list, or once if there is a value other than false
    ///     {{^name}}…{{/name}}   a section for when there is none
    ///
    /// In a list's section `number` is the item's place, from 1, and `former` the place before it, which the first one lacks.
    static func fill(_ text: Substring, _ values: [String: SQLValue]) -> String {
        var filled = ""
        var rest = text
        while let start = rest.firstRange(of: "{{"), let end = rest[start.upperBound...].firstRange(of: "}}") {
            filled += rest[..<start.lowerBound]
            let mark = rest[start.upperBound..<end.lowerBound]
            rest = rest[end.upperBound...]
            guard let sign = mark.first, sign == "#" || sign == "^" else {
                guard let value = values[String(mark)] else { preconditionFailure("no value of \(mark)") }
                filled += value.sql
                continue
            }
            let name = String(mark.dropFirst())
            guard let close = rest.firstRange(of: "{{/\(name)}}") else { preconditionFailure("no end of \(name)") }
            let times = values[name]?.times ?? []
            for more in sign == "#" ? times : times.isEmpty ? [[:]] : [] {
                filled += self.fill(rest[..<close.lowerBound], values.merging(more) { $1 })
            }
            rest = rest[close.upperBound...]
        }
        return filled + rest
    }
}
