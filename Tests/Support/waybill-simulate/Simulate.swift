import ArgumentParser
import WaybillSimulation

/// Simulates one seed after the other on one thread; `Tools/simulate` runs one process per core.
@main
struct Simulate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-simulate",
        abstract: "Simulates the shipped code, once for each seed, and stops at the first broken promise."
    )

    @Option(help: "Number of simulated lives.")
    var seeds: UInt64 = 2000

    @Option(help: "The first seed.")
    var from: UInt64 = 0

    @Option(help: "The step from one seed to the next, to split seeds between processes.")
    var step: UInt64 = 1

    @Option(help: "Plant a bug: \(PlantedBug.allCases.map(\.rawValue).joined(separator: ", ")).")
    var bug: String?

    @Flag(help: "Simulate only the receiver's disk: journal and archive.")
    var storage = false

    @Flag(help: "Simulate only what retention deletes of a data directory.")
    var retention = false

    @Flag(help: "Live lives of a fleet: receivers, a bucket and mergers.")
    var fleet = false

    @Flag(help: "Live lives of one receiver with a bucket that loses its disk and is restored.")
    var restore = false

    @Option(
        help: "Troubles with files: all, kept, none, or \(FileTrouble.allCases.map(\.rawValue).joined(separator: ","))."
    )
    var files = "kept"

    @Flag(help: "Print what happens in each life.")
    var trace = false

    @Flag(help: "Continue after a broken promise, and count them.")
    var keepGoing = false

    func run() throws {
        let bugs = try self.bug.map { name -> Set<PlantedBug> in
            guard let bug = PlantedBug(rawValue: name) else { throw ValidationError("unknown bug \(name)") }
            return [bug]
        }
        let files = try self.fileTroubles()
        var lines = 0
        var events = 0
        var seconds = 0
        var broken = 0
        var fingerprint: UInt64 = 0
        for index in 0..<self.seeds {
            let seed = self.from + index * self.step
            let report = self.live(seed, bugs ?? [], files)
            lines += report.lineCount
            events += report.eventCount
            seconds += report.simulatedSeconds
            fingerprint = fingerprint &* 31 &+ report.fingerprint
            if let violation = report.violation {
                broken += 1
                print("seed \(seed): \(violation)")
                let options =
                    (self.storage ? " --storage" : "") + (self.retention ? " --retention" : "")
                    + (self.fleet ? " --fleet" : "") + (self.restore ? " --restore" : "")
                    + (self.bug.map { " --bug \($0)" } ?? "") + (self.files == "kept" ? "" : " --files \(self.files)")
                print("reproduce: Tools/simulate --seeds 1 --from \(seed) --trace\(options)")
                if !self.keepGoing { throw ExitCode(1) }
            }
        }
        print(
            "\(self.seeds) lives from seed \(self.from), step \(self.step): \(broken) broken promises; \(lines) lines, "
                + "\(events) events, \(seconds) simulated seconds, fingerprint \(String(fingerprint, radix: 16))")
        if broken > 0 { throw ExitCode(1) }
    }

    private func fileTroubles() throws -> Set<FileTrouble> {
        switch self.files {
        case "all": return Set(FileTrouble.allCases)
        case "kept": return self.fleet ? FileTrouble.keptInFleets : Set(FileTrouble.allCases)
        case "none": return []
        default:
            return try Set(
                self.files.split(separator: ",").map { name in
                    guard let kind = FileTrouble(rawValue: String(name)) else {
                        throw ValidationError("unknown trouble \(name)")
                    }
                    return kind
                })
        }
    }

    private func live(_ seed: UInt64, _ bugs: Set<PlantedBug>, _ files: Set<FileTrouble>) -> SiteLife.Report {
        if self.storage {
            return StorageLife.report(seed: seed, bugs: bugs, trace: self.trace ? { print($0) } : nil)
        }
        if self.fleet {
            return FleetLife.run(seed: seed, bugs: bugs, files: files, trace: self.trace ? { print($0) } : nil)
        }
        if self.restore {
            var report = SiteLife.Report()
            report.violation = RestoreLife.run(seed: seed, bugs: bugs)
            return report
        }
        if self.retention {
            var report = SiteLife.Report()
            report.violation = RetentionLife.run(seed: seed, bugs: bugs)
            return report
        }
        return SiteLife.run(seed: seed, bugs: bugs, files: files, trace: self.trace ? { print($0) } : nil)
    }
}
