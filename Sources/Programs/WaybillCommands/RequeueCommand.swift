import ArgumentParser
import WaybillExport
import WaybillJSON
import WaybillReplay
import WaybillSystem

struct RequeueCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "requeue",
        abstract: "Write quarantined lines into a file for an agent, each once.",
        discussion: """
            Examples:
              waybill requeue --data /var/lib/waybill --output /var/spool/again --reason no-env
              waybill agent --state … --to … --glob '/var/spool/again/requeue-*.ndjson' --env prod --bundle com.example.web

            Originals are kept. Each line is written only once, even after a crash; the receiver may be running. Events
            that a provider refused are in the archive: waybill replay --refused exports them again.
            """)

    @Option(help: "A receiver's data directory.")
    var data: String

    @Option(help: "The directory for the files, requeue-00000.ndjson and so on; created if missing.")
    var output: String

    /// Former options, for as long as 0.1.0 is unreleased.
    @Flag(help: .hidden)
    var quarantine = false

    @Option(help: .hidden)
    var dead: String?

    @Option(help: "Only with this reason; may be given several times.")
    var reason: [String] = []

    @Option(
        name: .customLong("after-version"),
        help: "Take lines that ended the program (poison), too, if all of them ended a version before this one.")
    var afterVersion: String?

    func validate() throws {
        if self.quarantine { throw ValidationError("leave --quarantine out: requeue reads the quarantine alone") }
        if let dead { throw ValidationError("--dead is waybill replay --refused \(dead), which needs no agent") }
        if try self.poison() == .kept, try self.reasons().contains(.poison) {
            throw ValidationError(
                "lines that ended the program may end it again; name the version that reads them with --after-version")
        }
    }

    private func poison() throws -> Requeue<POSIXFileSystem>.Poison {
        guard let version = try OptionReader.laterVersion(self.afterVersion) else { return .kept }
        return .takenAfter(version: version)
    }

    func run() throws {
        let reasons = try self.reasons()
        let poison = try self.poison()
        do throws(Requeue<POSIXFileSystem>.Failure) {
            let files = POSIXFileSystem(.data, dataDirectory: self.data)
            let requeue = Requeue(dataDirectory: self.data, output: self.output, poison: poison, files: files)
            print(try requeue.run(reasons).json)
        } catch {
            Console.printError("\(error)")
            switch error {
            case .disk: throw ExitCode.files
            case .busy: throw ExitCode.inUse
            case .noDataDirectory, .unpublished, .poisonOfVersion: throw ExitCode.badInput
            }
        }
    }

    private func reasons() throws -> Set<QuarantineReason> {
        Set(
            try self.reason.map { name in
                guard let reason = QuarantineReason(rawValue: name) else {
                    let known = QuarantineReason.allCases.map(\.rawValue).joined(separator: ", ")
                    throw ValidationError("unknown reason \"\(name)\"; choose one of: \(known)")
                }
                return reason
            })
    }
}

extension Requeue.Report {
    /// One line of JSON.
    fileprivate var json: String {
        JSONWriter.text { json in
            json.member("lines", self.lineCount)
            json.member("bytes", self.byteCount)
            if self.erasedCount > 0 { json.member("erased", self.erasedCount) }
            json.member("files", array: self.paths) { $0.string($1) }
        }
    }
}
