internal import WaybillEvent
internal import WaybillJSON

/// `POST /v1/events`: Waybill's own events, one a line, of programs without its library.
///
/// Members of a line stay as they are, but for those that the key and this host decide: `env`, `bundle`, `writer`, `seq`, `via`,
/// and `up` and `dt`, which count in the writer that the event had. What has no `id` gets one, what has no `ts` the time of
/// receipt, what has no `kind` is an `event`; a member that is `null` is not there, and a user's number is its digits. Each
/// member must be what `Protocol/event.schema.json` says; members that the schema does not know stay.
struct NativeDialect {
    var context: IngestContext

    private static let decided: [StaticString] = [
        "v", "id", "writer", "seq", "via", "ts", "env", "bundle", "up", "dt", "kind", "name",
    ]
    private static let kinds: [StaticString] = ["event", "action", "screen", "user", "meta"]

    mutating func read(_ body: [UInt8], into batch: inout IngestBatch) {
        body.withUnsafeBytes { bytes in
            var start = JSONText.byteOrderMarkByteCount(bytes)
            while start < bytes.count, !batch.isTooLarge {
                let end = bytes[start...].firstIndex(of: 0x0A) ?? bytes.count
                let line = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
                if line.contains(where: { !$0.isBlank }) {
                    batch.event(at: start..<end) { (batch) throws(IngestFault) in try self.read(line, into: &batch) }
                }
                start = end + 1
            }
        }
    }

    private mutating func read(_ line: UnsafeRawBufferPointer, into batch: inout IngestBatch) throws(IngestFault) {
        let tape = try Self.tape(of: line)
        let name = try tape.name("name", in: 0)
        let kind = try Self.kind(of: tape)
        if let version = tape.value("v", in: 0), tape.tape[version].kind != .null {
            let isOne = JSONText.equals(tape.tape.bytes(of: version), isEscaped: false, "1")
            guard isOne, tape.tape[version].kind == .number else { throw .badMember }
        }
        if JSONText.equals(kind, isEscaped: false, "meta"), tape.string("name", in: 0)?.hasPrefix("wb.") != true {
            throw .badMember
        }
        let time = self.context.time(tape.time("ts", in: 0), tape)
        let id = self.context.id("id", in: 0, tape)
        let members = try Self.members(of: tape, kind: kind, without: time.isUnusable ? .clientTime : nil)
        let source = self.context.source
        try batch.addLine(id, at: time.time) { json in
            json.key("kind")
            json.string(plain: kind)
            json.key("name")
            json.value(name, tape.tape)
            json.member("ts_client", time.client)
            for (key, value) in members { json.native(key, value, tape.tape) }
            json.member("bundle", source.bundle)
            json.member("env", source.environment.rawValue)
        }
        if time.isUnusable { batch.remark(.badTime) }
    }

    private static func tape(of line: UnsafeRawBufferPointer) throws(IngestFault) -> EventTape {
        do throws(JSONError) {
            return try EventTape(line)
        } catch {
            throw error.code == .notObject ? .notAnObject : .notJSON
        }
    }

    private static func kind(of tape: borrowing EventTape) throws(IngestFault) -> UnsafeRawBufferPointer {
        guard let value = tape.value("kind", in: 0), tape.tape[value].kind != .null else {
            return UnsafeRawBufferPointer(start: Self.kinds[0].utf8Start, count: Self.kinds[0].utf8CodeUnitCount)
        }
        let kind = tape.tape.bytes(of: value)
        guard tape.tape[value].kind == .string,
            Self.kinds.contains(where: { JSONText.equals(kind, isEscaped: false, $0) })
        else { throw .unknownType }
        return kind
    }

