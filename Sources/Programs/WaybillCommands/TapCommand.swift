import ArgumentParser
import WaybillData
import WaybillLive
import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

struct TapCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tap",
        abstract: "Print events as they arrive, as lines of JSON.",
        discussion: """
            Examples:
              waybill tap --data /var/lib/waybill --receiver http://127.0.0.1:4391
              waybill tap --data ./data 'name:tapped user:u-7 -kind:screen' | jq .event.data
              waybill tap --data ./data --once --limit 1 name:purchase     one that is there, or none
              waybill tap --data ./data --explain refused:ga4              with what each provider makes of it

            The words of the filter are and-ed: name:tapped user:u-7 screen:Cart kind:action env:prod app:shop version:1.4
            data.method:kakao via:segment refused:ga4 reason:no_insert_id -kind:screen "free words". Case does not matter, -
            negates, and * as a value means any. It is the filter of waybill live. A filter that begins with - comes after --.
            "new" lists what an event has for the first time: its name, a property, or a type of a property that had another.
            It ends with --once or --limit, with the reader of its output, and on SIGINT.
            """)

    @OptionGroup var options: LiveOptions

    @Argument(help: "Which events; all without any word.")
    var filter: [String] = []

    @Flag(help: "Print what the journal still has, and end.")
    var once = false

    @Flag(help: "Begin with what the journal still has.")
    var kept = false

    @Option(help: "End after so many events.")
    var limit: Int?

    @Flag(help: "Add what each provider makes of the event: its record, or the reason and the field.")
    var explain = false

    func validate() throws {
        _ = try self.parsedFilter()
        if let limit, limit < 1 { throw ValidationError("--limit must be 1 or more") }
    }

    private func parsedFilter() throws -> Filter {
        do throws(Filter.Failure) {
            return try Filter(self.filter.joined(separator: " "))
        } catch {
            throw ValidationError(error.description)
        }
    }

    func run() throws {
        StopSignals.listen()
        let resolved = try self.options.resolve()
        let filter = try self.parsedFilter()
        do throws(FileSystemError) {
            try self.follow(resolved, filter)
        } catch {
            // The reader of the lines has seen enough.
            guard error.errno != EPIPE else { return }
            Console.printError("\(error)")
            throw ExitCode.files
        }
    }

    private func follow(_ resolved: LiveOptions.Resolved, _ filter: Filter) throws(FileSystemError) {
        let durable = DurableEnd(of: resolved.data, receiver: resolved.receiver)
        var end = try durable.now()
        if let problem = durable.problem { Self.warn(problem) }
        var start = end
        if self.once || self.kept {
            let segments = try JournalTip.segments(of: resolved.data.journal, files: resolved.data.files)
            start = segments?.lowerBound ?? JournalPosition(0)
        }
        var tap = try Tap(
            data: resolved.data, exports: resolved.exports, mask: resolved.mask, filter: filter,
            isExplaining: self.explain, from: start...end)
        var rest = self.limit ?? .max
        let files = POSIXFileSystem()
        while StopSignals.received == 0 {
            while let lines = try tap.next(upTo: end) {
                let wanted = Array(lines.prefix(rest).joined())
                if !wanted.isEmpty { try files.writeAll(FileID(rawValue: STDOUT_FILENO), wanted) }
                rest -= min(rest, lines.count)
                for gap in tap.takeGaps() { Self.warn(gap) }
                if rest == 0 || StopSignals.received != 0 { return }
            }
            for gap in tap.takeGaps() { Self.warn(gap) }
            if self.once { return }
            let hadProblem = durable.problem != nil
            end = max(end, try durable.next(after: end) { StopSignals.received != 0 })
            if let problem = durable.problem, !hadProblem { Self.warn(problem) }
        }
    }

    private static func warn(_ problem: StatusFailure) {
        Console.printError(
            "the receiver does not say how far the journal is durable, so it is read as far as it is "
                + "whole: \(problem)")
    }

    private static func warn(_ gap: JournalDamage) {
        Console.printError("positions \(gap.start) to \(gap.end) of the journal cannot be shown: \(gap.reason)")
    }
}
