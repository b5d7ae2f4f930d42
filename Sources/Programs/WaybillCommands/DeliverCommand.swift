import ArgumentParser
import Logging
import UnixSignals
import WaybillDelivery
import WaybillEvent
import WaybillExport
import WaybillHost
import WaybillJSON
import WaybillSystem

/// `waybill deliver`: sends closed parts of exports to providers over HTTPS.
///
/// The program `waybill-net` runs it, which has the HTTP client.
struct DeliverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deliver",
        abstract: "Send the closed parts of an export to the provider.",
        discussion: """
            Examples:
              waybill deliver --data /var/lib/waybill --provider mixpanel --env prod --credentials /etc/waybill/keys
              waybill deliver --data /var/lib/waybill --provider ga4 --region eu --follow
              waybill deliver --data /var/lib/waybill --provider ga4 --dry-run | less
              waybill deliver --data /var/lib/waybill --provider snowplow --endpoint https://collector.example.com
              waybill deliver --config /etc/waybill/deliver.yaml    all deliveries of a file, until SIGTERM
              waybill deliver --config merge.yaml --take-over m1    in a fleet: the parts of a merger that is gone

            Credentials come from environment variables or from NAME=value lines of a file that only its owner may read,
            one set for each environment, as in WAYBILL_GA4_API_SECRET_PROD:
            \(Self.credentialNames)
            An environment without credentials is left out. Proxies: HTTPS_PROXY, HTTP_PROXY, NO_PROXY.

            Progress is recorded record by record, so the command can be stopped, killed and run again. Records that the
            provider refuses go to dead/delivery-….ndjson next to the part. The last line is a summary as JSON. The exit
            code is 77 if the credentials are refused, 69 if the provider cannot be reached, and 65 if something could not
            be sent for another reason.
            """)

    /// The credentials of each provider, a line each.
    private static var credentialNames: String {
        let providers = DeliverableProvider.allCases
        let width = (providers.map(\.rawValue.utf8.count).max() ?? 0) + 3
        return providers.map { provider in
            let names = provider.facts.credentials.map(\.rawValue).joined(separator: ", ")
            let gap = String(repeating: " ", count: width - provider.rawValue.utf8.count)
            return "  \(provider.rawValue)\(gap)\(names.isEmpty ? "none" : names)"
        }.joined(separator: "\n")
    }

    @Option(help: "A configuration file (YAML) whose section deliver: names every delivery; SIGHUP reloads it.")
    var config: String?

    /// Where all deliveries of a file say how they are doing.
    struct Places: ParsableArguments {
        @Option(help: .key("deliver.metrics"), transform: OptionReader.address)
        var metrics: NetworkAddress?

        @Option(help: .key("deliver.status_socket"))
        var statusSocket: String?
    }

    @OptionGroup var places: Places

    @Option(
        help: """
            With --config, in a fleet: take over the parts that the merger NAME holds and has not finished, and exit. NAME must \
            not run. The delivery of this machine sends them.
            """)
    var takeOver: String?

    @Option(help: "A receiver's data directory.")
    var data: String?

    @Option(help: "Which export: \(DeliverableProvider.allCases.map(\.rawValue).joined(separator: ", ")).")
    var provider: String?

    @Option(help: "Only this environment: dev, internal or prod.")
    var env: DeploymentEnvironment?

    @Option(help: "The provider's data centre: us or eu. (default: us)")
    var region: ProviderRegion?

    @Option(help: "Send to this address instead of the provider's own.")
    var endpoint: String?

    @Option(help: "A file with credentials. (default: environment variables)")
    var credentials: String?

    @Option(
        help: """
            What to do with what would count twice and may or may not have arrived, GA4's events and numbers that are
            added in Mixpanel's profiles: skip (to the dead letters) or resend.
            """)
    var ambiguous: AmbiguityPolicy = .skip

    @Option(help: "The maximum number of events per second. (default: the provider's documented limit)")
    var rate: Double?

    @Option(help: "The timeout of a request, in seconds.")
    var timeout: Double = 30

    @Option(help: "The longest wait between two attempts, in seconds.")
    var backoffMax: Double = 60

    @Option(help: "Without --follow: exit after this many seconds in which nothing could be sent.")
    var patience: Double = 300

    @Flag(help: "Continue with parts that are closed later, until SIGTERM.")
    var follow = false

    @Flag(help: "Also send days that were regenerated after some of their events were sent.")
    var force = false

    @Option(
        help: """
            In a directory that waybill restore made: what is closed now of the days before this one (YYYY-MM-DD) counts as \
            sent, and the days from it on are sent.
            """,
        transform: Self.day)
    var sentBefore: CalendarDay?

    @Flag(help: "Print the requests, without credentials, and send nothing.")
    var dryRun = false

    @Flag(
        name: .customLong("validate"),
        help: "GA4: have the debug endpoint validate what is not sent yet; nothing is recorded there or here.")
    var isValidation = false

    @OptionGroup var log: LogOptions

    func validate() throws {
        if self.config != nil {
            guard self.data == nil, self.provider == nil, !self.dryRun, !self.isValidation, self.sentBefore == nil
            else {
                throw ValidationError("--config takes everything from the file; leave the other options out")
            }
            return
        }
        guard self.takeOver == nil else { throw ValidationError("--take-over requires --config") }
        guard self.places.statusSocket == nil, self.places.metrics == nil else {
            throw ValidationError("--metrics and --status-socket require --config")
        }
        guard self.data != nil, self.provider != nil else {
            throw ValidationError("name the data directory and the export with --data and --provider, or --config FILE")
        }
        let provider = try self.deliverable()
        for (name, value) in [("rate", self.rate ?? 1), ("timeout", self.timeout), ("patience", self.patience)] {
            guard value > 0, value <= 86_400_000 else { throw ValidationError("--\(name) must be a number above 0") }
        }
        guard (0...3600).contains(self.backoffMax) else {
            throw ValidationError("--backoff-max must be 0 to 3600 seconds")
        }
        if self.isValidation, provider.facts.validationPath == nil {
            let others = DeliverableProvider.allCases.filter { $0.facts.validationPath != nil }.map(\.rawValue)
            throw ValidationError("--validate works only with --provider \(others.joined(separator: ", "))")
        }
        if self.isValidation, self.dryRun { throw ValidationError("--validate and --dry-run cannot be combined") }
    }

    private static func day(_ text: String) throws -> CalendarDay {
        guard let day = CalendarDay(text) else { throw ValidationError("--sent-before is a day such as 2026-11-20") }
        return day
    }

    private func deliverable() throws -> DeliverableProvider {
        do {
            return try DeliverableProvider(try Destination(named: self.provider ?? ""))
        } catch {
            throw ValidationError("\(error)")
        }
    }

    func run() async throws {
        let client = try NetworkClient.own.require()
        if let config, let takeOver { return try await Self.takeOver(config, from: takeOver) }
        if let config { return try await self.serve(config, client) }
        var configuration = DeliveryConfiguration(dataDirectory: self.data ?? "", provider: try self.deliverable())
        configuration.env = self.env
        configuration.region = self.region
        configuration.endpoint = self.endpoint
        configuration.ambiguity = self.ambiguous
        configuration.eventsPerSecond = self.rate
        configuration.isForced = self.force
        configuration.sentBefore = self.sentBefore
        configuration.isFollowing = self.follow
        configuration.patience = .seconds(self.patience)
        configuration.backoffLongest = .seconds(self.backoffMax)
        do {
            if self.dryRun {
                let preview = DeliveryPreview(
                    configuration, files: POSIXFileSystem(.data, dataDirectory: configuration.dataDirectory),
                    now: POSIXClock().wallTime())
                let count = try preview.run { print($0, terminator: "") }
                Console.printError("\(count) requests; nothing was sent")
            } else {
                try await self.deliver(configuration, client)
            }
        } catch let error as DeliveryError {
            throw Self.exitCode(for: error)
        }
    }

    private func deliver(_ configuration: DeliveryConfiguration, _ client: NetworkClient) async throws {
        let files = POSIXFileSystem(.data, dataDirectory: configuration.dataDirectory)
        let source: CredentialSource
        let proxy: ProxyAddress?
        do {
            source = try self.credentials.map { try CredentialSource(file: $0, files: files) } ?? CredentialSource()
            proxy = try ProxyAddress.find(for: try configuration.address(), in: { ProcessEnvironment[$0] })
        } catch {
            Console.end(.configurationWrong, "\(error)")
            throw ExitCode.badConfiguration
        }
        let transport = client.connect(.seconds(self.timeout), proxy)
        let logger = Console.logger("deliver", level: self.log.logLevel)
        let isValidation = self.isValidation
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        let work = Task {
            let deliverer = try Deliverer(
                configuration, credentials: source, files: files, clock: POSIXClock(), transport: transport,
                logger: logger)
            return isValidation
                ? try await Self.validate(deliverer) : Self.exitCode(for: try await deliverer.run(), configuration)
        }
        let watch = Task {
            for await _ in signals { work.cancel() }
        }
        let result = await work.result
        watch.cancel()
        try await transport.shutDown()
        let code = try result.get()
        if code != .success { throw code }
    }

    private static func validate(
        _ deliverer: Deliverer<POSIXFileSystem, POSIXClock, ProviderConnection>
    ) async throws(DeliveryError) -> ExitCode {
        let (requestCount, complaintCount) = try await deliverer.validate { print($0, terminator: "") }
        print(
            JSONWriter.text { json in
                json.member("judged", requestCount)
                json.member("complaints", complaintCount)
            })
        return complaintCount == 0 ? .success : .badInput
    }

    /// Prints the result.
    private static func exitCode(for report: DeliveryReport, _ configuration: DeliveryConfiguration) -> ExitCode {
        print(report.json(configuration.provider))
        for env in report.envsWithoutCredentials {
            Console.warn(
                .environmentWithoutCredentials,
                "\(env.rawValue) has no credentials and was left out: set "
                    + configuration.provider.facts.credentials.map { $0.variable(env) }.joined(separator: ", "))
        }
        if !report.remadeDays.isEmpty {
            Console.warn(
                .dayRemade,
                "\(report.remadeDays.count) days were regenerated after some of their events were sent, "
                    + "\(report.remadeDays[0]) first; --force sends them again")
        }
        if !report.doubtfulDays.isEmpty {
            Console.warn(
                .dayInDoubt,
                "\(report.doubtfulDays.count) days may have been sent before this directory was restored, "
                    + "\(report.doubtfulDays[0]) first; --sent-before DAY says which were, --force sends all")
        }
        if !report.damagedParts.isEmpty {
            Console.warn(
                .partDamaged,
                "\(report.damagedParts.count) parts are damaged and were left out, \(report.damagedParts[0]) first; "
                    + "waybill replay regenerates them")
        }
        switch report.outcome {
        case .stopped(let reason):
            let (notice, code): (Notice, ExitCode) =
                switch reason {
                case .credentials: (.credentialsRefused, .noPermission)
                case .endpoint: (.configurationWrong, .badConfiguration)
                case .quota: (.unreachable, .unreachable)
                case .everythingRefused: (.inputWrong, .badInput)
                }
            Console.end(notice, reason.description)
            return code
        case .unreachable(let detail):
            Console.end(.unreachable, "nothing could be sent for too long: \(detail); nothing is lost, run it again")
            return .unreachable
        case .finished, .interrupted:
            let isAll = report.damagedParts.isEmpty && report.remadeDays.isEmpty && report.doubtfulDays.isEmpty
            return isAll ? .success : .badInput
        }
    }

    private static func exitCode(for error: DeliveryError) -> ExitCode {
        let (notice, code): (Notice, ExitCode) =
            switch error {
            case .locked, .erasing: (.inUse, .inUse)
            case .credentials, .endpoint, .missingCredentials, .mergerWithoutClaims:
                (.configurationWrong, .badConfiguration)
            case .noExport: (.inputUnreadable, .noInput)
            case .damagedState, .notRestored: (.inputWrong, .badInput)
            case .disk: (.filesUnusable, .files)
            case .notValidated: (.unreachable, .unreachable)
            }
        Console.end(notice, "\(error)")
        return code
    }
}

extension AmbiguityPolicy: ExpressibleByArgument {}
extension ProviderRegion: ExpressibleByArgument {}
