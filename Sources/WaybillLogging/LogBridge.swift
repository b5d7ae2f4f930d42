public import Logging
internal import Synchronization
public import Waybill
internal import WaybillSystem

/// Where log calls become events: a client, the rules for it, and the counts.
///
///     let bridge = LogBridge(waybill)
///     LoggingSystem.bootstrap { label in WaybillLogHandler(label: label, bridge: bridge) }
///
/// One for all loggers of a client is enough. Messages are stored as they are, up to 4096 bytes: what is private
/// belongs into metadata.
///
/// Observers of single event types do not see these events. An observer of all events may log: its calls become no
/// events, or each would bring the next. That holds for calls on the thread that shows it events; an observer that
/// hands its work to other threads, and logs there, must leave out the events of this name itself.
public final class LogBridge: Sendable {
    /// What becomes an event, and how.
    public struct Options: Sendable {
        /// The events' name; the exports take the urgency of events named "log" from their level.
        public var name = "log"
        /// Calls below become no events, whatever a logger's own level says.
        public var minimumLevel = Logger.Level.info
        /// Which metadata is private.
        public var privacy = MetadataPrivacyRules.marked
        /// Whether events say where in the code the call stands: `source`, `file`, `function`, `line`.
        public var includesLocation = false

        /// Events named "log", from `info` on, with private what is marked so, without locations.
        public init() {}
    }

    let waybill: WaybillClient
    let options: Options
    private let counts = Mutex(Counters())

    /// Log calls become events of this client.
    public init(_ waybill: WaybillClient, _ options: Options = Options()) {
        self.waybill = waybill
        self.options = options
    }

    /// What log calls lost on their way; drops of whole events are among the client's `counters`.
    public struct Counters: Hashable, Sendable {
        /// Calls that an observer made while it saw an event: their events would come back to it.
        public internal(set) var fromObservers: UInt64 = 0
        /// Calls made by the values of another log call, or by its metadata provider.
        public internal(set) var reentrant: UInt64 = 0
        /// Texts that were cut to their limit.
        public internal(set) var cutTexts: UInt64 = 0
        /// Metadata values left out: too many bytes in all, too deep, or too long a name.
        public internal(set) var leftOutFields: UInt64 = 0

        init() {}
    }

    /// What log calls lost so far.
    public var counters: Counters {
        self.counts.withLock { $0 }
    }

    /// The name that the client gives the threads of its observers.
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
