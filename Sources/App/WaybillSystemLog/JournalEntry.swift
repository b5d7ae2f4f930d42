#if !canImport(os)
    internal import Waybill
    internal import WaybillSystem

    /// Encodes an event for journald's native protocol, in memory that the next event reuses.
    ///
    ///     NAME=value LF                                        a value without LF
    ///     NAME LF  length, 64 bits, little-endian  value LF    a value with one
    ///
    /// Field names are those of the journald export, without fields that begin with `_`, which are reserved by
    /// journald. systemd's docs/JOURNAL_NATIVE_PROTOCOL.md, read 2026-11-22.
    struct JournalEntry {
        /// journald refuses entries of more than 1024 fields (`ENTRY_FIELD_COUNT_MAX`), including its own.
        static let fieldCountMax = 1000
        /// journald drops fields with longer names (`field_name_is_valid`).
        static let fieldNameByteCountMax = 64
        /// Local use 0 (RFC 5424, section 6.2.1), as in the exports.
        static let facility = 16

        private(set) var bytes: [UInt8] = []
        private var fieldCount = 0

        mutating func encode(_ event: EventView, _ privacy: SystemLogObserver.Privacy) {
            self.bytes.removeAll(keepingCapacity: true)
            self.fieldCount = 0
            self.put("MESSAGE", event.name)
            self.put("PRIORITY", String(Severity(of: event).rawValue))
            self.put("SYSLOG_FACILITY", String(Self.facility))
            self.put("SYSLOG_IDENTIFIER", event[member: "bundle"])
            self.put("SYSLOG_TIMESTAMP", event[member: "ts"])
            self.put("WB_ID", event[member: "id"])
            self.put("WB_WRITER", event[member: "writer"])
            self.put("WB_SEQ", String(event.sequence))
            self.put("WB_KIND", event.kind.rawValue)
            self.put("WB_SCREEN", event[member: "screen"])
            self.put("WB_APP", event[member: "app"])
            self.put("WB_BUILD", event[member: "build"])
            self.put("WB_ENV", event[member: "env"])
            switch privacy.kind {
            case .namesOnly: break
            case .fields: self.putContents(of: event)
            }
        }

        private mutating func putContents(of event: EventView) {
            self.put("WB_SCREEN_CLASS", event[member: "screen_class"])
            self.put("WB_SESSION", event[member: "session"])
            self.put("WB_USER", event[member: "user"])
            self.put("WB_ANON", event[member: "anon"])
            self.put("WB_OS", event[member: "os"])
            self.put("WB_OS_VERSION", event[member: "os_version"])
            self.put("WB_LOG", event[member: "log"])
            for field in event.contents where !field.value.isNull && self.fieldCount < Self.fieldCountMax {
                let name = PlainName.text(field.name, byteCountMax: Self.fieldNameByteCountMax - 5, Self.nameByte)
                self.put("WB_D_" + name, field.value.text)
            }
        }

        private static func nameByte(_ byte: UInt8) -> UInt8? {
            switch byte {
            case 0x61...0x7A: byte & ~0x20
            case 0x41...0x5A, 0x30...0x39, UInt8(ascii: "_"): byte
            default: nil
            }
        }

        private mutating func put(_ name: String, _ value: String?) {
            guard var value else { return }
            self.fieldCount += 1
            self.bytes += name.utf8
            value.withUTF8 { text in
                if text.contains(0x0A) {
                    self.bytes.append(0x0A)
                    withUnsafeBytes(of: UInt64(text.count).littleEndian) { self.bytes += $0 }
                } else {
                    self.bytes.append(UInt8(ascii: "="))
                }
                self.bytes += text
            }
            self.bytes.append(0x0A)
        }
    }

    /// Converts names of fields to the alphabet of a system log.
    enum PlainName {
        /// The name with `_` for each character outside the alphabet; `X` and its CRC-32 if nothing else is left.
        ///
        /// - Parameter byte: returns the replacement for an ASCII byte; `nil` for one outside the alphabet.
        static func text(_ name: String, byteCountMax: Int, _ byte: (UInt8) -> UInt8?) -> String {
            let underscore = UInt8(ascii: "_")
            let characters = name.utf8.filter { $0 & 0xC0 != 0x80 }.prefix(byteCountMax)
            let bytes = characters.map { byte($0) ?? underscore }
            if bytes.allSatisfy({ $0 == underscore }) {
                return "X" + Hexadecimal.text(CRC32.checksum(of: name.utf8), digitCount: 8).uppercased()
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }
#endif
