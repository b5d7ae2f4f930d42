internal import WaybillEvent
internal import WaybillExport
internal import WaybillProjection
package import WaybillSystem

/// The sixteen reports; the raw value is the word in a command.
package enum ReportName: String, CaseIterable, Sendable {
    case overview, screens, next, paths, funnel, retention, active, breakdown
    case newReturning = "new-returning"
    case versions, os, gaps, sessions, arrival, providers, names

    /// Reads names that are separated by commas.
    package static func list(_ text: String) throws(ReportFailure) -> [ReportName] {
        var names: [ReportName] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false).map(String.init) {
            guard let name = ReportName(rawValue: part) else {
                throw .unknownReport(part, nearest: NearestName.find(part, in: Self.allCases.map(\.rawValue)))
            }
            if !names.contains(name) { names.append(name) }
        }
        return names
    }
}

/// The options of a command or the parameters of an address, as texts; both have the same names.
package struct ReportOptions: Sendable {
    package var from: String?
    package var to: String?
    package var env = "prod"
    package var app: String?
    package var zone: String?
    package var strictCutOff = false
    package var by: String?
    package var conditions: [String] = []
    package var steps: [String] = []
    package var within: String?
    package var strict = false
    package var screen: String?
    package var previous = false
    package var before: String?
    package var event: String?
    package var days: String?
    package var rolling: String?
    package var rules: [String] = []

    package init() {}

    /// Reads one parameter of an address.
    ///
    /// - Returns: `false` if there is none of that name.
    package mutating func set(_ name: String, _ value: String) -> Bool {
        let isOn = value != "0" && value != "false"
        switch name {
        case "from": self.from = value
        case "to": self.to = value
        case "env": self.env = value
        case "app": self.app = value
        case "zone": self.zone = value
        case "strict-cut-off": self.strictCutOff = isOn
        case "by": self.by = value
        case "where": self.conditions.append(value)
        case "step": self.steps.append(value)
        case "within": self.within = value
        case "strict": self.strict = isOn
        case "screen": self.screen = value
        case "previous": self.previous = isOn
        case "before": self.before = value
        case "event": self.event = value
        case "days": self.days = value
        case "rolling": self.rolling = value
        case "rule": self.rules.append(value)
        default: return false
        }
        return true
    }
}

/// At least so many events of a kind in a month.
struct CountRule: Sendable {
    let text: String
    let condition: EventCondition
    let countMin: Int
}

/// The first and the last day that are asked for; `nil`: those of the lines.
struct AskedDays: Hashable, Sendable {
    /// A hundred years.
    private static let dayCountMax: Int32 = 36_525

    let from: CalendarDay?
    let to: CalendarDay?

    init(from: String?, to: String?) throws(ReportFailure) {
        self.from = try Self.day("from", from)
        self.to = try Self.day("to", to)
        if let from = self.from, let to = self.to, to < from {
            throw .badOption(name: "to", text: to.description, remedy: "it is before --from")
        }
    }

    private static func day(_ option: String, _ text: String?) throws(ReportFailure) -> CalendarDay? {
        guard let text else { return nil }
        guard let day = CalendarDay(text) else {
            throw .badOption(name: option, text: text, remedy: "write a day as YYYY-MM-DD")
        }
        return day
    }

    /// The days of a report whose lines are of the days from `first` to `last`.
    func range(of first: Int32, _ last: Int32) throws(ReportFailure) -> ClosedRange<Int32> {
        let from = self.from?.daysSince1970 ?? min(first, self.to?.daysSince1970 ?? first)
        let to = self.to?.daysSince1970 ?? max(last, from)
        guard to - from < Self.dayCountMax else {
            throw .badOption(
                name: "from", text: CalendarDay(daysSince1970: from).description,
                remedy: "the range has more than a hundred years")
        }
        return from...to
    }
}

