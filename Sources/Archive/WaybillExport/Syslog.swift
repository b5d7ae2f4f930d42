internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// An operator's options for system logs.
package struct SyslogOptions: ProviderOptions, Hashable {
    /// RFC 5424, section 6.2.1: 0 to 23; 16 is local use 0.
    package var facility = 16
    /// The same for all events; with a phone's own name, each phone would be a host.
    package var hostName = "waybill"
    /// The name of the structured data; 32473 is the number that IANA reserves for examples.
    package var elementName = "wb@32473"
    /// The maximum size of a message; 0 for no limit.
    package var messageByteCountMax = Limits.Syslog.messageByteCountMax
    /// Whether messages name the user.
    package var includesUser = false

    package init() {}

    /// Whether RFC 5424 allows the name for a host.
    package static func isHostName(_ name: String) -> Bool {
        1...Limits.Syslog.hostNameByteCountMax ~= name.utf8.count && name.utf8.allSatisfy { 0x21...0x7E ~= $0 }
    }
}

/// Writes messages of RFC 5424, one per line.
///
///     <134>1 2025-03-01T09:14:19.003Z waybill com.example.shop - Product_Tapped [wb@32473 id="…" … d.key="value"] Product Tapped
///     |<-------------- header -------------->|<-- APP-NAME -->|P|<-- MSGID -->|<----- structured data ------>|<--- MSG --->|
///
/// A message that is too long loses parameters from the end; `more` has their number.
struct Syslog: Provider {
    /// Room for ` more="123456"`.
    private static let moreByteCount = 16
    private static let messageIDRule = NameRule(
        limit: Limits.Syslog.messageIDByteCountMax, cutLimit: Limits.Syslog.cutMessageIDByteCount, reserved: .none)
    /// `d.` comes before it.
    private static let parameterRule = NameRule(
        limit: Limits.Syslog.parameterNameByteCountMax - 2, cutLimit: Limits.Syslog.parameterNameByteCountMax - 11,
        reserved: .none)

    private let options: SyslogOptions
    private let hostName: [UInt8]
    private let elementName: [UInt8]

    init(_ options: ExportOptions) {
        self.options = options.syslog
        self.hostName = Self.printable(self.options.hostName, limit: Limits.Syslog.hostNameByteCountMax)
        self.elementName = Self.printable(self.options.elementName, limit: Limits.Syslog.parameterNameByteCountMax)
    }

    private static func printable(_ text: String, limit: Int) -> [UInt8] {
        let kept = text.utf8.map { Self.isNameByte($0) ? $0 : UInt8(ascii: "_") }.prefix(limit)
        return kept.isEmpty ? [UInt8(ascii: "-")] : Array(kept)
    }

    var description: ProviderDescription {
        ProviderDescription(
            id: .syslog, fileExtension: "log", recordsPerPartMax: Limits.Syslog.recordsPerPartMax,
            partByteCountMax: Limits.Syslog.partByteCountMax)
    }

    var recordByteCountMax: Int { Limits.Syslog.partByteCountMax }
    var isJSON: Bool { false }

    func takes(_ kind: EventKind) -> Bool {
        true
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        self.writeHeader(of: event, into: &draft)
        draft.json.output.append(UInt8(ascii: "["))
        draft.json.output.append(self.elementName)
        self.writeContext(of: event, into: &draft)
        self.writeFields(of: event, into: &draft)
        self.writeMessage(of: event, into: &draft)
        return .written
    }

    // MARK: Header

    private func writeHeader(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.json.output.append(UInt8(ascii: "<"))
        draft.json.output.append(decimal: Int64(self.options.facility * 8 + Severity(of: event).rawValue))
        draft.json.output.append(">1 ")
        TimeText.append(event.facts.time, to: &draft.json.output)
        draft.json.output.append(UInt8(ascii: " "))
        draft.json.output.append(self.hostName)
        draft.json.output.append(UInt8(ascii: " "))
        draft.unescape(event.bundle)
        draft.appendPrintable(limit: Limits.Syslog.appNameByteCountMax, isNameByte: Self.isGraphic)
        draft.json.output.append(" - ")
        draft.unescape(event.name)
        if draft.text.bytes.contains(where: { $0 >= 0x80 }) {
            draft.json.output.append(draft.mappedName(event.name, rule: Self.messageIDRule))
        } else {
            draft.appendPrintable(limit: Limits.Syslog.messageIDByteCountMax, isNameByte: Self.isGraphic)
        }
        draft.json.output.append(UInt8(ascii: " "))
    }

    /// Whether the byte is `!` to `~`.
    private static func isGraphic(_ byte: UInt8) -> Bool {
        0x21...0x7E ~= byte
    }

