import ArgumentParser
import WaybillData
import WaybillFleet
import WaybillHost
import WaybillJSON
import WaybillProtocol
import WaybillReceiver
import WaybillSystem

/// `waybill restore`: a receiver's data directory from its journal in the bucket.
struct RestoreCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Build a receiver's data directory again from its journal in the bucket.",
        discussion: """
            Examples:
              waybill restore --config /etc/waybill/receiver.yaml
              waybill restore --store s3://example-events/waybill --receiver collector-1 --data /var/lib/waybill

            The directory must be empty. A restore that was killed is continued by the same command. Then start the receiver
            with the same name: it makes archive and exports again from the journal, and its agents ship what the bucket
            lacks.

            Exit code 65: pieces are damaged or missing. They are named, and everything else is restored.
            """)

    @OptionGroup var bucket: BucketOptions

    @Option(help: "The receiver's name. (default: the configuration file's)")
    var receiver: String?

    @Option(help: "The data directory to build. (default: the configuration file's)")
    var data: String?

    @Option(
        help: """
            The chain to restore with those that it continues; twice and more: exactly these, oldest first. \
            (default: the newest)
            """)
    var chain: [String] = []

    @Flag(help: "Print one line of JSON.")
    var json = false

    func run() throws {
        try NetworkClient.own.require()
        let setup = try self.setup()
        let attached = try AttachedBucket(try self.bucket.location())
        defer { attached.open.close() }
        let files = POSIXFileSystem(.data, dataDirectory: setup.data)
        var options = Restorer<POSIXFileSystem>.Setup(
            receiver: setup.receiver, fleet: attached.fleet, dataDirectory: setup.data)
        options.chains = setup.chains
        options.processID = ProcessID.current
        let pace = ProgressInterval()
        var restorer = Restorer(options, store: attached.open.store, files: files) { position, end in
            pace.show(position.rawValue, of: end.rawValue)
        }
        let report: RestoreReport
        do throws(RestoreFailure) {
            report = try restorer.run()
        } catch {
            throw Self.ending(error)
        }
        self.json ? self.printJSON(report) : self.printText(report, setup.data)
        self.warn(report)
        if !report.troubles.isEmpty { throw ExitCode.badInput }
    }

    private struct Names {
        let receiver: String
        let data: String
        let chains: [ChainName]
    }

    private func setup() throws -> Names {
        let file = try self.bucket.config.map { try ConfigurationFile.load($0) }
        guard let data = self.data ?? file?.receiver?.dataDirectory, !data.isEmpty else {
            throw ValidationError("name the data directory with --data DIR, or in the configuration file")
        }
        let chains = try self.chain.map { text in
            guard let chain = ChainName(text) else {
                throw ValidationError("--chain is a name that waybill store ls shows: collector-1~9f3c0a517be24d86")
            }
            return chain
        }
        guard let receiver = self.receiver ?? chains.first?.receiver ?? file?.receiver?.name else {
            throw ValidationError("name the receiver with --receiver NAME, or in the configuration file")
        }
        guard ChainName.isReceiver(receiver), chains.allSatisfy({ $0.receiver == receiver }) else {
            throw ValidationError("--receiver is the name before the ~ of its chains, which waybill store ls shows")
        }
        return Names(receiver: receiver, data: data, chains: chains)
    }

    private static func ending(_ failure: RestoreFailure) -> ExitCode {
        if case .store(let error) = failure { return NetworkClient.ending(error) }
        let (notice, code): (Notice, ExitCode) =
            switch failure {
            case .store: (.unreachable, .unreachable)
            case .disk, .noSpace, .notEmpty: (.filesUnusable, .files)
            case .locked: (.inUse, .inUse)
            case .noJournal: (.inputUnreadable, .noInput)
            case .unknownChain, .ambiguous, .notContinuous, .otherRestore: (.inputWrong, .badInput)
            }
        Console.end(notice, "\(failure)")
        return code
    }

    // MARK: What was done

    private func printText(_ report: RestoreReport, _ data: String) {
        print(
            "\(data): \(report.receiver) is restored\(report.isResumed ? " (continued)" : ""): \(report.pieceCount) pieces, "
                + "\(report.lineCount) lines, the journal from position \(report.start) to \(report.end)")
        for link in report.links { print("  chain     \(link.chain) from position \(link.start)") }
        if let first = report.firstTime, let last = report.lastTime {
            print("  received  \(first.text) to \(last.text)")
        }
        if report.isComplete {
            print("  archive   complete: the bucket has the journal from its beginning")
        } else {
            let time = report.firstTime.map { "what was received since \($0.text)" } ?? "what the bucket still has"
            print("  archive   only \(time); the journal before position \(report.start) is not in the bucket")
        }
        if let through = report.sentThrough {
            print("  deliver   days up to \(through) may have been sent; see waybill deliver --sent-before")
        }
        print("start it with: waybill receiver, the same name and this directory")
    }

    private func printJSON(_ report: RestoreReport) {
        print(
            JSONWriter.line { json in
                json.member("receiver", report.receiver)
                json.member("continued", report.isResumed)
                json.member("pieces", report.pieceCount)
                json.member("lines", report.lineCount)
                json.member("start", report.start.rawValue)
                json.member("end", report.end.rawValue)
                json.member("complete", report.isComplete)
                json.member("first_received", report.firstTime?.text)
                json.member("last_received", report.lastTime?.text)
                json.member("sent_through", report.sentThrough?.description)
                json.member("chains", objects: report.links) { json, link in
                    json.member("chain", link.chain.description)
                    json.member("start", link.start.rawValue)
                }
                json.member("troubles", objects: report.troubles) { json, trouble in
                    json.member("kind", trouble.kind.rawValue)
                    json.member("chain", trouble.chain.description)
                    json.member("position", trouble.range.lowerBound.rawValue)
                    json.member("bytes", trouble.byteCount)
                }
                json.member("others", objects: report.tails) { json, tail in
                    json.member("chain", tail.chain.description)
                    json.member("position", tail.start.rawValue)
                    json.member("bytes", tail.byteCount)
                    json.member("lines", tail.lineCount)
                    json.member("counted", tail.isCounted)
                }
            })
    }

    private func warn(_ report: RestoreReport) {
        for trouble in report.troubles {
            let what =
                switch trouble.kind {
                case .missing: "is missing"
                case .damaged: "is damaged"
                case .unusable: "is not a piece that can be placed"
                }
            Console.warn(
                .restoreLacks,
                "\(trouble.chain), position \(trouble.range.lowerBound), \(trouble.byteCount) bytes: this range \(what)"
            )
        }
        for tail in report.tails {
            let lines = "\(tail.isCounted ? "" : "more than ")\(tail.lineCount) lines"
            Console.warn(
                .restoreLeavesOut,
                "\(tail.chain) has \(tail.byteCount) bytes and \(lines) from position \(tail.start) on that are not "
                    + "in what was restored; waybill merge joins all chains, and waybill restore --chain "
                    + "\(tail.chain) restores that one")
        }
    }
}

/// A line for a person once in ten seconds.
private final class ProgressInterval: Sendable {
    private let last: Lock<MonotonicTime>
    private static var pause: Duration { .seconds(10) }

    init() { self.last = Lock(POSIXClock().monotonicTime()) }

    func show(_ position: Int, of end: Int) {
        let now = POSIXClock().monotonicTime()
        let isDue = self.last.withLock { last in
            guard now - last >= Self.pause else { return false }
            last = now
            return true
        }
        if isDue { Console.printError("restored up to position \(position) of \(end)") }
    }
}
