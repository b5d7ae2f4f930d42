internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// Decides whether a line is an event, for the archive and for every export: one scan, no allocation.
///
/// Waybill's own lines have `ts`, `name`, `env` and `bundle`. For a foreign line the source sets `env` and `bundle`;
/// its time is the member that the source names, otherwise the first present of `ts`, `time`, `timestamp`,
/// `@timestamp`, `__REALTIME_TIMESTAMP`; its name is likewise the member that the source names, otherwise `name`,
/// `event`, or the constant "log". Its `kind` is `user` only if `traits` is an object.
package struct EventReader: Sendable {
    /// The days of an archive, 2000-01-01 to 2099-12-31.
    ///
    /// The bounds are fixed, so that the result depends on the line alone and not on a clock that may be wrong.
    private static let range: ClosedRange<Int64> = 946_684_800_000...4_102_444_799_999

    package let source: SourceDescription
    private let timeMember: [UInt8]?
    private let nameMember: [UInt8]?
    private let userMember: [UInt8]
    private let anonymousMember: [UInt8]
    /// Whether the owner may write foreign lines, whose `env` and `bundle` are the source's.
    private let isSourceAllowed: Bool
    /// The people whose lines are not read; `nil`: no one was erased.
    private let erased: ErasedPeople?
    /// The lines of the stream that are not read.
    package let poison: PoisonOffsets

    package init(source: SourceDescription, erased: ErasedPeople? = nil, poison: PoisonOffsets = .none) {
        self.source = source
        self.erased = erased
        self.poison = poison
        self.timeMember = source.timeMember.map { Array($0.utf8) }
        self.nameMember = source.nameMember.map { Array($0.utf8) }
        self.userMember = Array((source.userMember ?? "user").utf8)
        self.anonymousMember = Array((source.anonymousMember ?? "anon").utf8)
        self.isSourceAllowed = source.patterns.allow(source.env, source.bundle)
    }

    /// Reads the line at `offset` of its stream, without its line feed, unless the archive has set it aside.
    @inline(__always)
    package func read(_ line: UnsafeRawBufferPointer, at offset: UInt64) -> EventReading {
        if let readers = self.poison.readers(at: offset), readers.contains(PoisonOffsets.archive) {
            return .quarantine(readers.contains(PoisonOffsets.erased) ? .erased : .poison)
        }
        return self.read(line)
    }

    /// Reads one line, without its line feed.
    package func read(_ line: UnsafeRawBufferPointer) -> EventReading {
        guard line.count <= Limits.lineByteCountMax else { return .quarantine(self.reason(.tooLong, of: line)) }
        do throws(JSONError) {
            return self.source.isForeign
                ? try self.readForeign(line) : try self.readOwn(line)
        } catch {
            return .quarantine(self.reason(for: error, in: line))
        }
    }

    private func readOwn(_ line: UnsafeRawBufferPointer) throws(JSONError) -> EventReading {
        var members = OwnMembers()
        let start = JSONText.byteOrderMarkByteCount(line)
        try JSONScanner.scanMembers(line, from: start) { key, traits, value, valueKind in
            // Only these keys matter; most others differ in length.
            let body = UnsafeRawBufferPointer(rebasing: line[key])
            if traits.contains(.hasEscapes) {
                switch EventField.named(escaped: body) {
                case .v: members.version.take(value, valueKind)
                case .ts: members.time.take(value, valueKind)
                case .env: members.env.take(value, valueKind)
                case .name: members.name.take(value, valueKind)
                case .kind: members.kind.take(value, valueKind)
                case .bundle: members.bundle.take(value, valueKind)
                case .user: members.user.take(value, valueKind)
                case .anon: members.anon.take(value, valueKind)
                default: break
                }
                return
            }
            switch body.count {
            case 1 where JSONText.equals(body, isEscaped: false, "v"): members.version.take(value, valueKind)
            case 2 where JSONText.equals(body, isEscaped: false, "ts"): members.time.take(value, valueKind)
            case 3 where JSONText.equals(body, isEscaped: false, "env"): members.env.take(value, valueKind)
            case 4:
                if JSONText.equals(body, isEscaped: false, "name") {
                    members.name.take(value, valueKind)
                } else if JSONText.equals(body, isEscaped: false, "kind") {
                    members.kind.take(value, valueKind)
                } else if self.erased != nil {
                    if JSONText.equals(body, isEscaped: false, "user") { members.user.take(value, valueKind) }
                    if JSONText.equals(body, isEscaped: false, "anon") { members.anon.take(value, valueKind) }
                }
            case 6 where JSONText.equals(body, isEscaped: false, "bundle"): members.bundle.take(value, valueKind)
            default: break
            }
        }
        return self.judge(members, of: line)
    }

    /// Decides about one of Waybill's own lines by the members that matter.
    @inline(__always)
    func judge(_ members: OwnMembers, of line: UnsafeRawBufferPointer) -> EventReading {
        if let erased, self.isErased(members.user, members.anon, of: line, erased) { return .quarantine(.erased) }
        let (version, time, env) = (members.version, members.time, members.env)
        let (name, bundle) = (members.name, members.bundle)
        if version.isPresent, !version.isOne(in: line) { return .quarantine(.badVersion) }
        guard time.isPresent else { return .quarantine(.noTime) }
        guard time.kind == .string,
            let milliseconds = TimeText.parse(UnsafeRawBufferPointer(rebasing: line[time.body]))
        else { return .quarantine(.badTime) }
        guard Self.range.contains(milliseconds) else { return .quarantine(.timeOutOfRange) }
        guard name.isText else { return .quarantine(.noName) }
        guard env.isPresent else { return .quarantine(.noEnv) }
        guard env.kind == .string, let environment = Self.environment(UnsafeRawBufferPointer(rebasing: line[env.body]))
        else { return .quarantine(.badEnv) }
        guard bundle.isText else { return .quarantine(.noBundle) }
        guard self.source.patterns.allow(environment, inLine: UnsafeRawBufferPointer(rebasing: line[bundle.body]))
        else { return .quarantine(.notAllowed) }
        return .event(
            EventFacts(
                time: WallTime(milliseconds: milliseconds), env: environment, bundle: bundle.body, name: name.body,
                kind: Self.kind(members.kind, in: line), timeOffset: time.start))
    }

    private func readForeign(_ line: UnsafeRawBufferPointer) throws(JSONError) -> EventReading {
        var time = RankedMember()
        var name = RankedMember()
        var kind = Member()
        var traits = Member()
        var user = Member()
        var anon = Member()
        let start = JSONText.byteOrderMarkByteCount(line)
        try JSONScanner.scanMembers(line, from: start) { key, keyTraits, value, valueKind in
            let body = UnsafeRawBufferPointer(rebasing: line[key])
            let isEscaped = keyTraits.contains(.hasEscapes)
            if let rank = self.timeRank(body, isEscaped) { time.take(value, valueKind, rank: rank) }
            if valueKind == .string, value.count > 2, let rank = self.nameRank(body, isEscaped) {
                name.take(value, valueKind, rank: rank)
            }
            if JSONText.equals(body, isEscaped: isEscaped, "kind") { kind.take(value, valueKind) }
            if JSONText.equals(body, isEscaped: isEscaped, "traits") { traits.take(value, valueKind) }
            if self.erased != nil {
                if Self.equals(body, isEscaped, self.userMember) { user.take(value, valueKind) }
                if Self.equals(body, isEscaped, self.anonymousMember) { anon.take(value, valueKind) }
            }
        }
        if let erased, self.isErased(user, anon, of: line, erased) { return .quarantine(.erased) }
        guard time.rank != RankedMember.none else { return .quarantine(.noTime) }
        guard let milliseconds = Self.foreignTime(time.member, in: line) else { return .quarantine(.badTime) }
        guard Self.range.contains(milliseconds) else { return .quarantine(.timeOutOfRange) }
        guard self.isSourceAllowed else { return .quarantine(.notAllowed) }
        return .event(
            EventFacts(
                time: WallTime(milliseconds: milliseconds), env: self.source.env, bundle: nil,
                name: name.rank == RankedMember.none ? nil : name.member.body,
                kind: Self.foreignKind(kind, traits, in: line),
                timeOffset: time.member.start))
    }

    private func isErased(
        _ user: Member, _ anon: Member, of line: UnsafeRawBufferPointer, _ erased: ErasedPeople
    ) -> Bool {
        erased.contains(user, .user, in: line) || erased.contains(anon, .anon, in: line)
    }

    /// The kind of a foreign line, which is about a user only if it has traits.
    private static func foreignKind(_ kind: Member, _ traits: Member, in line: UnsafeRawBufferPointer) -> EventKind? {
        let named = Self.kind(kind, in: line)
        return named == .user && traits.kind != .object ? nil : named
    }

    /// A member's rank among those that may have the time; 0 is the one that the source names.
    @inline(__always)
    private func timeRank(_ key: UnsafeRawBufferPointer, _ isEscaped: Bool) -> Int? {
        if let named = self.timeMember, Self.equals(key, isEscaped, named) { return 0 }
        if isEscaped {
            for (index, name) in ["ts", "time", "timestamp", "@timestamp", "__REALTIME_TIMESTAMP"].enumerated()
            where JSONText.string(key) == name {
                return index + 1
            }
            return nil
        }
        switch key.count {
        case 2: return JSONText.equals(key, isEscaped: false, "ts") ? 1 : nil
        case 4: return JSONText.equals(key, isEscaped: false, "time") ? 2 : nil
        case 9: return JSONText.equals(key, isEscaped: false, "timestamp") ? 3 : nil
        case 10: return JSONText.equals(key, isEscaped: false, "@timestamp") ? 4 : nil
        case 20: return JSONText.equals(key, isEscaped: false, "__REALTIME_TIMESTAMP") ? 5 : nil
        default: return nil
        }
    }

    @inline(__always)
    private func nameRank(_ key: UnsafeRawBufferPointer, _ isEscaped: Bool) -> Int? {
        if let named = self.nameMember, Self.equals(key, isEscaped, named) { return 0 }
        if JSONText.equals(key, isEscaped: isEscaped, "name") { return 1 }
        if JSONText.equals(key, isEscaped: isEscaped, "event") { return 2 }
        return nil
    }

    @inline(__always)
    private static func equals(_ key: UnsafeRawBufferPointer, _ isEscaped: Bool, _ name: [UInt8]) -> Bool {
        name.withUnsafeBytes { name in
            isEscaped ? JSONText.unescapedEquals(key, name) : JSONText.equals(key, name)
        }
    }

    /// The time in a foreign line: RFC 3339 text, or a count since 1970 as a number or in a string.
    private static func foreignTime(_ member: Member, in line: UnsafeRawBufferPointer) -> Int64? {
        switch member.kind {
        case .number:
            return TimeText.parse(number: UnsafeRawBufferPointer(rebasing: line[member.start..<member.end]))
        case .string:
            let body = UnsafeRawBufferPointer(rebasing: line[member.body])
            return TimeText.parse(body) ?? TimeText.parse(number: body)
        case .null, .false, .true, .array, .object:
            return nil
        }
    }

    @inline(__always)
    private static func environment(_ body: UnsafeRawBufferPointer) -> DeploymentEnvironment? {
        if JSONText.equals(body, isEscaped: false, "prod") { return .prod }
        if JSONText.equals(body, isEscaped: false, "dev") { return .dev }
        if JSONText.equals(body, isEscaped: false, "internal") { return .internal }
        return JSONText.hasEscapes(body) ? DeploymentEnvironment(rawValue: JSONText.string(body)) : nil
    }

    @inline(__always)
    private static func kind(_ member: Member, in line: UnsafeRawBufferPointer) -> EventKind? {
        guard member.isPresent else { return .event }
        guard member.kind == .string else { return nil }
        let body = UnsafeRawBufferPointer(rebasing: line[member.body])
        if JSONText.equals(body, isEscaped: false, "action") { return .action }
        if JSONText.equals(body, isEscaped: false, "screen") { return .screen }
        if JSONText.equals(body, isEscaped: false, "event") { return .event }
        if JSONText.equals(body, isEscaped: false, "user") { return .user }
        if JSONText.equals(body, isEscaped: false, "meta") { return .meta }
        return JSONText.hasEscapes(body) ? EventKind(rawValue: JSONText.string(body)) : nil
    }

    /// The reason for a line that cannot be parsed, unless it names an erased person.
    func reason(for error: JSONError, in line: UnsafeRawBufferPointer) -> QuarantineReason {
        self.reason(Self.reason(for: error, in: line), of: line)
    }

    private func reason(_ reason: QuarantineReason, of line: UnsafeRawBufferPointer) -> QuarantineReason {
        let isErased =
            self.erased?.areIn(
                broken: line, userMember: self.source.userMember ?? "user",
                anonymousMember: self.source.anonymousMember ?? "anon") ?? false
        return isErased ? .erased : reason
    }

    /// The reason for the quarantine; it does not depend on where in the line the scan stopped.
    private static func reason(for error: JSONError, in line: UnsafeRawBufferPointer) -> QuarantineReason {
        if line.contains(0) { return .nul }
        if UTF8Text.firstInvalidOffset(in: line) != nil { return .badUTF8 }
        switch error.code {
        case .empty: return .empty
        case .notObject: return .notObject
        case .tooLong: return .tooLong
        case .truncated, .trailingBytes, .expectedKey, .expectedColon, .expectedValue, .expectedCommaOrEnd, .badNumber,
            .badEscape, .controlCharacter, .badUTF8, .tooDeep:
            return .notJSON
        }
    }
}

