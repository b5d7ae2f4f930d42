import ArgumentParser
import WaybillConsole
import WaybillSystem
import WaybillTail

struct ReshipCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reship",
        abstract: "Ship segments under another id, because a receiver holds other bytes under theirs.",
        discussion: """
            Example:
              waybill reship /var/spool/shop/0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042.ndjson

            An agent names such segments (waybill_agent_disputed_streams) and leaves them where they are. This command
            renames them within the spool: the new name has the first 16 digits of the content's SHA-256. A running agent
            ships them with its next scan. A crash or a second call stores nothing twice, but lines that a receiver did
            accept under the old id are stored again.
            """)

    @Argument(help: "Segments of a spool that no app is writing any more.")
    var files: [String]

    func run() throws {
        var exitCode: ExitCode?
        for path in self.files {
            do throws(Reshipment.Failure) {
                switch try Reshipment.reship(path, on: POSIXFileSystem()) {
                case .renamed(let newPath): print("\(path): is shipped as \(newPath)")
                case .renamedBefore: print("\(path): was renamed before; nothing is changed")
                }
            } catch {
                Console.printError("\(error)")
                exitCode = error.exitCode
            }
        }
        if let exitCode { throw exitCode }
    }
}

extension Reshipment.Failure {
    fileprivate var exitCode: ExitCode {
        switch self {
        case .notSegment, .taken: .badInput
        case .missing: .noInput
        case .beingWritten: .interrupted
        case .system: .files
        }
    }
}
