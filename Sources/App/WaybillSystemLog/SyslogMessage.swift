#if !canImport(os)
    internal import Glibc
    internal import Waybill
    internal import WaybillSystem

    /// Encodes an event like the C library's syslog(3) for `/dev/log`, in memory that the next event reuses.
    ///
    ///     <134>Mar  1 18:14:19 com.example.shop[4711]: Product Tapped id="…" seq="42" kind="action" d.price="39900"
    ///     |PRI|<-- RFC 3164 -->|<----- TAG ----->|PID|  |<-- name -->|<-- as in the export's structured data ----->|
    ///
    /// The format is RFC 3164, because the local sockets of rsyslog, syslog-ng, busybox and journald do not all read
    /// RFC 5424; there is no host name, as all of them expect. The time is local time, as usual in this format.
    struct SyslogMessage {
        /// The length that every receiver should accept (RFC 5424, section 6.1); longer messages lose parameters from
        /// the end.
        static let byteCountMax = 2048
        /// RFC 3164, section 4.1.3.
        private static let tagByteCountMax = 32
        private static let parameterNameByteCountMax = 32
        /// Space for ` more="123456"`.
        private static let moreByteCount = 16

        private(set) var bytes: [UInt8] = []
        private var leftOutCount = 0

        /// - Parameter minutesEast: the process's offset from UTC.
        mutating func encode(
            _ event: EventView, _ privacy: SystemLogObserver.Privacy, minutesEast: (WallTime) -> Int
        ) {
            self.bytes.removeAll(keepingCapacity: true)
            self.leftOutCount = 0
            self.appendHeader(of: event, minutesEast)
            self.append(event.name)
            self.put("id", event[member: "id"])
            self.put("writer", event[member: "writer"])
            self.put("seq", String(event.sequence))
            self.put("kind", event.kind.rawValue)
            self.put("screen", event[member: "screen"])
            self.put("app", event[member: "app"])
            self.put("build", event[member: "build"])
            self.put("env", event[member: "env"])
            switch privacy.kind {
            case .namesOnly: break
            case .fields: self.putContents(of: event)
            }
            if self.leftOutCount > 0 { self.bytes += " more=\"\(self.leftOutCount)\"".utf8 }
        }

        private mutating func appendHeader(of event: EventView, _ minutesEast: (WallTime) -> Int) {
            let time = event[member: "ts"].flatMap { WallTime(text: $0) } ?? WallTime(milliseconds: 0)
            let local = WallTime(milliseconds: time.milliseconds + Int64(minutesEast(time)) * 60_000)
            let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
            let text = local.text
            let day = CalendarDay(String(text.prefix(10)))?.components ?? (year: 1970, month: 1, day: 1)
            self.bytes += "<\(JournalEntry.facility * 8 + Severity(of: event).rawValue)>".utf8
            self.bytes += "\(months[day.month - 1]) \(day.day < 10 ? " " : "")\(day.day) ".utf8
            self.bytes += text.utf8.dropFirst(11).prefix(8)
            let tag = PlainName.text(event[member: "bundle"] ?? "waybill", byteCountMax: Self.tagByteCountMax) { byte in
                switch byte {
                case UInt8(ascii: ":"), UInt8(ascii: "["), UInt8(ascii: "]"): nil
                case 0x21...0x7E: byte
                default: nil
                }
            }
            self.bytes += " \(tag)[\(ProcessID.current)]: ".utf8
        }

        private mutating func putContents(of event: EventView) {
            self.put("session", event[member: "session"])
            self.put("user", event[member: "user"])
            self.put("anon", event[member: "anon"])
            self.put("log", event[member: "log"])
            for field in event.contents where !field.value.isNull {
                let limit = Self.parameterNameByteCountMax - 2
                let name = PlainName.text(field.name, byteCountMax: limit) { byte in
                    switch byte {
                    case UInt8(ascii: "="), UInt8(ascii: "]"), UInt8(ascii: "\""): nil
                    case 0x21...0x7E: byte
                    default: nil
                    }
                }
                self.put("d." + name, field.value.text)
            }
        }

        /// Adds a parameter if there is room, and none after the first one without room.
        private mutating func put(_ name: String, _ value: String?) {
            guard let value else { return }
            let start = self.bytes.count
            if self.leftOutCount == 0 {
                self.bytes += " \(name)=\"".utf8
                self.append(value, escaping: Self.escapedBytes)
                self.bytes.append(UInt8(ascii: "\""))
                if self.bytes.count + Self.moreByteCount <= Self.byteCountMax { return }
                self.bytes.removeSubrange(start...)
            }
            self.leftOutCount += 1
        }

        /// RFC 5424, section 6.3.3.
        private static let escapedBytes: [UInt8] = [UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "]")]

        /// Control characters become spaces, so that the message stays on one line; escaped characters get a backslash.
        private mutating func append(_ text: String, escaping escapedBytes: [UInt8] = []) {
            for byte in text.utf8 {
                if escapedBytes.contains(byte) { self.bytes.append(UInt8(ascii: "\\")) }
                self.bytes.append(byte < 0x20 || byte == 0x7F ? 0x20 : byte)
            }
        }
    }

    /// The time zone of the process.
    enum LocalZone {
        /// The offset from UTC at a time, in minutes east, by `localtime_r(3)`.
        static func minutesEast(at time: WallTime) -> Int {
            var seconds = time_t(time.milliseconds / 1000)
            var parts = tm()
            guard localtime_r(&seconds, &parts) != nil else { return 0 }
            return Int(parts.tm_gmtoff) / 60
        }
    }
#endif
