#if canImport(os)
    internal import Waybill
    internal import WaybillSystem
    internal import os

    /// Passes events to the unified log: the subsystem is the app's bundle, the category the event's kind.
    struct SystemLogSender: ~Copyable {
        private let privacy: SystemLogObserver.Privacy
        private(set) var counters = SystemLogCounters()

        init(_ privacy: SystemLogObserver.Privacy) {
            self.privacy = privacy
        }

        mutating func send(_ event: EventView, at now: MonotonicTime) {
            let logger = Logger(subsystem: event[member: "bundle"] ?? "waybill", category: event.kind.rawValue)
            let name = event.name
            let sequence = event.sequence
            let screen = event[member: "screen"] ?? "-"
            let level = Self.level(of: Severity(of: event))
            switch self.privacy.kind {
            case .namesOnly:
                logger.log(
                    level: level,
                    "\(name, privacy: .public) #\(sequence, privacy: .public) on \(screen, privacy: .public)")
            case .fields:
                let user = event[member: "user"] ?? "-"
                let fields = event.contents.map { "\($0.name)=\($0.value.json)" }.joined(separator: " ")
                logger.log(
                    level: level,
                    """
                    \(name, privacy: .public) #\(sequence, privacy: .public) on \(screen, privacy: .public) \
                    user \(user, privacy: .private) \(fields, privacy: .private)
                    """)
            }
            self.counters.sent += 1
        }

        /// `.info` is kept only in memory; notices and warnings use `.default`.
        private static func level(of severity: Severity) -> OSLogType {
            switch severity {
            case .critical: .fault
            case .error: .error
            case .warning, .notice: .default
            case .informational: .info
            case .debug: .debug
            }
        }
    }
#endif
