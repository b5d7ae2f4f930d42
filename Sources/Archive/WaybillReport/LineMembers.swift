internal import WaybillExport
internal import WaybillJSON

/// Where a value is in a line, with its quotes or brackets.
///
/// Positions have 32 bits, as on a tape: a line is at most 1 MiB.
struct ValueSpan {
    private var lower: Int32 = -1
    private var upper: Int32 = 0
    var kind = JSONKind.null

    init() {}

    init(_ value: Range<Int>, _ kind: JSONKind) {
        self.take(value, kind)
    }

    var isPresent: Bool { self.lower >= 0 }
    var start: Int { Int(self.lower) }
    var end: Int { Int(self.upper) }

    /// Takes the first value of that name.
    @inline(__always)
    mutating func take(_ value: Range<Int>, _ kind: JSONKind) {
        guard !self.isPresent else { return }
        self.lower = Int32(truncatingIfNeeded: value.lowerBound)
        self.upper = Int32(truncatingIfNeeded: value.upperBound)
        self.kind = kind
    }

    /// The bytes of a string without its quotes, or of another value; `nil` if it is missing.
    @inline(__always)
    func body(in line: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard self.isPresent else { return nil }
        return self.kind == .string
            ? UnsafeRawBufferPointer(rebasing: line[(self.start + 1)..<(self.end - 1)])
            : UnsafeRawBufferPointer(rebasing: line[self.start..<self.end])
    }

    /// A whole number; a decimal one is rounded.
    func integer(in line: UnsafeRawBufferPointer) -> Int64? {
        guard self.kind == .number || self.kind == .string, let body = self.body(in: line), body.count <= 32 else {
            return nil
        }
        var value: Int64 = 0
        var isPlain = !body.isEmpty && body.count <= 18
        for byte in body where isPlain {
            guard byte &- 0x30 < 10 else {
                isPlain = false
                break
            }
            value = value &* 10 &+ Int64(byte &- 0x30)
        }
        if isPlain { return value }
        let text = String(decoding: body, as: UTF8.self)
        return Int64(text) ?? Double(text).flatMap { Int64(exactly: $0.rounded()) }
    }
}

/// The members of one line that reports use; of each name the first counts.
struct LineMembers {
    var id = ValueSpan()
    var time = ValueSpan()
    var writer = ValueSpan()
    var sequence = ValueSpan()
    var kind = ValueSpan()
    var name = ValueSpan()
    var screen = ValueSpan()
    var previous = ValueSpan()
    var previousMilliseconds = ValueSpan()
    var session = ValueSpan()
    var user = ValueSpan()
    var install = ValueSpan()
    var version = ValueSpan()
    var systemVersion = ValueSpan()
    var bundle = ValueSpan()
    var data = ValueSpan()
    var traits = ValueSpan()

    /// Takes a member by its unescaped name; length and first byte leave one candidate.
    @inline(__always)
    mutating func take(_ key: UnsafeRawBufferPointer, _ value: Range<Int>, _ kind: JSONKind) {
        guard let first = key.first else { return }
        switch key.count {
        case 2:
            if JSONText.equals(key, isEscaped: false, "id") {
                self.id.take(value, kind)
            } else if JSONText.equals(key, isEscaped: false, "ts") {
                self.time.take(value, kind)
            }
        case 3:
            if JSONText.equals(key, isEscaped: false, "seq") {
                self.sequence.take(value, kind)
            } else if JSONText.equals(key, isEscaped: false, "app") {
                self.version.take(value, kind)
            }
        case 4: self.takeFour(key, first, value, kind)
        case 6:
            switch first {
            case UInt8(ascii: "w"):
                if JSONText.equals(key, isEscaped: false, "writer") { self.writer.take(value, kind) }
            case UInt8(ascii: "s"):
                if JSONText.equals(key, isEscaped: false, "screen") { self.screen.take(value, kind) }
            case UInt8(ascii: "b"):
                if JSONText.equals(key, isEscaped: false, "bundle") { self.bundle.take(value, kind) }
            default: if JSONText.equals(key, isEscaped: false, "traits") { self.traits.take(value, kind) }
            }
        case 7:
            if JSONText.equals(key, isEscaped: false, "session") {
                self.session.take(value, kind)
            } else if JSONText.equals(key, isEscaped: false, "prev_ms") {
                self.previousMilliseconds.take(value, kind)
            }
        case 10: if JSONText.equals(key, isEscaped: false, "os_version") { self.systemVersion.take(value, kind) }
        default: break
        }
    }

    @inline(__always)
    private mutating func takeFour(
        _ key: UnsafeRawBufferPointer, _ first: UInt8, _ value: Range<Int>, _ kind: JSONKind
    ) {
        switch first {
        case UInt8(ascii: "k"): if JSONText.equals(key, isEscaped: false, "kind") { self.kind.take(value, kind) }
        case UInt8(ascii: "n"): if JSONText.equals(key, isEscaped: false, "name") { self.name.take(value, kind) }
        case UInt8(ascii: "u"): if JSONText.equals(key, isEscaped: false, "user") { self.user.take(value, kind) }
        case UInt8(ascii: "a"): if JSONText.equals(key, isEscaped: false, "anon") { self.install.take(value, kind) }
        case UInt8(ascii: "d"): if JSONText.equals(key, isEscaped: false, "data") { self.data.take(value, kind) }
        case UInt8(ascii: "p"): if JSONText.equals(key, isEscaped: false, "prev") { self.previous.take(value, kind) }
        default: break
        }
    }
}
