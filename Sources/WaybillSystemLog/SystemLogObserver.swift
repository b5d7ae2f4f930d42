/// The system's own log as an observer: `os.Logger` on Apple's platforms, journald or syslog on Linux.
///
/// Constraints: one system call for each event, which never waits; no user content unless the app allows it; what the
/// system did not take is counted and not kept. A gap in `WB_SEQ` proves a loss.
///
///     Waybill ── EventView ──▶ SystemLogObserver ──▶ 1. journald's native socket   entry of fields
///                 (observers' thread)            ├─▶ 2. /dev/log, datagrams        one line of text
///                                                └─▶ 3. /dev/log, a stream         the same, NUL behind it
///
/// One event's life: it is encoded into memory that the next one uses again and offered to the route that took the
/// last one; when that is gone, to every route in order, at most once a second; then it is counted.
///
/// Why not sd_journal_send(3) or syslog(3): a library more, and both wait for a reader that is slow.
public import Waybill
internal import Synchronization
package import WaybillSystem

/// Shows stored events to the system's log.
///
///     WaybillClient.Configuration(…, observers: [.all(SystemLogObserver())])
///     journalctl SYSLOG_IDENTIFIER=com.example.shop WB_KIND=action
///
/// Fields are named as in the receiver's exports to syslog and journald. Safe to use from any thread.
public final class SystemLogObserver: EventObserver {
    /// How much of an event the system's log may hold.
    public struct Privacy: Hashable, Sendable {
        enum Kind { case namesOnly, fields }
        let kind: Kind

        /// Name, kind, number, screen, and what tells app and build; no field, no trait, nothing about the user.
        public static let namesOnly = Privacy(kind: .namesOnly)
        /// All of it, the user's id and traits too; on Apple's platforms those are private to the device's owner.
        public static let fields = Privacy(kind: .fields)
    }

    private let sender: Mutex<SystemLogSender>
    private let clock = POSIXClock()

    /// An observer that opens nothing before the first event.
    public init(privacy: Privacy = .namesOnly) {
        self.sender = Mutex(SystemLogSender(privacy))
    }

    #if !canImport(os)
        /// An observer with sockets of the caller's choice.
        package init(privacy: Privacy = .namesOnly, sockets: SystemLogSockets) {
            self.sender = Mutex(SystemLogSender(privacy, sockets))
        }
    #endif

    /// Hands the event to the system; never waits for it.
    public func eventStored(_ event: EventView) {
        self.eventStored(event, at: self.clock.monotonicTime())
    }

    package func eventStored(_ event: EventView, at now: MonotonicTime) {
        self.sender.withLock { $0.send(event, at: now) }
    }

    /// What became of the events so far.
    public var counters: SystemLogCounters {
        self.sender.withLock { $0.counters }
    }
}

/// What became of the events that a ``SystemLogObserver`` saw.
public struct SystemLogCounters: Hashable, Sendable {
    /// Events that the system took.
    public package(set) var sent: UInt64 = 0
    /// Events left out because the system's log was behind: its buffer, or a limit of this process, was full.
    public package(set) var full: UInt64 = 0
    /// Events left out because they are larger than the system takes.
    public package(set) var tooLarge: UInt64 = 0
    /// Events left out because the system had no log to be found.
    public package(set) var unreachable: UInt64 = 0

    package init(sent: UInt64 = 0, full: UInt64 = 0, tooLarge: UInt64 = 0, unreachable: UInt64 = 0) {
        self.sent = sent
        self.full = full
        self.tooLarge = tooLarge
        self.unreachable = unreachable
    }

    /// Events left out for any reason.
    public var leftOutCount: UInt64 {
        self.full + self.tooLarge + self.unreachable
    }
}
