internal import Logging

/// Counts what the programs log: every loss at a source must be said.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class Tally: LogHandler, @unchecked Sendable {
    /// Each message that was logged, with how often.
    private(set) var counts: [String: Int] = [:]
    /// The sum of what was told to be lost.
    private(set) var lostByteCount = 0
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?
    // What was written and deleted between two looks is told at this level alone.
    var logLevel = Logger.Level.debug
    private let trace: ((String) -> Void)?

    init(trace: ((String) -> Void)?) {
        self.trace = trace
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        self.counts["\(event.message)", default: 0] += 1
        if let lost = event.metadata?["lost_bytes"] { self.lostByteCount += Int("\(lost)") ?? 0 }
        if let trace { trace("\(event.level) \(event.message) \(event.metadata ?? [:])") }
    }

    func count(containing text: String) -> Int {
        self.counts.reduce(0) { $0 + ($1.key.contains(text) ? $1.value : 0) }
    }
}
