/// An observer that writes to the system's log: `os.Logger` on Apple platforms, journald or syslog on Linux.
///
/// Constraints: one system call per event, which never waits; no user content unless the app allows it; events that the
/// system does not accept are counted and not kept. A gap in `WB_SEQ` proves a loss.
///
///     Waybill ── EventView ──▶ SystemLogObserver ──▶ 1. journald's native socket   entry of fields
///                 (observers' thread)            ├─▶ 2. /dev/log, datagrams        one line of text
///                                                └─▶ 3. /dev/log, a stream         the same, followed by NUL
///
/// Life of an event: it is encoded into reused memory and offered to the route that accepted the last one; if that is
/// gone, to every route in order, at most once a second; then it is counted.
///
/// Why not sd_journal_send(3) or syslog(3): both wait for a slow reader, and the first needs another library.
public import Waybill
package import WaybillSystem

/// An observer that writes stored events to the system's log.
///
///     WaybillClient.Configuration(…, observers: [.all(SystemLogObserver())])
///     journalctl SYSLOG_IDENTIFIER=com.example.shop WB_KIND=action
///
/// Fields have the same names as in the receiver's exports to syslog and journald. It is safe to use from any thread.
public final class SystemLogObserver: EventObserver {
    /// How much of an event to write to the system's log.
    public struct Privacy: Hashable, Sendable {
        enum Kind { case namesOnly, fields }
        let kind: Kind

        /// Name, kind, sequence number, screen, app and build; no fields, no traits, nothing about the user.
        public static let namesOnly = Privacy(kind: .namesOnly)
        /// Everything, including the user's id and traits; on Apple platforms those are marked as private in the log.
        public static let fields = Privacy(kind: .fields)
    }

    private let sender: Lock<SystemLogSender>
    private let clock = POSIXClock()

    /// Creates an observer; it opens nothing before the first event.
    public init(privacy: Privacy = .namesOnly) {
        self.sender = Lock(SystemLogSender(privacy))
    }

    #if !canImport(os)
        /// Creates an observer with the caller's sockets.
        package init(privacy: Privacy = .namesOnly, sockets: SystemLogSockets) {
            self.sender = Lock(SystemLogSender(privacy, sockets))
        }
    #endif

    /// Passes the event to the system's log; never waits.
    public func eventStored(_ event: EventView) {
        self.eventStored(event, at: self.clock.monotonicTime())
    }

    package func eventStored(_ event: EventView, at now: MonotonicTime) {
        self.sender.withLock { $0.send(event, at: now) }
    }

    /// The outcomes of events so far.
    public var counters: SystemLogCounters {
        self.sender.withLock { $0.counters }
    }
}

/// Counters for the events of a ``SystemLogObserver``.
public struct SystemLogCounters: Hashable, Sendable {
    /// Events that the system accepted.
    public package(set) var sent: UInt64 = 0
    /// Events dropped because the system's log was slow: its buffer or a limit of this process was full.
    public package(set) var full: UInt64 = 0
    /// Events dropped because they exceed the system's size limit.
    public package(set) var tooLarge: UInt64 = 0
    /// Events dropped because no system log was found.
    public package(set) var unreachable: UInt64 = 0

    package init(sent: UInt64 = 0, full: UInt64 = 0, tooLarge: UInt64 = 0, unreachable: UInt64 = 0) {
        self.sent = sent
        self.full = full
        self.tooLarge = tooLarge
        self.unreachable = unreachable
    }

    /// Events dropped for any reason.
    public var leftOutCount: UInt64 {
        self.full + self.tooLarge + self.unreachable
    }
}
