#if !canImport(os)
    internal import CWaybillSystem
    internal import Glibc
    internal import Waybill
    internal import WaybillSystem

    /// The sockets of the machine's log.
    package struct SystemLogSockets: Sendable {
        /// journald's native socket.
        package var journal = "/run/systemd/journal/socket"
        /// The socket that syslog(3) writes to.
        package var syslog = "/dev/log"
        /// The size of the send buffer to journald (docs/JOURNAL_NATIVE_PROTOCOL.md: "should bump up").
        ///
        /// Room for some hundred events that journald has not read yet; the kernel allows at most `net.core.wmem_max`.
        package var sendBufferByteCount = 1 << 20

        package init() {}
    }

    /// Encodes events and offers them to the routes in turn; never waits.
    struct SystemLogSender: ~Copyable {
        private enum Answer {
            case sent
            case full
            case tooLarge
            /// There is no listener, or no permission.
            case gone
        }

        private let privacy: SystemLogObserver.Privacy
        private let sockets: SystemLogSockets
        private var choice = RouteChoice()
        private var entry = JournalEntry()
        private var message = SyslogMessage()
        /// Sends to both paths; it needs no connection, so a restarted log gets the next event.
        private var datagrams: Int32 = -1
        private var stream: Int32 = -1
        private(set) var counters = SystemLogCounters()

        init(_ privacy: SystemLogObserver.Privacy, _ sockets: SystemLogSockets = SystemLogSockets()) {
            self.privacy = privacy
            self.sockets = sockets
        }

        deinit {
            if self.datagrams >= 0 { close(self.datagrams) }
            if self.stream >= 0 { close(self.stream) }
        }

        mutating func send(_ event: EventView, at now: MonotonicTime) {
            var next = self.choice.first(at: now)
            while let route = next {
                switch self.offer(event, to: route) {
                case .gone:
                    next = self.choice.next(after: route, at: now)
                    continue
                case .sent: self.counters.sent += 1
                case .full: self.counters.full += 1
                case .tooLarge: self.counters.tooLarge += 1
                }
                self.choice.found(route)
                return
            }
            self.counters.unreachable += 1
        }

        private mutating func offer(_ event: EventView, to route: Route) -> Answer {
            switch route {
            case .journal:
                self.entry.encode(event, self.privacy)
                return self.sendEntry()
            case .syslogDatagram:
                self.encodeMessage(of: event)
                return self.sendMessage()
            case .syslogStream:
                self.encodeMessage(of: event)
                return self.streamMessage()
            }
        }

        private mutating func encodeMessage(of event: EventView) {
            self.message.encode(event, self.privacy, minutesEast: LocalZone.minutesEast)
        }

        private mutating func sendEntry() -> Answer {
            guard self.openDatagrams() else { return .full }
            let bytes = self.entry.bytes
            var error = waybill_send_datagram(self.datagrams, self.sockets.journal, bytes, UInt(bytes.count))
            if error == EMSGSIZE || error == ENOBUFS {
                error = waybill_send_sealed(self.datagrams, self.sockets.journal, bytes, UInt(bytes.count))
            }
            return Self.answer(error)
        }

        private mutating func sendMessage() -> Answer {
            guard self.openDatagrams() else { return .full }
            let bytes = self.message.bytes
            return Self.answer(
                waybill_send_datagram(self.datagrams, self.sockets.syslog, bytes, UInt(bytes.count)))
        }

        /// A missing file descriptor counts as lack of room and is retried with the next event.
        private mutating func openDatagrams() -> Bool {
            if self.datagrams < 0 {
                self.datagrams = waybill_open_datagrams(Int32(clamping: self.sockets.sendBufferByteCount))
            }
            return self.datagrams >= 0
        }

        private mutating func streamMessage() -> Answer {
            if self.stream < 0 { self.stream = waybill_connect_stream(self.sockets.syslog) }
            guard self.stream >= 0 else { return Self.answer(errno) }
            let bytes = self.message.bytes + [0]
            let error = waybill_send_stream(self.stream, bytes, UInt(bytes.count))
            // Linux accepts messages up to half the smallest send buffer (2240 bytes) whole or not at all; after a
            // truncated message, only a new connection could mark the start of the next one.
            let answer = Self.answer(error)
            switch answer {
            case .sent, .full: break
            case .tooLarge, .gone:
                close(self.stream)
                self.stream = -1
            }
            return answer
        }

        private static func answer(_ error: Int32) -> Answer {
            switch error {
            case 0: .sent
            case EAGAIN, ENOBUFS, EMFILE, ENFILE, ENOMEM: .full
            case EMSGSIZE: .tooLarge
            default: .gone
            }
        }
    }
#endif
