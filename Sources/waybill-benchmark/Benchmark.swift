import ArgumentParser
import WaybillSystem

/// Times the hot paths one by one, each with nothing around it, and counts what they allocate.
///
///     sample lines ─▶ deflate ─▶ checksum ─▶ inflate ─▶ judge ─▶ parse ─▶ parse and write (each exporter)
///     header ⇄ bytes · batch ─▶ journal, synced or not · track()
///
/// Prints one JSON object for each. With `--check` it measures a moment only, and fails when a path allocates more than
/// it may: what is asked of memory is the same on every machine, what time it takes is not.
@main
struct Benchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-benchmark", abstract: "Times the hot paths one by one and counts their allocations.")

    @Option(help: "Seconds of processor time for each.")
    var seconds = 1.0

    @Option(help: "Where the journal and the spool are written; a real disk.")
    var directory = "/tmp"

    @Option(help: "Only the paths whose names begin with this.")
    var only = ""

    @Flag(help: "Measure briefly and fail when a path allocates more than it may.")
    var check = false

    func run() throws {
        // Yesterday: within what every provider takes.
        let start = WallTime(milliseconds: POSIXClock().wallTime().milliseconds - 86_400_000)
        let sample = Sample(byteCount: 256 << 10, from: start)
        var bench = Bench(seconds: self.check ? 0.01 : self.seconds, only: self.only, mustHold: self.check)
        let directory = Path.join(
            self.directory, "waybill-benchmark-\(Hexadecimal.text(SystemRandom.seed(), digitCount: 16))")
        let files = POSIXFileSystem()
        try files.createDirectories(directory)
        defer { try? files.removeTree(directory) }
        sample.lines.withUnsafeBytes { lines in
            Self.codec(lines, &bench)
            Self.json(lines, sample.lineCount, &bench)
            Self.exporters(lines, sample.lineCount, &bench)
        }
        Self.frames(&bench)
        try Self.journal(sample, Path.join(directory, "journal"), &bench)
        try Self.track(Path.join(directory, "spool"), &bench)
        if bench.isBroken { throw ExitCode.failure }
    }
}
