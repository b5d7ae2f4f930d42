import ArgumentParser
import WaybillArchive
import WaybillExport
import WaybillProjection
import WaybillReplay
import WaybillSystem

struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Make a provider's export for a range of days again, from the archive.",
        discussion: """
            Examples:
              waybill replay --data /var/lib/waybill --provider ga4 --from 2026-11-01 --to 2026-11-20
              waybill replay --data /var/lib/waybill --provider csv --zone Asia/Seoul --output /tmp/again

            In place (without --output) the receiver must be stopped; each day is exchanged atomically, and what it
            replaced is kept in exports/.previous-<provider>.
            """)

    @Option(help: "A receiver's data directory.")
    var data: String

    @Option(help: "Which export: \(ProviderID.list).")
    var provider: String

    @Option(help: "A receiver's configuration file, for the export's mapping and options and for custom providers.")
    var config: String?

    @Option(help: "The first day, in the report's zone.")
    var from: CalendarDay?

    @Option(help: "The last day, in the report's zone.")
    var to: CalendarDay?

    @Option(help: "Only this environment: dev, internal or prod.")
    var env: DeploymentEnvironment?

    @Option(help: "The report's zone. (default: the live export's, else UTC)")
    var zone: String?

    @Option(help: "Write to this directory and change nothing in the data directory; the receiver may run.")
    var output: String?

    func validate() throws {
        if self.config == nil { _ = try OptionReader.provider(self.provider) }
        if let from, let to, to < from { throw ValidationError("--to lies before --from") }
    }

    func run() throws {
        let options = try OptionReader.export(self.provider, config: self.config)
        try self.checkMapping(options)
        var request = Replay.Request(provider: options.provider)
        request.options = options
        if self.config != nil { request.zone = options.zone }
        if let zone = try self.zone.map(OptionReader.zone) { request.zone = zone }
        request.from = self.from
        request.to = self.to
        request.environment = self.env
        request.output = self.output
        var bar = ProgressBar("replay \(self.provider)")
        let report: Replay.Report
        do {
            report = try Replayer(dataDirectory: self.data, files: POSIXFileSystem(), request: request).run {
                done, total in
                bar.show(done, of: total)
            }
            bar.finish()
        } catch {
            bar.finish()
            Console.printError("\(error)")
            switch error {
            case .data(.locked), .zone: throw ExitCode.badConfiguration
            case .noArchive, .outputInUse: throw ExitCode.badInput
            case .data(.unusable), .disk: throw ExitCode.files
            }
        }
        print(report.json(provider: self.provider))
        if report.unexplainedByteCount > 0 {
            Console.printError(
                "\(report.unexplainedByteCount) bytes of the archive were left out: their .sources files are damaged")
            throw ExitCode.badInput
        }
    }
}

extension ReplayCommand {
    /// A replay with another mapping than the live export's must be meant.
    private func checkMapping(_ options: ExportOptions) throws {
        let history: ExportHistory
        do throws(FileSystemError) {
            history = try ExportHistory(
                ofExport: self.provider, in: DataDirectory(root: self.data, files: POSIXFileSystem()))
        } catch {
            Console.printError("\(error)")
            throw ExitCode.files
        }
        if self.config == nil, history.hasMapping {
            throw ValidationError(
                "\(self.provider) was written with a mapping; name its configuration file with --config")
        }
        if let conflict = history.conflict(with: options) { throw ValidationError(conflict) }
    }
}

extension Replay.Report {
    /// One line of JSON.
    fileprivate func json(provider: String) -> String {
        "{\"provider\":\"\(provider)\",\"lines\":\(self.lineCount),\"bytes\":\(self.byteCount),"
            + "\"exported\":\(self.counts.exported),\"refused\":\(self.counts.refused),\"held\":\(self.counts.held),"
            + "\"skipped\":\(self.counts.skipped),\"partitions\":\(self.partitions.count)}"
    }
}
