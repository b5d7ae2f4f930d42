import Logging
import Testing
import WaybillHost
import WaybillSystem

/// What every program does with another configuration.
@Suite struct ReloaderTests {
    private struct Settings: ReloadableConfiguration {
        var status = StatusPlaces()
        /// Needs a restart.
        var place = "here"
        var rate = 1

        func taking(_ new: Settings) -> Settings {
            var taken = new
            taken.place = self.place
            return taken
        }

        static func changes(_ started: Settings, _ taken: Settings, _ new: Settings) -> [ConfigurationChange] {
            let place = ConfigurationChange(key: "place", old: started.place, new: new.place, needsRestart: true)
            let rate = ConfigurationChange(key: "rate", old: "\(taken.rate)", new: "\(new.rate)", needsRestart: false)
            return [place, rate].filter { $0.old != $0.new }
        }
    }

    private struct Program: ReloadableService {
        let reloader: Reloader<Settings>

        init(_ started: Settings, _ lines: Lines) {
            let logger = Logger(label: "test") { _ in Lines.Handler(lines: lines) }
            self.reloader = Reloader(
                started, ReloadTelemetry(logger, restartNeeded: .restartNeeded, refused: .reloadRefused))
        }

        func apply(_ new: Settings, _ changes: inout [ConfigurationChange]) throws {
            changes += self.reloader.taken.status.tokenChanges(to: new.status, in: "test")
            guard new.rate > 0 else { throw ConfigurationProblems(["rate: is 0", "rate: must not be"]) }
        }

        func reload(_ new: Settings) {
            self.reload(new) { Settings.changes($0, $1, new) }
        }

        var counts: [Int] { ReloadTelemetry.Outcome.allCases.map { self.reloader.telemetry[$0] } }
    }

    private final class Lines: Sendable {
        private let texts = Lock<[String]>([])

        struct Handler: LogHandler {
            let lines: Lines
            var metadata: Logger.Metadata = [:]
            var logLevel = Logger.Level.trace
            subscript(metadataKey key: String) -> Logger.Metadata.Value? {
                get { self.metadata[key] }
                set { self.metadata[key] = newValue }
            }

            func log(event: LogEvent) {
                let metadata = event.metadata ?? [:]
                let detail = metadata["changes"] ?? metadata["problem"] ?? ""
                let line = "\(event.level) \(metadata["id"] ?? "-") \(event.message): \(detail)"
                self.lines.texts.withLock { $0.append(line) }
            }
        }

        func take() -> [String] {
            self.texts.withLock { texts in
                defer { texts = [] }
                return texts
            }
        }
    }

    @Test func `changes are taken, and what needs a restart stays as it was started`() {
        let lines = Lines()
        let program = Program(Settings(), lines)
        var new = Settings()
        (new.place, new.rate) = ("there", 2)
        program.reload(new)
        #expect(program.reloader.taken.place == "here" && program.reloader.taken.rate == 2)
        #expect(program.reloader.started.rate == 1)
        #expect(
            lines.take() == [
                "notice - configuration reloaded: rate: 1 -> 2",
                "warning WB1101 these changes of the configuration need a restart: place: here -> there",
            ])
        new.place = "here"
        program.reload(new)
        #expect(lines.take() == ["notice - configuration reloaded: nothing changed: none"])
        #expect(program.counts == [1, 1, 0])
    }

    @Test func `a refused configuration changes nothing, and each reason is logged`() {
        let lines = Lines()
        let program = Program(Settings(), lines)
        var new = Settings()
        new.rate = 0
        new.status.token = Secret("0123456789abcdef")
        program.reload(new)
        program.refuseReload(TLSSetupError("TLS: no key"))
        #expect(program.reloader.taken.rate == 1 && program.reloader.statusToken.current == nil)
        #expect(
            lines.take()
                == ["rate: is 0", "rate: must not be", "TLS: no key"].map {
                    "error WB1102 the new configuration is refused, the old one stays: \($0)"
                })
        #expect(program.counts == [0, 0, 2])
    }

    @Test func `another token in the same file is a change, and applies`() {
        let lines = Lines()
        let program = Program(Settings(), lines)
        var new = Settings()
        new.status.token = Secret("0123456789abcdef")
        program.reload(new)
        #expect(program.reloader.statusToken.current == new.status.token)
        #expect(
            lines.take() == ["notice - configuration reloaded: test.status_token_file (token): former -> another one"])
        // The key of a file with another name says so itself.
        new.status.tokenFile = "other"
        #expect(Settings().status.tokenChanges(to: new.status, in: "test").isEmpty)
    }
}
