import ArgumentParser
import WaybillData
import WaybillExport
import WaybillJSON
import WaybillProjection
import WaybillReceiver
import WaybillReplay
import WaybillSystem

struct SealCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "seal",
        abstract: "Seal the past days in a stopped receiver's data directory.",
        discussion: """
            Examples:
              waybill seal --data /var/lib/waybill
              waybill seal --data /var/lib/waybill --all

            A running receiver seals by itself. This command seals at once each day of the archive and the exports whose
            cut-off has passed by the wall clock, and prints one line of JSON for each. It may be killed and run again.
            """)

    @Option(help: "A receiver's data directory.")
    var data: String?

    @Option(
        help: """
            The receiver's configuration file, for its cut-offs and exports. (default: \
            \(ConfigurationTable.facts("receiver.archive.cut_off")?.fallback ?? "") for all)
            """)
    var config: String?

    @Flag(help: "Also seal days that are not over; events that arrive for them later go into late parts.")
    var all = false

    func run() throws {
        let configuration = try self.config.map { try ConfigurationFile.load($0).host }
        guard let data = self.data ?? configuration??.dataDirectory else {
            throw ValidationError("name the data directory with --data DIR, or in the configuration file")
        }
        let sealer = Sealer(
            dataDirectory: data, files: POSIXFileSystem(.data, dataDirectory: data), scope: self.all ? .all : .overDays,
            cutOffSecond: configuration??.archiveCutOffSecond ?? CutOff.usualSecondOfDay,
            exports: configuration??.exports ?? [])
        do throws(Replay.Failure) {
            try sealer.run(now: POSIXClock().wallTime()) { projection, day in
                print(
                    JSONWriter.text { json in
                        json.member("projection", projection)
                        json.member("day", day.path)
                        json.member("revision", day.revision)
                        json.member("lines", day.lineCount)
                        json.member("bytes", day.byteCount)
                    })
            } noticed: {
                Console.printError($0)
            }
        } catch {
            Console.printError("\(error)")
            throw error.exitCode
        }
    }
}
