internal import WaybillData
internal import WaybillSystem

/// The reports as text for DuckDB: the same definitions, to change a question or to check an answer.
///
/// The text is variables, one table of events, and a query for each report under a line `-- report: NAME`. What only
/// `waybill report` can see is not in it: times of receipt, members that a source names, exports.
struct SQLReports {
    private let request: ReportRequest
    private let archive: String
    private let app: String
    private let zone: String

    /// The whole text.
    ///
    /// - Parameters:
    ///   - archive: the folder `archive` of a data directory.
    ///   - app: the app, and `zone` the zone, which a request need not name.
    static func text(_ request: ReportRequest, archive: String, app: String, zone: String) -> String {
        let reports = SQLReports(request: request, archive: archive, app: app, zone: zone)
        var text = reports.variables + SQLEvents.table + reports.views
        for name in request.names { text += reports.query(name) }
        return text
    }

    // MARK: Variables

    private var variables: String {
        let options = self.request.options
        return """
            -- Waybill's reports for DuckDB 1.5 or later, with the definitions of `waybill report`. Change the variables, and
            -- run it: duckdb < insights.sql
            SET TimeZone = 'UTC';
            SET VARIABLE archive = \(Self.literal(self.archive));
            SET VARIABLE env = \(Self.literal(options.env));
            -- The app, and its name in folders.
            SET VARIABLE app = \(Self.literal(self.app));
            SET VARIABLE bundle = \(Self.literal(PartitionPath.component(self.app)));
            SET VARIABLE zone = \(Self.literal(self.zone));
            -- The first and the last day; NULL: all that are kept.
            SET VARIABLE from_day = CAST(\(Self.literal(self.request.from?.description)) AS DATE);
            SET VARIABLE to_day = CAST(\(Self.literal(self.request.to?.description)) AS DATE);
            -- true: without lines that came after their day's cut-off. Use it with the archive's own zone.
            SET VARIABLE strict = \(options.strictCutOff);

            """
    }

    /// A text as SQL, without zero bytes, which end a statement in some drivers.
    static func literal(_ text: String?) -> String {
        guard let text else { return "NULL" }
        var literal = "'"
        for scalar in text.unicodeScalars where scalar != "\0" {
            literal.unicodeScalars.append(scalar)
            if scalar == "'" { literal += "'" }
        }
        return literal + "'"
    }

    /// A name of a column.
    static func identifier(_ name: String) -> String {
        "\"" + name.unicodeScalars.map { $0 == "\"" ? "\"\"" : $0 == "\0" ? "" : String($0) }.joined() + "\""
    }

    // MARK: Views

    /// What the queries read, with the request's conditions in it.
    private var views: String {
        let traits =
            self.request.traits.compactMap { index in
                guard case .trait(let key) = self.request.properties[index] else { return nil }
                return """
                    ,
                        CASE WHEN person IS NOT NULL THEN last_value(CASE WHEN kind = 'user' THEN traits->>\(Self.pointer(key)) END IGNORE NULLS) OVER (
                          PARTITION BY person ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) END AS trait_\(index)
                    """
            } as [String]
        let conditions = self.request.conditions.map { "(\(self.expression($0)))" }
        return """
            SET VARIABLE from_day = coalesce(getvariable('from_day'), (SELECT min(day) FROM e));
            SET VARIABLE to_day = coalesce(getvariable('to_day'), (SELECT max(day) FROM e));
            -- born: the first day of each person in all that is kept.
            CREATE OR REPLACE TEMP VIEW born AS SELECT person, min(day) AS born, min(ts) AS born_at FROM e
              WHERE person IS NOT NULL AND kind <> 'meta' GROUP BY person;
            -- k: the events that count; r: those of the range; active: those of people, without notices.
            CREATE OR REPLACE TEMP VIEW k AS SELECT * FROM (
              SELECT e.*, born, born_at\(traits.joined()) FROM e LEFT JOIN born USING (person))
              WHERE \(conditions.isEmpty ? "true" : conditions.joined(separator: " AND "));
            CREATE OR REPLACE TEMP VIEW r AS SELECT * FROM k WHERE day BETWEEN getvariable('from_day') AND getvariable('to_day');
            CREATE OR REPLACE TEMP VIEW active AS SELECT * FROM r WHERE person IS NOT NULL AND kind <> 'meta';

            """
    }

    // MARK: Conditions

    func expression(_ condition: EventCondition) -> String {
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
                parts.append("\(field) \(isNegated ? "IS DISTINCT FROM" : "=") \(Self.literal(text))")
            }
        }
        return parts.joined(separator: " AND ")
    }

    func expression(_ field: EventField) -> String {
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
            case .member(let name): Self.identifier(name)
            case .data(let key): "(data->>\(Self.pointer(key)))"
            case .trait: "trait_\(index)"
            }
        }
    }

    /// A member of an object, as an RFC 6901 pointer.
    static func pointer(_ key: String) -> String {
        var pointer = "/"
        for scalar in key.unicodeScalars {
            switch scalar {
            case "~": pointer += "~0"
            case "/": pointer += "~1"
            default: pointer.unicodeScalars.append(scalar)
            }
        }
        return Self.literal(pointer)
    }

    // MARK: Queries

    private func query(_ name: ReportName) -> String {
        switch name {
        case .retention:
            let isRolling = self.request.rollingDayCount != nil
            return [("retention", false), ("retention-unbounded", true)].map { name, isUnbounded in
                Self.marked(
                    name, SQLQueries.retention(self.request.days, isRolling: isRolling, isUnbounded: isUnbounded))
            }.joined()
        case .active:
            if let count = self.request.rollingDayCount { return Self.marked("active", SQLQueries.rolling(count)) }
            let rules = self.request.rules.map { ($0.text, self.expression($0.condition), $0.countMin) }
            return Self.marked("active", SQLQueries.months(rules)) + Self.marked("active-weeks", SQLQueries.weeks)
        default: return Self.marked(name.rawValue, self.only(name) ?? Self.missing(name))
        }
    }

    /// The query under the line that names it.
    private static func marked(_ name: String, _ query: String) -> String {
        "-- report: \(name)\n" + query
    }

    /// The query of a report that has one; `nil` without the option that it needs.
    private func only(_ name: ReportName) -> String? {
        switch name {
        case .overview: SQLQueries.overview
        case .screens: SQLQueries.screens
        case .newReturning: SQLQueries.newReturning
        case .versions: SQLQueries.versions
        case .os: SQLQueries.systems
        case .gaps: SQLQueries.gaps
        case .sessions: SQLQueries.sessions
        case .names: SQLQueries.names
        case .next: self.request.options.screen.map { SQLQueries.next($0, isPrevious: self.request.options.previous) }
        case .paths: self.request.before.map { SQLQueries.paths(self.expression($0)) }
        case .breakdown:
            SQLQueries.breakdown(
                self.request.event.map(self.expression), by: self.expression(self.request.division ?? .name),
                named: self.request.options.by ?? "name")
        case .funnel:
            self.request.steps.isEmpty
                ? nil
                : SQLQueries.funnel(
                    self.request.steps.map(self.expression), milliseconds: self.request.window,
                    isStrict: self.request.options.strict)
        case .retention, .active, .arrival, .providers: nil
        }
    }

    /// Why there is no query.
    private static func missing(_ name: ReportName) -> String {
        let reason =
            switch name {
            case .next: "Give --screen for it."
            case .paths: "Give --before for it."
            case .funnel: "Give --step, twice or more, for it."
            default: "It is made from more than the lines: waybill report \(name.rawValue)."
            }
        return "-- \(reason)\n"
    }
}
