import ArgumentParser
import WaybillExport
import WaybillJSON
import WaybillSystem

struct DemoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo",
        abstract: "Run the whole pipeline on this machine, kill processes meanwhile, and print a ledger.",
        discussion: """
            Starts a receiver, an agent and several apps as separate processes, kills the receiver and the agent while
            events flow, and then compares what the apps tracked with what is in the archive, line by line.

            Example:
              waybill demo --directory ./waybill-demo
            """)

    @Option(help: "Where to work; must be new or empty.")
    var directory: String = "./waybill-demo"

    @Option(help: "How many apps run at the same time.")
    var apps: Int = 3

    @Option(help: "How many events each app tracks.")
    var events: Int = 20_000

    @Option(help: "How often to kill the receiver and the agent (SIGKILL), each.")
    var kills: Int = 3

    func run() throws {
        let files = POSIXFileSystem()
        do throws(FileSystemError) {
            try files.createDirectories(self.directory)
            guard try files.list(self.directory).isEmpty else {
                throw FileSystemError("demo", path: self.directory, errno: Errno.notEmpty)
            }
            let demo = Demo(root: self.directory, appCount: self.apps, eventCount: self.events, killCount: self.kills)
            let ledger = try demo.run()
            print(ledger.text(directory: self.directory))
            guard ledger.isClean else { throw FileSystemError("ledger", path: self.directory, errno: 0) }
        } catch {
            if error.operation != "ledger" { Console.printError("\(error)") }
            throw error.operation == "ledger" ? ExitCode.failure : ExitCode.files
        }
    }
}

/// Counts of what went in and what came out.
struct DemoLedger {
    var tracked = 0
    var archived = 0
    var lost = 0
    var duplicates = 0
    var aliens = 0
    var foreign = 0
    var quarantined = 0
    var records: [(provider: String, count: Int)] = []

    var isClean: Bool {
        self.lost == 0 && self.duplicates == 0 && self.aliens == 0
    }

    func text(directory: String) -> String {
        func row(_ name: String, _ value: Int) -> String {
            let digits = String(value)
            return name + String(repeating: " ", count: max(1, 34 - name.count - digits.count)) + digits
        }
        var lines = [
            "Ledger", row("  events tracked", self.tracked), row("  of them archived", self.archived),
            row("  lost", self.lost), row("  twice", self.duplicates), row("  unexpected", self.aliens),
            row("  foreign lines archived", self.foreign), row("  quarantined", self.quarantined),
        ]
        lines += self.records.map { row("  records for \($0.provider)", $0.count) }
        lines += [
            "Files", "  daily files   \(directory)/data/archive", "  exports       \(directory)/data/exports",
            "  quarantine    \(directory)/data/quarantine", "  logs          \(directory)/logs",
        ]
        return lines.joined(separator: "\n")
    }
}