/// What to report, and of what.
package struct ReportRequest: Sendable {
    package let names: [ReportName]
    let options: ReportOptions
    let asked: AskedDays
    /// `nil`: the archive's.
    let zone: TimeZoneRules?
    let properties: [PropertyPath]
    /// `nil`: nothing is divided.
    let division: EventField?
    let conditions: [EventCondition]
    let steps: [EventCondition]
    /// Milliseconds.
    let window: Int64
    let before: EventCondition?
    let event: EventCondition?
    let days: ClosedRange<Int>
    let rollingDayCount: Int?
    let rules: [CountRule]
    /// The time by which a day is open or closed.
    let now: WallTime
    package var jobCount = 1
    /// The folder where rows of sealed days are kept; `nil` for none.
    package var cache: String?
    /// Whether the result has the catalogue of names as a document.
    package var wantsNames = false
    package var idBudget = IDBudget()
    /// Whether a report is left out, instead of a failure, if it needs an option that is missing.
    package var isEverything = false

    /// Checks options.
    ///
    /// - Parameter files: where the system's time zones are.
    package init(
        names: [ReportName], _ options: ReportOptions, now: WallTime, files: some FileSystem
    ) throws(ReportFailure) {
        self.names = names
        self.options = options
        self.now = now
        self.asked = try AskedDays(from: options.from, to: options.to)
        guard DeploymentEnvironment(rawValue: options.env) != nil else {
            throw .badOption(name: "env", text: options.env, remedy: "an environment is dev, internal or prod")
        }
        do throws(TimeZoneError) {
            self.zone = try options.zone.map { (name) throws(TimeZoneError) in
                try TimeZoneRules(named: name, from: files)
            }
        } catch {
            throw .zone(error)
        }
        var fields = FieldNames()
        self.division = try Self.division(options.by, &fields)
        self.conditions = try Self.conditions(options.conditions, "where", isStep: false, &fields)
        self.steps = try Self.conditions(options.steps, "step", isStep: true, &fields)
        guard self.steps.count != 1, self.steps.count <= 16 else {
            throw .badOption(
                name: "step", text: options.steps[0], remedy: "a funnel has 2 to 16 steps; give --step for each")
        }
        self.window = try Self.duration(options.within ?? "1d")
        self.before = try Self.conditions([options.before].compactMap(\.self), "before", isStep: true, &fields).first
        self.event = try Self.conditions([options.event].compactMap(\.self), "event", isStep: true, &fields).first
        self.days = try Self.dayRange(options.days ?? "0..30")
        self.rollingDayCount = try options.rolling.map { text throws(ReportFailure) in
            guard let count = Int(text), (1...366).contains(count) else {
                throw .badOption(name: "rolling", text: text, remedy: "write a number of days from 1 to 366")
            }
            return count
        }
        var rules: [CountRule] = []
        for text in options.rules { rules.append(try Self.rule(text, &fields)) }
        self.rules = rules
        if !rules.isEmpty, self.rollingDayCount != nil {
            throw .badOption(
                name: "rule", text: rules[0].text, remedy: "a rule is about calendar months; leave out --rolling")
        }
        self.properties = fields.properties
    }

    var wantsCatalogue: Bool { self.wantsNames || self.names.contains(.names) }

    var cutOffSecond: Int { CutOff.usualSecondOfDay }

    /// The properties that are about people, not about one event.
    var traits: [Int] {
        self.properties.indices.filter { if case .trait = self.properties[$0] { true } else { false } }
    }

    // MARK: Texts

    private static func division(
        _ text: String?, _ fields: inout FieldNames
    ) throws(ReportFailure) -> EventField? {
        guard let text else { return nil }
        guard let field = fields.field(text) else {
            throw .badOption(
                name: "by", text: text, remedy: "the fields are \(FieldNames.known.joined(separator: ", "))")
        }
        return field
    }

    private static func conditions(
        _ texts: [String], _ option: String, isStep: Bool, _ fields: inout FieldNames
    ) throws(ReportFailure) -> [EventCondition] {
        var conditions: [EventCondition] = []
        for text in texts {
            conditions.append(try fields.condition(text, option: option, isStep: isStep))
        }
        return conditions
    }

    /// Reads `90s`, `10m`, `2h` or `7d`, in milliseconds.
    private static func duration(_ text: String) throws(ReportFailure) -> Int64 {
        let units: [Character: Int64] = ["s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000]
        guard let unit = text.last.flatMap({ units[$0] }), let count = Int64(text.dropLast()),
            (1...1_000_000).contains(count)
        else {
            throw .badOption(name: "within", text: text, remedy: "write a time such as 90s, 10m, 2h or 7d")
        }
        return count * unit
    }

    /// Reads `0..30`, or one number, which is the last.
    private static func dayRange(_ text: String) throws(ReportFailure) -> ClosedRange<Int> {
        let parts = text.split(separator: "..", omittingEmptySubsequences: false).map { Int($0) }
        let first = parts.count == 2 ? parts[0] : 0
        guard parts.count <= 2, let first, let last = parts.last ?? nil, first >= 0, last >= first, last <= 366 else {
            throw .badOption(name: "days", text: text, remedy: "write days such as 0..30, at most 366")
        }
        return first...last
    }

    /// Reads `screen=Feed>=5`.
    private static func rule(_ text: String, _ fields: inout FieldNames) throws(ReportFailure) -> CountRule {
        guard let place = text.ranges(of: ">=").last, let count = Int(text[place.upperBound...]), count > 0 else {
            throw .badOption(name: "rule", text: text, remedy: "write a condition and a count: screen=Feed>=5")
        }
        let condition = try fields.condition(String(text[..<place.lowerBound]), option: "rule", isStep: true)
        return CountRule(text: text, condition: condition, countMin: count)
    }
}
