import ArgumentParser
import WaybillReport
import WaybillSystem

struct ReportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "report",
        abstract: "Count people, screens, funnels and more over the archive's days.",
        discussion: """
            Examples:
              waybill report overview --data /var/lib/waybill
              waybill report screens,versions --data D --from 2026-11-01 --to 2026-11-07 --zone Asia/Seoul
              waybill report funnel --data D --step screen=SignUp --step 'Sign Up Tapped' --step 'kind=user & user=*' --within 10m
              waybill report breakdown --data D --event login --by data.method
              waybill report all --data D --html week.html
              waybill report names --data D --names names.json
              waybill report sql --data D > insights.sql

            Reports: \(ReportName.allCases.map(\.rawValue).joined(separator: ", ")); all: every one that needs no option.
            Conditions: an event's name, or FIELD=VALUE, FIELD!=VALUE, FIELD=* (any value), joined by ' & '.
            The receiver may run. Each report is printed with its definition. If files of a day are damaged, the day is
            left out and named, and the exit code is 65. The SQL is for DuckDB and has the same definitions.
            """)

    enum Format: String, ExpressibleByArgument, CaseIterable {
        case table, csv, json, html
    }

    @Argument(help: "Which reports, separated by commas or spaces; sql before them prints them as SQL.")
    var reports: [String]

    @Option(help: "A receiver's data directory.")
    var data: String

    @OptionGroup var question: ReportQuestion

    @Option(
        help: """
            How to print: \(Format.allCases.map(\.rawValue).joined(separator: ", ")). (default: table, or nothing with --html or \
            --names)
            """)
    var format: Format?

    @Option(help: "Write the reports to this file, as one page with charts.")
    var html: String?

    @Option(help: "Write the catalogue of names to this file, as JSON (Protocol/names.schema.json).")
    var names: String?

    @Option(help: "How many days to read at the same time. (1 to 256)")
    var jobs = 1

    @Option(help: "Keep what is read of sealed days in this folder, so that they are read once; it may be deleted.")
    var cache: String?

    @Flag(help: "Show no progress.")
    var quiet = false

    func validate() throws {
        guard (1...256).contains(self.jobs) else { throw ValidationError("--jobs must be a number from 1 to 256") }
        guard !self.isSQL || (self.html == nil && self.names == nil && self.format == nil) else {
            throw ValidationError("sql prints a text for DuckDB; --format, --html and --names are for reports")
        }
    }

    func run() throws {
        StopSignals.listen()
        let files = POSIXFileSystem(.data, dataDirectory: self.data)
        var bar = ProgressBar("report", isQuiet: self.quiet)
        let set: ReportSet
        do throws(ReportFailure) {
            var request = try ReportRequest(
                names: try self.reportNames(), self.question.options, now: POSIXClock().wallTime(), files: files)
            request.cache = self.cache
            request.jobCount = self.jobs
            request.isEverything = self.isEverything
            request.wantsNames = self.names != nil
            if let folder = ProcessEnvironment["TMPDIR"] { request.idBudget.folder = folder }
            let reporter = Reporter(dataDirectory: self.data, files: files, request: request)
            if self.isSQL { return print(try reporter.sql(), terminator: "") }
            set = try reporter.run(
                Reporter.Observer(
                    progressed: { bar.show($0, of: $1) }, isStopped: { StopSignals.received != 0 }))
            bar.finish()
        } catch {
            bar.finish()
            Console.printError(error.description)
            throw error.exitCode
        }
        for text in set.leftOut where !self.quiet { Console.printError(text) }
        try self.write(set)
        if let format = self.format ?? (self.html == nil && self.names == nil ? .table : nil) {
            print(Self.text(set, as: format), terminator: "")
        }
        guard set.damagedDays.isEmpty else {
            for day in set.damagedDays { Console.printError("left out: \(day)") }
            throw ExitCode.badInput
        }
    }

    private static func text(_ set: ReportSet, as format: Format) -> String {
        switch format {
        case .table: ReportText.table(set)
        case .csv: ReportText.csv(set)
        case .json: String(decoding: ReportText.json(set), as: UTF8.self) + "\n"
        case .html: String(decoding: self.page(set), as: UTF8.self)
        }
    }

    private static func page(_ set: ReportSet) -> [UInt8] {
        HTMLReport.document(title: "Reports", range: set.range, reports: set.reports)
    }

    /// Writes the files that were asked for.
    private func write(_ set: ReportSet) throws {
        let files = POSIXFileSystem()
        do throws(FileSystemError) {
            if let html { try files.replace(html, with: Self.page(set)) }
            if let names, let document = set.names { try files.replace(names, with: document.json + [0x0A]) }
        } catch {
            Console.printError("\(error)")
            throw ExitCode.files
        }
    }

    /// Whether the reports are printed as SQL.
    private var isSQL: Bool { self.reports.first == "sql" }

    private var words: [String] { self.isSQL ? Array(self.reports.dropFirst()) : self.reports }

    private var isEverything: Bool { self.words == ["all"] || self.words.isEmpty }

    private func reportNames() throws(ReportFailure) -> [ReportName] {
        self.isEverything ? ReportName.allCases : try ReportName.list(self.words.joined(separator: ","))
    }
}

