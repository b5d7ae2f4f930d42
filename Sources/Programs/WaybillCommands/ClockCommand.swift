import ArgumentParser
import WaybillData
import WaybillJSON
import WaybillReceiver
import WaybillSystem

struct ClockCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clock",
        abstract: "Show whether a receiver can trust this host's clock, or accept the clock.",
        discussion: """
            Examples:
              waybill clock --data /var/lib/waybill
              waybill clock --data /var/lib/waybill --accept

            A receiver does not trust a clock that shows a time before the last one in its journal, or before the date of
            the program: sealing, retention and the exports' rules about the age of events then wait. Set the clock. If it
            is right, because it was ahead before, run this with --accept on the receiver's host. A running receiver
            notices it within seconds, another one when it starts.
            """)

    @Option(help: "A receiver's data directory.")
    var data: String?

    @Option(help: "The receiver's configuration file, instead of --data.")
    var config: String?

    @Flag(help: "Accept the time that the clock shows now.")
    var accept = false

    func run() throws {
        let configured = try self.config.flatMap { try ConfigurationFile.load($0).host }
        guard let root = self.data ?? configured?.dataDirectory else {
            throw ValidationError("name the data directory with --data DIR, or in the configuration file")
        }
        let data = DataDirectory(root: root, files: POSIXFileSystem())
        do {
            guard try data.files.status(at: data.state)?.kind == .directory else {
                Console.printError("\(root) is not the data directory of a receiver: it has no folder named state")
                throw ExitCode.noInput
            }
            print(try self.judge(POSIXClock().wallTime(), in: data))
        } catch let error as FileSystemError {
            Console.printError("the clock cannot be compared with \(root): \(error)")
            throw ExitCode.files
        }
    }

    /// Compares a time with the journal and the program, and accepts it if that is asked and needed.
    ///
    /// - Returns: one line of JSON.
    private func judge(
        _ now: WallTime, in data: DataDirectory<POSIXFileSystem>
    ) throws(FileSystemError) -> String {
        let journal = try JournalTime.last(in: data.journal, files: data.files)
        let isTrusted = ClockTrust.isBelievable(now, max(journal ?? .unknown, Self.programDate))
        if self.accept, !isTrusted { try ClockAcceptance(in: data).write(now) }
        let state = isTrusted ? "trusted" : self.accept ? "accepted" : "doubted"
        return JSONWriter.text { json in
            json.member("clock", now.text)
            json.member("journal", journal?.text)
            json.member("program", packageDate)
            json.member("state", state)
        }
    }

    /// The start of ``packageDate`` in UTC.
    static var programDate: WallTime {
        guard let day = CalendarDay(packageDate) else { preconditionFailure("\(packageDate) is a day") }
        return WallTime(milliseconds: Int64(day.daysSince1970) * 86_400_000)
    }
}
