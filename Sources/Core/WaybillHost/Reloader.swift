package import Logging
package import WaybillSystem

/// A configuration key whose value a reload found changed.
package struct ConfigurationChange: Hashable, Sendable, CustomStringConvertible {
    package let key: String
    package let old: String
    package let new: String
    /// Whether the new value needs a restart.
    package let needsRestart: Bool

    package init(key: String, old: String, new: String, needsRestart: Bool) {
        self.key = key
        self.old = old
        self.new = new
        self.needsRestart = needsRestart
    }

    /// Another token in a file whose name stays, which no key shows.
    ///
    /// - Parameter key: the file's.
    package static func token(in key: String) -> ConfigurationChange {
        ConfigurationChange(key: "\(key) (token)", old: "former", new: "another one", needsRestart: false)
    }

    package var description: String { "\(self.key): \(self.old) -> \(self.new)" }
}

extension StatusPlaces {
    /// What a reload changes that no key shows.
    ///
    /// - Parameter section: of the configuration file.
    package func tokenChanges(to new: StatusPlaces, in section: String) -> [ConfigurationChange] {
        guard new.tokenFile == self.tokenFile, new.token != self.token else { return [] }
        return [.token(in: "\(section).status_token_file")]
    }
}

/// Logs and counts how a program's configuration is reloaded.
package final class ReloadTelemetry: Sendable {
    package enum Outcome: String, Hashable, Sendable, CaseIterable {
        case taken
        /// Some changes need a restart.
        case partial
        case refused
    }

    private let counts = Lock<[Outcome: Int]>([:])
    private let logger: Logger
    private let notices: (restartNeeded: Notice, refused: Notice)
    private let unchanged: Logger.Message

    /// - Parameter unchanged: the message when the configuration is as it was.
    package init(
        _ logger: Logger, restartNeeded: Notice, refused: Notice,
        unchanged: Logger.Message = "configuration reloaded: nothing changed"
    ) {
        self.logger = logger
        self.notices = (restartNeeded, refused)
        self.unchanged = unchanged
    }

    package subscript(outcome: Outcome) -> Int { self.counts.withLock { $0[outcome] ?? 0 } }

    /// - Parameter metric: an agent has one of its own.
    package func add(to page: inout MetricsPage, as metric: Metric = .reloads) {
        page.add(metric, by: Outcome.self) { self[$0] }
    }

    package func taken(_ changes: [ConfigurationChange]) {
        let applied = changes.filter { !$0.needsRestart }.map(\.description)
        let waiting = changes.filter(\.needsRestart).map(\.description)
        self.counts.withLock { $0[waiting.isEmpty ? .taken : .partial, default: 0] += 1 }
        self.logger.notice(
            changes.isEmpty ? self.unchanged : "configuration reloaded",
            metadata: ["changes": "\(applied.isEmpty ? "none" : applied.joined(separator: "; "))"])
        guard !waiting.isEmpty else { return }
        self.logger.warning(
            self.notices.restartNeeded, "these changes of the configuration need a restart",
            metadata: ["changes": "\(waiting.joined(separator: "; "))"])
    }

    package func refused(_ problems: [String]) {
        self.counts.withLock { $0[.refused, default: 0] += 1 }
        for problem in problems {
            self.logger.error(
                self.notices.refused, "the new configuration is refused, the old one stays",
                metadata: ["problem": "\(problem)"])
        }
    }
}

/// The configuration of a running program.
package final class Reloader<Configuration: ReloadableConfiguration>: Sendable {
    package let started: Configuration
    package let statusToken: StatusToken
    package let telemetry: ReloadTelemetry
    private let latest: Lock<Configuration>

    package init(_ started: Configuration, _ telemetry: ReloadTelemetry) {
        self.started = started
        self.latest = Lock(started)
        self.statusToken = StatusToken(started.status.token)
        self.telemetry = telemetry
    }

    /// What was taken last.
    package var taken: Configuration {
        get { self.latest.withLock { $0 } }
        set { self.latest.withLock { $0 = newValue } }
    }
}

/// Why a program cannot take a configuration.
package struct ConfigurationProblems: Error, CustomStringConvertible {
    package let problems: [String]

    package init(_ problems: [String]) {
        self.problems = problems
    }

    package var description: String { self.problems.joined(separator: "; ") }
}

/// A program that takes another configuration while it runs, in one place for all of them.
///
///     SIGHUP ─▶ file and options are read ─▶ keys are compared ─▶ apply ─▶ status token, taken, log, counts
///                   │ problems                                     │ refusal
///                   └──────────────────────────────────────────────┴─▶ log, counts; everything stays
package protocol ReloadableService: Sendable {
    associatedtype Configuration: ReloadableConfiguration
    var reloader: Reloader<Configuration> { get }
    /// Applies what can change while the program runs; all or nothing.
    ///
    /// - Parameters:
    ///   - new: what will be in force.
    ///   - changes: of the keys; takes those that no key shows.
    func apply(_ new: Configuration, _ changes: inout [ConfigurationChange]) throws
    /// Called after a configuration was taken, and the log says so.
    func reloaded()
}

extension ReloadableService {
    package func reloaded() {}

    /// Takes a configuration, or refuses it; says which in the log.
    ///
    /// - Parameter changes: compares the new configuration with the one at the start and the one taken last.
    package func reload(
        _ configuration: Configuration,
        changes: (_ started: Configuration, _ taken: Configuration) -> [ConfigurationChange]
    ) {
        let taken = self.reloader.taken
        let new = taken.taking(configuration)
        var changes = changes(self.reloader.started, taken)
        do {
            try self.apply(new, &changes)
        } catch {
            return self.refuseReload(error)
        }
        self.reloader.statusToken.current = new.status.token
        self.reloader.taken = new
        self.reloader.telemetry.taken(changes)
        self.reloaded()
    }

    package func refuseReload(_ error: any Error) {
        self.refuseReload((error as? ConfigurationProblems)?.problems ?? ["\(error)"])
    }

    /// Counts a configuration that cannot be used, and logs why.
    package func refuseReload(_ problems: [String]) {
        self.reloader.telemetry.refused(problems)
    }
}
