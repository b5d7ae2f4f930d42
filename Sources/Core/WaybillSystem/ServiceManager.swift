internal import CWaybillSystem

/// What a service tells the manager that started it, as systemd's `sd_notify` does: one datagram at a time.
///
///     started ─▶ READY=1, STATUS=…     SIGHUP ─▶ RELOADING=1 … READY=1     stop ─▶ STOPPING=1
///     the loop that must not hang ─▶ WATCHDOG=1, again and again (``Heartbeat``)
///
/// Without a manager (`NOTIFY_SOCKET` is not set) nothing is sent. A notice that cannot be sent is lost: the manager's
/// own time limits notice that, and the service serves meanwhile.
package struct ServiceManager: Sendable {
    /// One thing to tell.
    package enum Notice: Sendable, Equatable {
        /// The service does its work, or does it again after a reload.
        case ready
        /// One line for a person.
        case status(String)
        case reloading(at: MonotonicTime)
        case stopping
        /// The loop that must not hang has not.
        case alive

        fileprivate var text: String {
            switch self {
            case .ready: "READY=1"
            case .status(let text): "STATUS=\(String(text.map { $0.isNewline ? " " : $0 }))"
            case .reloading(let time): "RELOADING=1\nMONOTONIC_USEC=\(time.nanoseconds / 1000)"
            case .stopping: "STOPPING=1"
            case .alive: "WATCHDOG=1"
            }
        }
    }

    /// Sends one datagram to a socket.
    package typealias Send = @Sendable (_ socket: String, _ text: String, _ patience: Duration) -> Void

    private let socket: String?
    private let send: Send
    /// How often ``Notice/alive`` is told: three times in the time after which the manager takes the service to hang.
    package let heartbeatInterval: Duration?

    /// A manager that is not there.
    package static let none = ServiceManager(environment: { _ in nil }, processID: 0) { _, _, _ in }

    /// The manager of this process.
    package static let ofThisProcess = ServiceManager(
        environment: { ProcessEnvironment[$0] }, processID: ProcessID.current, send: Self.sendDatagram)

    /// - Parameters:
    ///   - environment: returns a variable that the process was started with.
    ///   - processID: this process; the variables may be meant for another one.
    package init(environment: (String) -> String?, processID: Int, send: @escaping Send) {
        let socket = environment("NOTIFY_SOCKET").flatMap { $0.hasPrefix("/") || $0.hasPrefix("@") ? $0 : nil }
        self.socket = socket
        self.send = send
        let isMeant = environment("WATCHDOG_PID").map { $0 == String(processID) } ?? true
        let limit = environment("WATCHDOG_USEC").flatMap(Int64.init) ?? 0
        // A manager that waits for longer than a year waits for ever.
        let isLimit = (1...31_536_000_000_000).contains(limit)
        self.heartbeatInterval = socket != nil && isMeant && isLimit ? .microseconds(limit) / 3 : nil
    }

    /// Tells all of it at once.
    package func tell(_ notices: Notice...) {
        guard let socket else { return }
        // The next heartbeat makes up for one that is lost, and the loop must not wait for the manager.
        let patience = notices == [.alive] ? Duration.zero : .seconds(1)
        self.send(socket, notices.map(\.text).joined(separator: "\n"), patience)
    }

    private static let sendDatagram: Send = { socket, text, patience in
        #if canImport(Glibc)
            let bytes = Array(text.utf8)
            _ = waybill_send_notice(socket, bytes, UInt(bytes.count), Int32(patience.nanoseconds / 1_000_000))
        #endif
    }
}

/// Tells the service's manager that a loop continues, from that loop: when it hangs, the manager hears nothing.
package struct Heartbeat {
    private let manager: ServiceManager
    private let clock: any SystemClock
    /// When ``beat()`` tells it next; `nil` if no one listens.
    private var next: MonotonicTime?

    package init(_ manager: ServiceManager, clock: any SystemClock) {
        self.manager = manager
        self.clock = clock
        self.next = manager.heartbeatInterval == nil ? nil : clock.monotonicTime()
    }

    /// Tells it if it is due; the loop calls this in each of its turns.
    package mutating func beat() {
        guard let next, let interval = self.manager.heartbeatInterval else { return }
        let now = self.clock.monotonicTime()
        guard now >= next else { return }
        self.next = now + interval
        self.manager.tell(.alive)
    }

    /// When the loop must turn again, which has work at `deadline`; `nil` if it may rest for ever.
    package func wake(before deadline: MonotonicTime?) -> MonotonicTime? {
        guard let next, let deadline else { return self.next ?? deadline }
        return min(next, deadline)
    }

    /// How long the loop may rest, which has work after `duration`.
    package func rest(atMost duration: Duration) -> Duration {
        guard let next else { return duration }
        return max(.zero, min(duration, next - self.clock.monotonicTime()))
    }
}
