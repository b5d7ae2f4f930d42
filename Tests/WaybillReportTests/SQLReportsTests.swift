import Testing
import WaybillSystem

@testable import WaybillReport

private func sql(
    _ names: [ReportName] = ReportName.allCases, archive: String = "/data/archive", app: String = "com.example.shop",
    _ change: (inout ReportOptions) -> Void = { _ in }
) throws -> String {
    var options = ReportOptions()
    change(&options)
    let request = try ReportRequest(names: names, options, now: WallTime(milliseconds: 0), files: POSIXFileSystem())
    return SQLReports.text(request, archive: archive, app: app, zone: "Asia/Seoul")
}

/// The text without comments and without what stands in literals and in names, as a reader of SQL finds them.
private func code(_ text: String) -> String {
    var code = ""
    /// The quote that ends what is skipped.
    var quote: Character?
    var isComment = false
    var previous: Character = "\n"
    for character in text {
        if isComment {
            isComment = character != "\n"
        } else if let end = quote {
            if character == end { quote = nil }
        } else if character == "'" || character == "\"" {
            // Two quotes in a row are one quote in the text.
            if previous != character { code.append(character) }
            quote = character
        } else {
            isComment = character == "-" && previous == "-"
            code.append(character)
        }
        previous = character
    }
    return code
}

@Suite struct SQLReportsTests {
    @Test func `the text has the variables, the table, and a query for each report`() throws {
        let text = try sql {
            $0.from = "2026-11-02"
            $0.screen = "Home"
            $0.before = "login"
            $0.by = "data.method"
            $0.steps = ["screen=SignUp", "login"]
        }
        for line in [
            "SET VARIABLE archive = '/data/archive';", "SET VARIABLE zone = 'Asia/Seoul';",
            "SET VARIABLE from_day = CAST('2026-11-02' AS DATE);", "SET VARIABLE to_day = CAST(NULL AS DATE);",
            "SET VARIABLE strict = false;", "CREATE OR REPLACE TEMP TABLE e AS",
        ] { #expect(text.split(separator: "\n").contains { $0 == line }, "\(line)") }
        let parts = text.split(separator: "-- report: ").dropFirst()
        let names = parts.map { String($0.prefix { $0 != "\n" }) }
        #expect(
            names.filter { $0 != "active-weeks" && $0 != "retention-unbounded" } == ReportName.allCases.map(\.rawValue))
        #expect(names.count == ReportName.allCases.count + 2)
        for part in parts where !part.hasPrefix("arrival") && !part.hasPrefix("providers") {
            #expect(part.contains("\nSELECT "), "\(part)")
        }
    }

    @Test func `a report that lacks an option says which`() throws {
        let text = try sql()
        for (name, option) in [
            ("next", "--screen"), ("paths", "--before"), ("funnel", "--step"),
        ] {
            #expect(text.contains("-- report: \(name)\n-- Give \(option)"), "\(name)")
        }
        #expect(text.contains("-- report: arrival\n-- It is made from more than the lines"))
    }

    @Test(arguments: ["a'; DROP TABLE e; --", "''", "\u{0}'\n-- report: x", "a\\", "$$", "\"", "'||'"])
    func `a value is a literal, whatever is in it`(_ value: String) throws {
        func text(_ value: String) throws -> String {
            try sql(archive: value, app: value) {
                $0.screen = value
                $0.before = "name=" + value
                $0.event = "data.\(value)=\(value)"
                $0.by = "traits." + value
                $0.conditions = ["traits.\(value)!=\(value)", "user=" + value]
                $0.steps = ["screen=" + value, value]
                $0.rules = [value + ">=2"]
            }
        }
        #expect(code(try text(value)) == code(try text("x")))
        #expect(!(try text(value)).unicodeScalars.contains("\0"))
    }

    @Test func `a property's name is a pointer's last part`() {
        #expect(SQLValue.literal(SQLReports.pointer("a/b~c'd")).sql == "'/a~1b~0c''d'")
    }

    @Test func `conditions are those of the option`() throws {
        let text = try sql([.funnel]) {
            $0.conditions = ["os!=iOS", "screen=*", "new=yes", "data.plan=pro"]
            $0.steps = ["screen=SignUp & version=1.4", "kind=user & user=*", "user!=*"]
        }
        #expect(
            text.contains(
                "WHERE (\"os\" IS DISTINCT FROM 'iOS') AND (screen IS NOT NULL) AND (CASE WHEN person IS NULL THEN NULL "
                    + "WHEN born = day THEN 'new' ELSE 'returning' END = 'new') AND ((data->>'/plan') = 'pro');"))
        for step in [
            "coalesce(kind = 'screen' AND screen = 'SignUp' AND version = '1.4', false) AS s1",
            "coalesce(kind = 'user' AND \"user\" IS NOT NULL, false) AS s2", "coalesce(\"user\" IS NULL, false) AS s3",
        ] { #expect(text.contains(step), "\(step)") }
        #expect(text.contains("a3 AS (SELECT a2.*") && !text.contains("a4 AS"))
    }

    @Test func `an option chooses the form of a query`() throws {
        let text = try sql {
            $0.screen = "Home"
            $0.previous = true
            $0.steps = ["screen=SignUp", "login"]
            $0.strict = true
            $0.rolling = "30"
        }
        for part in [
            "lag(screen)", "AS previous", "h.m = m1 + 1", "// 86400000 AS d", "cohort + number + 1", "AS \"30 days\"",
        ] { #expect(text.contains(part), "\(part)") }
        for part in ["lead(screen)", "h.m >", "day - born", "active-weeks"] { #expect(!text.contains(part), "\(part)") }
    }

    @Test func `a section stands for each item, and what a value puts there is not read again`() {
        let values: [String: SQLValue] = [
            "all": .list([["x": .number(7)], ["x": .identifier("\"")]]), "none": .list([]), "off": .flag(false),
            "on": .literal("{{x}}'{{#all}}"),
        ]
        for (text, filled) in [
            ("a{{#all}}{{#former}}, {{former}}<{{/former}}{{number}}: {{x}}{{/all}}b", "a1: 7, 1<2: \"\"\"\"b"),
            ("{{#on}}{{on}}{{/on}}{{^on}}no{{/on}}", "'{{x}}''{{#all}}'"), ("{{off}} {{#off}}no{{/off}}", "false "),
            ("{{^none}}1{{/none}}{{^off}}2{{/off}}{{^other}}3{{/other}}{{#none}}no{{/none}}", "123"),
        ] { #expect(SQLValue.fill(text[...], values) == filled, "\(text)") }
    }

    @Test func `a person's trait is the newest one so far`() throws {
        let text = try sql([.breakdown]) { $0.by = "traits.tier" }
        #expect(text.contains("last_value(CASE WHEN kind = 'user' THEN traits->>'/tier' END IGNORE NULLS) OVER ("))
        #expect(text.contains("SELECT trait_0 AS \"traits.tier\""))
    }
}