    /// Keys and values of the members that the line keeps; of two with one name, the first.
    ///
    /// - Parameter taken: one that this host decides.
    private static func members(
        of tape: borrowing EventTape, kind: UnsafeRawBufferPointer, without taken: NativeMember?
    ) throws(IngestFault) -> [(key: Int, value: Int)] {
        var members: [(key: Int, value: Int)] = []
        var seen = Set<NativeMember>()
        var walk = tape.tape.members(of: 0)
        while let (key, value) = walk.next(in: tape.tape) {
            let name = tape.tape.bytes(of: key)
            let isEscaped = tape.tape[key].traits.contains(.hasEscapes)
            if Self.decided.contains(where: { JSONText.equals(name, isEscaped: isEscaped, $0) }) { continue }
            guard let member = NativeMember(name, isEscaped: isEscaped) else {
                members.append((key, value))
                continue
            }
            guard seen.insert(member).inserted else { continue }
            guard tape.tape[value].kind != .null else {
                seen.remove(member)
                continue
            }
            guard member.allows(value, tape) else { throw member.fault }
            if member != taken { members.append((key, value)) }
        }
        if JSONText.equals(kind, isEscaped: false, "user"), !seen.contains(.traits) { throw .badTraits }
        if JSONText.equals(kind, isEscaped: false, "screen"), !seen.contains(.screen) { throw .badMember }
        return members
    }
}

extension JSONWriter {
    /// Writes a member of one of Waybill's own events.
    fileprivate mutating func native(_ key: Int, _ value: Int, _ tape: borrowing JSONTape) {
        let name = tape.bytes(of: key)
        let isEscaped = tape[key].traits.contains(.hasEscapes)
        self.key(plain: name)
        let isID = NativeMember(name, isEscaped: isEscaped).map { $0 == .user || $0 == .anon } ?? false
        if isID, tape[value].kind == .number {
            self.string(plain: tape.bytes(of: value))
        } else {
            self.element(value, tape)
        }
    }
}

/// The members that a sender may give one of Waybill's own events (`Protocol/event.schema.json`).
private enum NativeMember: String, CaseIterable {
    case clientTime = "ts_client"
    case screen, prev, session, user, anon, ids, traits, app, build, os, model, lang, country, tz, log, data
    case providers, overrides, consent
    case screenClass = "screen_class"
    case screenID = "screen_id"
    case previousMilliseconds = "prev_ms"
    case sessionNumber = "session_n"
    case traitsOnce = "traits_once"
    case traitsAdd = "traits_add"
    case osVersion = "os_version"
    case userAgent = "user_agent"
    case sampleRate = "sample_rate"

    private static let named = Dictionary(uniqueKeysWithValues: Self.allCases.map { ($0.rawValue, $0) })

    init?(_ name: UnsafeRawBufferPointer, isEscaped: Bool) {
        let text = isEscaped ? JSONText.string(name) : String(decoding: name, as: UTF8.self)
        guard let member = Self.named[text] else { return nil }
        self = member
    }

    var fault: IngestFault {
        switch self {
        case .traits, .traitsOnce, .traitsAdd: .badTraits
        default: .badMember
        }
    }

    /// Whether a value is one that the schema allows.
    func allows(_ value: Int, _ event: borrowing EventTape) -> Bool {
        switch self {
        case .screen, .screenClass, .screenID, .prev, .osVersion, .model, .lang: Self.isText(value, event, 0...Int.max)
        case .app, .build, .os, .log: Self.isText(value, event, 1...Int.max)
        case .userAgent: Self.isText(value, event, 0...IngestLimits.userAgentByteCountMax)
        case .user: Self.isID(value, event, IngestLimits.userByteCountMax)
        case .anon: Self.isID(value, event, Int.max)
        case .session: Self.plain(value, event).flatMap { UniqueID(text: $0) }?.isSession ?? false
        case .clientTime: Self.isText(value, event, 0...IngestLimits.timeByteCountMax)
        case .country:
            Self.plain(value, event).map { $0.utf8.count == 2 && $0.utf8.allSatisfy { 65...90 ~= $0 } } ?? false
        case .previousMilliseconds, .sessionNumber: Self.isInteger(value, event, 0...(1 << 53) - 1)
        case .tz: Self.isInteger(value, event, -1440...1440)
        case .sampleRate: Self.isRate(value, event)
        case .traits, .data: event.tape[value].kind == .object
        case .ids: Self.hasMembers(value, event) { $0 == .string }
        case .traitsOnce: Self.hasMembers(value, event) { $0 != .null }
        case .traitsAdd: Self.hasMembers(value, event) { $0 == .number }
        case .consent:
            Self.hasMembers(value, event) { $0 == .true || $0 == .false } && event.value("analytics", in: value) != nil
                && event.value("ads", in: value) != nil
        case .providers: Self.isListOfTexts(value, event)
        case .overrides: Self.isOverrides(value, event)
        }
    }