/// What is asked of the reports: of which lines, and each report's own options.
struct ReportQuestion: ParsableArguments {
    @Option(help: "The first day, in the zone. (default: the first that is kept)")
    var from: String?

    @Option(help: "The last day, in the zone. (default: the last that is kept)")
    var to: String?

    @Option(help: "The environment: dev, internal or prod.")
    var env = "prod"

    @Option(help: "The app's bundle. (default: the only one)")
    var app: String?

    @Option(help: "The zone of the days. (default: the archive's, else UTC)")
    var zone: String?

    @Flag(help: "Leave out lines that came after their day's cut-off, 04:00 of the next day.")
    var strictCutOff = false

    @Option(help: "Divide each report by a field: version, os, lang, data.NAME, traits.NAME, new, …")
    var by: String?

    @Option(help: "Count only events like this; may be given several times.")
    var `where`: [String] = []

    @Option(help: "funnel: a step, in order; screen=NAME is a view of that screen.")
    var step: [String] = []

    @Option(help: "funnel: the time from the first step to the last, such as 90s, 10m, 2h or 7d. (default: 1d)")
    var within: String?

    @Flag(help: "funnel: no other step may come between two steps.")
    var strict = false

    @Option(help: "next: the screen.")
    var screen: String?

    @Flag(help: "next: the screens before it instead of those after it.")
    var previous = false

    @Option(help: "paths: the event to which the ways lead.")
    var before: String?

    @Option(help: "breakdown: the event; without it, all events.")
    var event: String?

    @Option(help: "retention: which days after the first. (default: 0..30)")
    var days: String?

    @Option(help: "active: the last so many days instead of calendar months; retention: windows of 24 hours.")
    var rolling: String?

    @Option(help: "active: also count people with at least so many events a month: screen=Feed>=5.")
    var rule: [String] = []

    /// The same as a request has them.
    var options: ReportOptions {
        var options = ReportOptions()
        options.from = self.from
        options.to = self.to
        options.env = self.env
        options.app = self.app
        options.zone = self.zone
        options.strictCutOff = self.strictCutOff
        options.by = self.by
        options.conditions = self.where
        options.steps = self.step
        options.within = self.within
        options.strict = self.strict
        options.screen = self.screen
        options.previous = self.previous
        options.before = self.before
        options.event = self.event
        options.days = self.days
        options.rolling = self.rolling
        options.rules = self.rule
        return options
    }
}

extension ReportFailure {
    fileprivate var exitCode: ExitCode {
        switch self {
        case .disk: .files
        case .zone: .badConfiguration
        case .badOption, .missingOption, .unknownReport: .validationFailure
        case .noArchive, .noDays, .severalApps, .emptyRange, .unknown: .badInput
        case .interrupted: .interrupted
        }
    }
}
