internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// An operator's options for the systemd journal.
package struct JournaldOptions: ProviderOptions, Hashable {
    /// The syslog facility, 0 to 23; 16 is local use 0.
    package var facility = 16
    /// Whether entries name the user.
    package var includesUser = false

    package init() {}
}

/// The journal export format, for `systemd-journal-remote`: fields, with an empty line after each entry.
///
///     NAME=value LF                                    text without control characters but TAB
///     NAME LF  length, 64 bits, little-endian  value LF    anything else
///
/// systemd's docs/JOURNAL_EXPORT_FORMATS.md, read 2026-11-20.
struct Journald: Provider {
    private let options: JournaldOptions

    init(_ options: ExportOptions) {
        self.options = options.journald
    }

    var description: ProviderDescription {
        ProviderDescription(
            id: .journald, fileExtension: "export", recordsPerPartMax: Limits.Journald.recordsPerPartMax,
            partByteCountMax: Limits.Journald.partByteCountMax)
    }

    var recordByteCountMax: Int { Limits.Journald.partByteCountMax }
    var isJSON: Bool { false }

    func takes(_ kind: EventKind) -> Bool {
        true
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        self.writeTimes(of: event, into: &draft)
        var count = 8
        self.write("MESSAGE", event.name, &count, into: &draft)
        draft.appendNumber("PRIORITY", Int64(Severity(of: event).rawValue))
        draft.appendNumber("SYSLOG_FACILITY", Int64(self.options.facility))
        self.write("SYSLOG_IDENTIFIER", event.bundle, &count, into: &draft)
        draft.json.output.append("SYSLOG_TIMESTAMP=")
        TimeText.append(event.facts.time, to: &draft.json.output)
        draft.json.output.append(UInt8(ascii: "\n"))
        self.write("WB_ID", event.id, &count, into: &draft)
        self.write("WB_WRITER", event.text(.writer), &count, into: &draft)
        if let seq = event.number(.seq) {
            self.write("WB_SEQ", TextSlice(body: seq, isEscaped: false), &count, into: &draft)
        }
        self.write("WB_KIND", TextSlice(event.kind.staticName), &count, into: &draft)
        self.write("WB_SCREEN", event.text(.screen), &count, into: &draft)
        self.write("WB_SCREEN_CLASS", event.text(.screenClass), &count, into: &draft)
        self.write("WB_SESSION", event.text(.session), &count, into: &draft)
        if self.options.includesUser { self.write("WB_USER", event.text(.user), &count, into: &draft) }
        self.write("WB_ANON", event.text(.anon), &count, into: &draft)
        self.write("WB_APP", event.text(.app), &count, into: &draft)
        self.write("WB_BUILD", event.text(.build), &count, into: &draft)
        self.write("WB_OS", event.text(.os), &count, into: &draft)
        self.write("WB_OS_VERSION", event.text(.osVersion), &count, into: &draft)
        self.write("WB_ENV", TextSlice(event.facts.env.staticName), &count, into: &draft)
        self.write("WB_LOG", event.text(.log), &count, into: &draft)
        self.writeFields(of: event, room: Limits.Journald.fieldCountMax - count, into: &draft)
        return .written
    }

    /// Writes the time and, if the writer is known, its monotonic time.
    private func writeTimes(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.appendNumber("__REALTIME_TIMESTAMP", event.facts.time.milliseconds * 1000)
        guard let writer = event.text(.writer), !writer.isEscaped,
            MappedEvent.isUUID(writer.body, CharacterTraits(commonTo: writer.body)),
            let up = event.integer(.up), 0...(Int.max / 1000) ~= up
        else { return }
        draft.appendNumber("__MONOTONIC_TIMESTAMP", Int64(up) * 1000)
        draft.json.output.append("_BOOT_ID=")
        for byte in writer.body where byte != UInt8(ascii: "-") {
            draft.json.output.append(0x41...0x46 ~= byte ? byte | 0x20 : byte)
        }
        draft.json.output.append(UInt8(ascii: "\n"))
    }

    private func write(_ name: StaticString, _ value: TextSlice?, _ count: inout Int, into draft: inout Draft) {
        guard let value else { return }
        draft.unescape(value)
        draft.json.output.append(name)
        draft.appendJournalValue()
        count += 1
    }

