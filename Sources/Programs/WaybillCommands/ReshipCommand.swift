import ArgumentParser
import WaybillSystem
import WaybillTail

struct ReshipCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reship",
        abstract: "Ship segments again: kept ones, or others under another id.",
        discussion: """
            Examples:
              waybill reship /var/spool/shop
              waybill reship /var/spool/shop/0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042.ndjson

            With `keep`, an agent leaves shipped segments in the spool, with .shipped- in their names, and ships them again
            by itself to a receiver that was emptied or put back from a copy. A folder stands for all that are kept in it,
            and a single one can be named: they are shipped again under their own id, so a receiver that still has them
            stores nothing twice.

            A receiver may hold other bytes under a segment's id. An agent names such segments (waybill_agent_disputed_streams) and leaves them where they are. This command
            renames them within the spool: the new name has the first 16 digits of the content's SHA-256. A running agent
            ships them with its next scan. A crash or a second call stores nothing twice, but lines that a receiver did
            accept under the old id are stored again.
            """)

    @Argument(help: "Spools, for what is kept in them, or segments that no app is writing any more.")
    var files: [String]

    func run() throws {
        var exitCode: ExitCode?
        for path in self.files {
            do throws(Reshipment.Failure) {
                try self.reship(path)
            } catch {
                Console.printError("\(error)")
                exitCode = error.exitCode
            }
        }
        if let exitCode { throw exitCode }
    }

    private func reship(_ path: String) throws(Reshipment.Failure) {
        let files = POSIXFileSystem()
        guard self.isFolder(path, files) else {
            switch try Reshipment.reship(path, on: files) {
            case .renamed(let newPath): print("\(path): is shipped as \(newPath)")
            case .renamedBefore: print("\(path): was renamed before; nothing is changed")
            case .returned(let newPath): print("\(path): is shipped again as \(newPath)")
            }
            return
        }
        var count = 0
        for kept in try Reshipment.keptSegments(in: path, on: files) {
            _ = try Reshipment.reship(kept, on: files)
            count += 1
        }
        print("\(path): \(count) kept segments are shipped again")
    }

    private func isFolder(_ path: String, _ files: POSIXFileSystem) -> Bool {
        do throws(FileSystemError) {
            return try files.status(at: path)?.kind == .directory
        } catch {
            // It is reported when the file is opened.
            return false
        }
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