/// The members that decide whether one of Waybill's own lines is an event.
struct OwnMembers {
    var version = Member()
    var time = Member()
    var env = Member()
    var name = Member()
    var kind = Member()
    var bundle = Member()
    /// Found only where people were erased.
    var user = Member()
    var anon = Member()
}

/// A top-level member of a line; the first of its name counts.
struct Member {
    var start = -1
    var end = 0
    var kind = JSONKind.null

    var isPresent: Bool { self.start >= 0 }
    /// A string with at least one character.
    var isText: Bool { self.isPresent && self.kind == .string && self.end - self.start > 2 }
    /// The bytes inside the quotes.
    var body: Range<Int> { (self.start + 1)..<(self.end - 1) }

    func isOne(in line: UnsafeRawBufferPointer) -> Bool {
        self.kind == .number && self.end - self.start == 1 && line[self.start] == UInt8(ascii: "1")
    }

    @inline(__always)
    mutating func take(_ value: Range<Int>, _ kind: JSONKind) {
        guard !self.isPresent else { return }
        self.start = value.lowerBound
        self.end = value.upperBound
        self.kind = kind
    }
}

/// The highest-ranked of several possible members.
private struct RankedMember {
    static let none = Int.max

    var member = Member()
    var rank = Self.none

    @inline(__always)
    mutating func take(_ value: Range<Int>, _ kind: JSONKind, rank: Int) {
        guard rank < self.rank else { return }
        self.member = Member(start: value.lowerBound, end: value.upperBound, kind: kind)
        self.rank = rank
    }
}
