internal import WaybillJSON

/// Finds what a strict JSON reader refuses: a number that binary64 cannot hold, an unpaired surrogate, a repeated name.
///
/// RFC 8259 leaves all three to the reader (sections 4, 6 and 8.2), RFC 7493 forbids them. A provider whose reader
/// refuses one of them refuses the whole request.
enum JSONFaults {
    /// A number without an exponent that is shorter than this is less than 10^308.
    private static let digitCountMax = 308

    /// Whether a number is too large for binary64.
    static func isTooLarge(_ number: UnsafeRawBufferPointer) -> Bool {
        // The shortest too large one is `1e309`.
        guard number.count >= 5 else { return false }
        if number.count < Self.digitCountMax, !number.contains(where: { $0 | 0x20 == UInt8(ascii: "e") }) {
            return false
        }
        return Double(String(decoding: number, as: UTF8.self))?.isFinite != true
    }

    /// Whether the body of a string has the escape of half a character.
    static func hasLoneSurrogate(_ body: UnsafeRawBufferPointer) -> Bool {
        var at = 0
        while at < body.count {
            guard body[at] == UInt8(ascii: "\\") else {
                at += 1
                continue
            }
            guard body[at + 1] == UInt8(ascii: "u") else {
                at += 2
                continue
            }
            guard let kind = Self.surrogate(body, at) else {
                at += 6
                continue
            }
            guard kind == .high, at + 12 <= body.count, body[at + 6] == UInt8(ascii: "\\"),
                body[at + 7] == UInt8(ascii: "u"), Self.surrogate(body, at + 6) == .low
            else { return true }
            at += 12
        }
        return false
    }

    private enum Surrogate {
        case high, low
    }

    /// Which half of a character the escape at `at` encodes: `\uD8xx` to `\uDBxx`, or `\uDCxx` to `\uDFxx`.
    private static func surrogate(_ body: UnsafeRawBufferPointer, _ at: Int) -> Surrogate? {
        guard body[at + 2] | 0x20 == UInt8(ascii: "d") else { return nil }
        switch body[at + 3] | 0x20 {
        case UInt8(ascii: "8"), UInt8(ascii: "9"), UInt8(ascii: "a"), UInt8(ascii: "b"): return .high
        case UInt8(ascii: "c"), UInt8(ascii: "d"), UInt8(ascii: "e"), UInt8(ascii: "f"): return .low
        default: return nil
        }
    }

    /// Whether any value of a parsed line may have one of the faults, except for the names of the line's own members.
    ///
    /// May be true for a line without faults whose names have escapes; ``LineRepair`` then changes nothing.
    @inline(__always)
    static func mayOccur(in tape: borrowing JSONTape, _ names: inout NameSet) -> Bool {
        for index in 1..<max(tape.count, 1) {
            let entry = tape[index]
            switch entry.kind {
            case .number:
                if Self.isTooLarge(tape.bytes(of: index)) { return true }
            case .string:
                if entry.traits.contains(.hasEscapes), Self.hasLoneSurrogate(tape.bytes(of: index)) { return true }
            case .object:
                if Self.mayRepeatName(index, in: tape, &names) { return true }
            case .null, .false, .true, .array: continue
            }
        }
        return false
    }

    @inline(__always)
    private static func mayRepeatName(_ object: Int, in tape: borrowing JSONTape, _ names: inout NameSet) -> Bool {
        var members = tape.members(of: object)
        guard let first = members.next(in: tape), var next = members.next(in: tape) else { return false }
        names.removeAll()
        if Self.isRepeated(first.key, in: tape, &names) { return true }
        while true {
            if Self.isRepeated(next.key, in: tape, &names) { return true }
            guard let member = members.next(in: tape) else { return false }
            next = member
        }
    }

    /// Adds a name to those of an object; returns whether it may be there already.
    @inline(__always)
    static func isRepeated(_ key: Int, in tape: borrowing JSONTape, _ names: inout NameSet) -> Bool {
        let entry = tape[key]
        return entry.traits.contains(.hasEscapes) || !names.insert(Int(entry.start)..<Int(entry.end), in: tape.source)
    }
}