    /// Whether the name of an element or a parameter may contain the byte.
    private static func isNameByte(_ byte: UInt8) -> Bool {
        0x21...0x7E ~= byte && byte != UInt8(ascii: "=") && byte != UInt8(ascii: "]") && byte != UInt8(ascii: "\"")
    }

    // MARK: Structured data

    private func writeContext(of event: borrowing MappedEvent, into draft: inout Draft) {
        self.write("id", event.id, into: &draft)
        // A valid id is kept even if everything else is dropped.
        if event.identifier != nil { draft.pieceOffsets.removeAll(keepingCapacity: true) }
        self.write("writer", event.text(.writer), into: &draft)
        if let seq = event.number(.seq) { self.write("seq", TextSlice(body: seq, isEscaped: false), into: &draft) }
        self.write("kind", TextSlice(event.kind.staticName), into: &draft)
        self.write("screen", event.text(.screen), into: &draft)
        self.write("session", event.text(.session), into: &draft)
        if self.options.includesUser { self.write("user", event.text(.user), into: &draft) }
        self.write("anon", event.text(.anon), into: &draft)
        self.write("app", event.text(.app), into: &draft)
        self.write("build", event.text(.build), into: &draft)
        self.write("env", TextSlice(event.facts.env.staticName), into: &draft)
        self.write("log", event.text(.log), into: &draft)
    }

    private func write(_ name: StaticString, _ value: TextSlice?, into draft: inout Draft) {
        guard let value else { return }
        draft.pieceOffsets.append(draft.json.output.count)
        draft.json.output.append(UInt8(ascii: " "))
        draft.json.output.append(name)
        draft.unescape(value)
        draft.appendParameterValue()
    }

    private func writeFields(of event: borrowing MappedEvent, into draft: inout Draft) {
        if event.kind == .user {
            // Personal data does not belong in a log.
            for traits in [EventField.traits, .traitsOnce, .traitsAdd] {
                var members = event.members(of: event.object(traits))
                while members.next(in: event) != nil { draft.fixes.count(.dropField) }
            }
        }
        var fields = event.fields()
        while let (key, value) = fields.next(in: event, droppedTo: &draft.fixes) {
            let start = draft.json.output.count
            draft.json.output.append(" d.")
            self.writeName(key, of: event, into: &draft)
            guard draft.insertName((start + 3)..<draft.json.output.count) else {
                draft.json.output.truncate(to: start)
                draft.fixes.count(.collide)
                continue
            }
            draft.pieceOffsets.append(start)
            draft.plainText(value, of: event)
            draft.appendParameterValue()
        }
    }

    private func writeName(_ key: Int, of event: borrowing MappedEvent, into draft: inout Draft) {
        let name = TextSlice(
            body: event.tape.bytes(of: key), isEscaped: event.tape[key].traits.contains(.hasEscapes))
        draft.unescape(name)
        if draft.text.bytes.contains(where: { $0 >= 0x80 }) {
            draft.json.output.append(draft.mappedName(name, rule: Self.parameterRule))
        } else if draft.text.isEmpty {
            draft.json.output.append(UInt8(ascii: "_"))
            draft.fixes.count(.rename)
        } else {
            draft.appendPrintable(limit: Limits.Syslog.parameterNameByteCountMax - 2, isNameByte: Self.isNameByte)
        }
    }

    // MARK: Message

    /// Writes the end of the structured data and the message, and shortens the line as needed.
    private func writeMessage(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.unescape(event.name)
        var hasNonASCII = false
        draft.cell.removeAll()
        for byte in draft.text.bytes {
            if byte >= 0x80 { hasNonASCII = true }
            draft.cell.append(byte < 0x20 || byte == 0x7F ? 0x20 : byte)
        }
        let markByteCount = hasNonASCII ? 3 : 0
        let limit = self.options.messageByteCountMax
        if limit > 0 {
            let endByteCount = 2 + markByteCount + draft.cell.count
            var droppedCount = 0
            if draft.json.output.count + endByteCount > limit {
                while draft.json.output.count + endByteCount + Self.moreByteCount > limit,
                    let offset = draft.pieceOffsets.popLast()
                {
                    draft.json.output.truncate(to: offset)
                    draft.fixes.count(.dropField)
                    droppedCount += 1
                }
            }
            if droppedCount > 0 {
                draft.json.output.append(" more=\"")
                draft.json.output.append(decimal: Int64(droppedCount))
                draft.json.output.append(UInt8(ascii: "\""))
            }
            let room = max(0, limit - draft.json.output.count - 2 - markByteCount)
            let kept = TextLimit.keptByteCount(of: draft.cell.bytes, limit: room, unit: .bytes)
            if kept < draft.cell.count {
                draft.cell.truncate(to: kept)
                draft.fixes.count(.truncateValue)
            }
        }
        draft.json.output.append("] ")
        if hasNonASCII, !draft.cell.isEmpty { draft.json.output.append([0xEF, 0xBB, 0xBF]) }
        draft.json.output.append(draft.cell.bytes)
    }
}