    private static func isText(_ value: Int, _ event: borrowing EventTape, _ byteCounts: ClosedRange<Int>) -> Bool {
        event.tape[value].kind == .string && byteCounts.contains(event.byteCount(of: value))
    }

    private static func isID(_ value: Int, _ event: borrowing EventTape, _ byteCountMax: Int) -> Bool {
        event.tape[value].kind == .number && event.tape.bytes(of: value).count <= byteCountMax
            || self.isText(value, event, 1...byteCountMax)
    }

    /// The text of a string without escapes.
    private static func plain(_ value: Int, _ event: borrowing EventTape) -> String? {
        guard event.tape[value].kind == .string, !event.tape[value].traits.contains(.hasEscapes) else { return nil }
        return String(decoding: event.tape.bytes(of: value), as: UTF8.self)
    }

    private static func isInteger(_ value: Int, _ event: borrowing EventTape, _ range: ClosedRange<Int>) -> Bool {
        guard event.tape[value].kind == .number else { return false }
        return Int(String(decoding: event.tape.bytes(of: value), as: UTF8.self)).map { range.contains($0) } ?? false
    }

    private static func isRate(_ value: Int, _ event: borrowing EventTape) -> Bool {
        guard event.tape[value].kind == .number else { return false }
        return Double(String(decoding: event.tape.bytes(of: value), as: UTF8.self)).map { $0 > 0 && $0 <= 1 } ?? false
    }

    private static func hasMembers(
        _ value: Int, _ event: borrowing EventTape, where isAllowed: (JSONKind) -> Bool
    ) -> Bool {
        guard event.tape[value].kind == .object else { return false }
        var walk = event.tape.members(of: value)
        while let (_, member) = walk.next(in: event.tape) {
            guard isAllowed(event.tape[member].kind) else { return false }
        }
        return true
    }

    private static func isListOfTexts(_ value: Int, _ event: borrowing EventTape) -> Bool {
        guard event.tape[value].kind == .array else { return false }
        return event.elements(of: value).allSatisfy { self.isText($0, event, 1...Int.max) }
    }

    /// Of each provider one or more of `name`, `data` and `skip`, and nothing else.
    private static func isOverrides(_ value: Int, _ event: borrowing EventTape) -> Bool {
        guard event.tape[value].kind == .object else { return false }
        var walk = event.tape.members(of: value)
        while let (_, provider) = walk.next(in: event.tape) {
            guard event.tape[provider].kind == .object, event.hasMembers(provider, without: []),
                !event.hasMembers(provider, without: ["name", "data", "skip"])
            else { return false }
            if let name = event.value("name", in: provider), !self.isText(name, event, 1...Int.max) { return false }
            if let data = event.value("data", in: provider), event.tape[data].kind != .object { return false }
            if let skip = event.value("skip", in: provider), event.tape[skip].kind != .true { return false }
        }
        return true
    }
}

extension UniqueID {
    /// Whether it can be a session's: version 7.
    var isSession: Bool { self.high & 0xF000 == 0x7000 && self.low >> 62 == 2 }
}
