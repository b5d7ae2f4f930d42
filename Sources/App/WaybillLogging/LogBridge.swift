public import Logging
public import Waybill
internal import WaybillSystem

/// Turns log calls into events: a client, the options, and counters.
///
///     let bridge = LogBridge(waybill)
///     LoggingSystem.bootstrap { label in WaybillLogHandler(label: label, bridge: bridge) }
///
/// One bridge serves all loggers of a client. Messages are stored unchanged, up to 4096 bytes: put private values into
/// metadata.
///
/// Observers of single event types do not see these events. An observer of all events may log: its log calls do not
/// become events, because each would cause the next. This applies to calls on the observer's thread. An observer that
/// logs on other threads must itself ignore the events with this name.
public final class LogBridge: Sendable {
    /// Which log calls become events, and how.
    public struct Options: Sendable {
        /// The name of the events; exports derive the severity of events named "log" from their level.
        public var name = "log"
        /// The minimum level: calls below it never become events, regardless of a logger's own level.
        public var minimumLevel = Logger.Level.info
        /// The rules for private metadata.
        public var privacy = MetadataPrivacyRules.marked
        /// Whether events include the code location of the call: `source`, `file`, `function`, `line`.
        public var includesLocation = false

        /// Creates the default options: events named "log", from `info` on, values marked as private hidden, no
        /// locations.
        public init() {}
    }

    let waybill: WaybillClient
    let options: Options
    private let counts = Lock(Counters())

    /// Creates a bridge to a client.
    public init(_ waybill: WaybillClient, _ options: Options = Options()) {
        self.waybill = waybill
        self.options = options
    }

    /// Counters of losses in log calls; drops of whole events are in the client's `counters`.
    public struct Counters: Hashable, Sendable {
        /// Calls made by an observer while it handled an event: their events would return to it.
        public internal(set) var fromObservers: UInt64 = 0
        /// Calls made by values of another log call, or by its metadata provider.
        public internal(set) var reentrant: UInt64 = 0
        /// Texts truncated to their limit.
        public internal(set) var cutTexts: UInt64 = 0
        /// Metadata values left out: too many bytes in total, nested too deep, or with too long a name.
        public internal(set) var leftOutFields: UInt64 = 0

        init() {}
    }

    /// The losses so far.
    public var counters: Counters {
        self.counts.withLock { $0 }
    }

    /// The name of the client's observer threads.
    private static let observerThreadName = "waybill-observe"

    func record(_ event: LogEvent, by handler: borrowing WaybillLogHandler) {
        guard event.level >= self.options.minimumLevel else { return }
        guard !Worker.isCurrent(named: Self.observerThreadName) else {
            return self.counts.withLock { $0.fromObservers += 1 }
        }
        let losses = ThreadMark.once {
            var losses = LogFields.Losses()
            self.waybill.track(self.options.name) { fields in
                losses = self.put(event, of: handler, into: &fields)
            }
            return losses
        }
        guard let losses else { return self.counts.withLock { $0.reentrant += 1 } }
        guard losses != LogFields.Losses() else { return }
        self.counts.withLock { counts in
            counts.cutTexts += losses.cutTexts
            counts.leftOutFields += losses.leftOutFields
        }
    }

    private func put(
        _ event: LogEvent, of handler: borrowing WaybillLogHandler, into fields: inout Fields
    ) -> LogFields.Losses {
        var log = LogFields(privacy: self.options.privacy)
        log.put("level", event.level.rawValue, into: &fields)
        log.put("message", event.message.description, byteCountMax: LogLimits.messageByteCountMax, into: &fields)
        log.put("logger", handler.label, into: &fields)
        if self.options.includesLocation {
            log.put("source", event.source, into: &fields)
            log.put("file", event.file, into: &fields)
            log.put("function", event.function, into: &fields)
            fields.put("line", UInt64(event.line))
        }
        log.put(handler.metadata(of: event), into: &fields)
        if log.losses.cutTexts > 0 { fields.put("log.cut", log.losses.cutTexts) }
        if log.losses.leftOutFields > 0 { fields.put("log.left_out", log.losses.leftOutFields) }
        return log.losses
    }
}
