import ArgumentParser
import WaybillSystem

/// Measures each hot path in isolation, and counts its allocations.
///
///     sample lines ─▶ deflate ─▶ checksum ─▶ inflate ─▶ judge ─▶ parse ─▶ parse and write (each exporter)
///     header ⇄ bytes · batch ─▶ journal, synced or not · track()
///
/// Prints one JSON object for each path. With `--check` it measures only briefly, and fails if a path exceeds its
/// allocation budget: unlike time, the number of allocations is the same on every machine.
@main
struct Benchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "waybill-benchmark", abstract: "Measures each hot path and counts its allocations.")

    @Option(help: "Seconds of processor time for each path.")
    var seconds = 1.0

    @Option(help: "Directory for the journal and the spool, on a real disk.")
    var directory = "/tmp"

    @Option(help: "Measure only paths whose names begin with this.")
    var only = ""

    @Flag(help: "Measure briefly, and fail if a path exceeds its allocation budget.")
    var check = false

    func run() throws {
        // Yesterday, which every provider accepts.
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