extension Draft {
    /// Puts a value as text into ``text``; lists and objects become compact JSON.
    mutating func plainText(_ index: Int, of event: borrowing MappedEvent) {
        switch event.tape[index].kind {
        case .string:
            let isEscaped = event.tape[index].traits.contains(.hasEscapes)
            self.unescape(TextSlice(body: event.tape.bytes(of: index), isEscaped: isEscaped))
        case .null, .false, .true, .number:
            self.unescape(TextSlice(body: event.tape.bytes(of: index), isEscaped: false))
        case .array, .object:
            self.compactText(index, of: event)
        }
    }

    /// Appends as much of ``text``, which is ASCII or a header's, as fits, with `_` for each character that is not
    /// allowed.
    fileprivate mutating func appendPrintable(limit: Int, isNameByte: (UInt8) -> Bool) {
        var count = 0
        var isRenamed = false
        for byte in self.text.bytes where byte & 0xC0 != 0x80 {
            guard count < limit else {
                self.fixes.count(.truncateName)
                return
            }
            let isKept = isNameByte(byte)
            if !isKept { isRenamed = true }
            self.json.output.append(isKept ? byte : UInt8(ascii: "_"))
            count += 1
        }
        if isRenamed { self.fixes.count(.rename) }
    }

    /// Appends `="…"` with ``text``: escapes `"`, `\` and `]`, and replaces each control character by a space.
    fileprivate mutating func appendParameterValue() {
        self.json.output.append("=\"")
        let text = self.text.bytes
        var isChanged = false
        var copied = 0
        for at in text.indices {
            let byte = text[at]
            let isEscaped = byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") || byte == UInt8(ascii: "]")
            guard isEscaped || byte < 0x20 || byte == 0x7F else { continue }
            self.json.output.append(UnsafeRawBufferPointer(rebasing: text[copied..<at]))
            if isEscaped {
                self.json.output.append(UInt8(ascii: "\\"))
                self.json.output.append(byte)
            } else {
                self.json.output.append(0x20)
                isChanged = true
            }
            copied = at + 1
        }
        self.json.output.append(UnsafeRawBufferPointer(rebasing: text[copied...]))
        if isChanged { self.fixes.count(.coerce) }
        self.json.output.append(UInt8(ascii: "\""))
    }
}

extension Syslog {
    static let name = "syslog"

    static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key] {
        [
            keys.integer("facility", 0...23, \.syslog.facility, "The facility; 16 is local use 0."),
            keys.text(
                "host", rule: "1 to \(Limits.Syslog.hostNameByteCountMax) printable ASCII characters without spaces",
                isValid: SyslogOptions.isHostName, \.syslog.hostName, "HOSTNAME of every message."),
            keys.integer(
                "enterprise", 1...4_294_967_295, \.syslog.enterprise,
                "Your enterprise number; the default is reserved for examples."),
            // At least what every receiver must accept (RFC 5424, section 6.1).
            keys.byteCount(
                "max", 480...1 << 20, \.syslog.messageByteCountMax, "The longest message; 0 for no limit."),
            keys.flag("user", \.syslog.includesUser, "Messages name the user."),
        ]
    }

    static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {
        let usual = SyslogOptions()
        let syslog = options.syslog
        text.add("facility", syslog.facility, unless: usual.facility)
        text.add("host", syslog.hostName, unless: usual.hostName)
        text.add("element", syslog.elementName, unless: usual.elementName)
        text.add("max", syslog.messageByteCountMax, unless: usual.messageByteCountMax)
        text.add("user", syslog.includesUser, unless: usual.includesUser)
    }
}

extension SyslogOptions {
    /// The number in the name of the structured data.
    fileprivate var enterprise: Int {
        get { Int(self.elementName.drop { $0 != "@" }.dropFirst()) ?? 0 }
        set { self.elementName = "wb@\(newValue)" }
    }
}

extension Destination {
    package static var syslog: Destination { Destination(Syslog.self) }
}

extension ExportOptions {
    package var syslog: SyslogOptions {
        get { self[SyslogOptions.self] }
        set { self[SyslogOptions.self] = newValue }
    }
}

extension Limits {
    /// RFC 5424, sections 6 and 6.1.
    package enum Syslog {
        package static let appNameByteCountMax = 48
        package static let messageIDByteCountMax = 32
        /// 32 minus `_` and eight hexadecimal digits.
        package static let cutMessageIDByteCount = 23
        package static let hostNameByteCountMax = 255
        package static let parameterNameByteCountMax = 32
        /// The size that every receiver "SHOULD" accept.
        package static let messageByteCountMax = 2048
        /// Not documented; keeps parts small enough for common tools.
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
    }
}