    private func writeFields(of event: borrowing MappedEvent, room: Int, into draft: inout Draft) {
        if event.kind == .user {
            // Personal data does not belong in a log.
            for traits in [EventField.traits, .traitsOnce, .traitsAdd] {
                var members = event.members(of: event.object(traits))
                while members.next(in: event) != nil { draft.fixes.count(.dropField) }
            }
        }
        var room = room
        var fields = event.fields()
        while let (key, value) = fields.next(in: event, room: room, droppedTo: &draft.fixes) {
            room -= 1
            draft.json.output.append("WB_D_")
            let isEscaped = event.tape[key].traits.contains(.hasEscapes)
            draft.unescape(TextSlice(body: event.tape.bytes(of: key), isEscaped: isEscaped))
            draft.appendJournalName(limit: Limits.Journald.fieldNameByteCountMax - 5)
            draft.plainText(value, of: event)
            draft.appendJournalValue()
        }
    }
}

extension Draft {
    fileprivate mutating func appendNumber(_ name: StaticString, _ value: Int64) {
        self.json.output.append(name)
        self.json.output.append(UInt8(ascii: "="))
        self.json.output.append(decimal: value)
        self.json.output.append(UInt8(ascii: "\n"))
    }

    /// Appends ``text`` as a name of A to Z, 0 to 9 and `_`; `X` and its CRC-32 if nothing else is left of it.
    fileprivate mutating func appendJournalName(limit: Int) {
        let start = self.json.output.count
        var isRenamed = false
        var isEmpty = true
        for byte in self.text.bytes where byte & 0xC0 != 0x80 {
            guard self.json.output.count - start < limit else {
                self.fixes.count(.truncateName)
                break
            }
            switch byte {
            case 0x61...0x7A:
                self.json.output.append(byte & ~0x20)
                isEmpty = false
            case 0x41...0x5A, 0x30...0x39:
                self.json.output.append(byte)
                isEmpty = false
            case UInt8(ascii: "_"): self.json.output.append(byte)
            default:
                self.json.output.append(UInt8(ascii: "_"))
                isRenamed = true
            }
        }
        if isEmpty {
            isRenamed = true
            self.json.output.truncate(to: start)
            self.json.output.append(UInt8(ascii: "X"))
            for byte in Hexadecimal.text(CRC32.checksum(of: self.text.bytes), digitCount: 8).utf8 {
                self.json.output.append(0x61...0x66 ~= byte ? byte & ~0x20 : byte)
            }
        }
        if isRenamed { self.fixes.count(.rename) }
    }

    /// Appends ``text`` as the value of the field whose name was appended.
    fileprivate mutating func appendJournalValue() {
        let isText = self.text.bytes.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7F) }
        if isText {
            self.json.output.append(UInt8(ascii: "="))
        } else {
            self.json.output.append(UInt8(ascii: "\n"))
            let count = UInt64(self.text.count)
            for shift in stride(from: 0, to: 64, by: 8) {
                self.json.output.append(UInt8(truncatingIfNeeded: count >> UInt64(shift)))
            }
        }
        self.json.output.append(self.text.bytes)
        self.json.output.append(UInt8(ascii: "\n"))
    }
}

extension Journald {
    static let name = "journald"

    static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key] {
        [
            keys.integer("facility", 0...23, \.journald.facility, "The facility; 16 is local use 0."),
            keys.flag("user", \.journald.includesUser, "Entries name the user."),
        ]
    }

    static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {
        let usual = JournaldOptions()
        text.add("facility", options.journald.facility, unless: usual.facility)
        text.add("user", options.journald.includesUser, unless: usual.includesUser)
    }
}

extension Destination {
    package static var journald: Destination { Destination(Journald.self) }
}

extension ExportOptions {
    package var journald: JournaldOptions {
        get { self[JournaldOptions.self] }
        set { self[JournaldOptions.self] = newValue }
    }
}

extension Limits {
    /// Repository systemd/systemd: docs/JOURNAL_EXPORT_FORMATS.md, journal-importer.c.
    package enum Journald {
        package static let fieldNameByteCountMax = 64
        /// `systemd-journal-remote` drops an entry with 1024 fields (`IOV_MAX`).
        package static let fieldCountMax = 1000
        /// Not documented; keeps parts small enough for common tools.
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
    }
}
