internal import WaybillJSON

/// Rewrites a line that not every JSON reader accepts, before a provider's rules.
///
/// A number that binary64 cannot hold becomes a string of its digits, an unpaired surrogate U+FFFD; of members with one
/// name the first stays; a `user` or `anon` that is a number becomes its digits. The repaired object is written after a copy of
/// the line, so that offsets into the line stay valid:
///
///     {"v":1,"name":"tap","data":{"a":1e999}}{"v":1,"name":"tap","data":{"a":"1e999"}}
///     |<------------- the line ------------->|<- bytes from `start` ---------------->|
///
/// Lines that need it are rare, so it may allocate. One owner.
struct LineRepair: ~Copyable {
    private var json = JSONWriter()
    private var text = ByteBuilder(capacity: 64)
    /// Where the repaired object begins in ``bytes``.
    private(set) var start = 0
    private(set) var fixes = FixCounts()
    private var isStrict = true

    var bytes: UnsafeRawBufferPointer { self.json.output.bytes }

    /// - Parameter isStrict: whether to repair all faults; otherwise only `user` and `anon`.
    mutating func write(_ event: borrowing MappedEvent, isStrict: Bool) {
        self.json.removeAll()
        self.fixes = FixCounts()
        self.isStrict = isStrict
        self.json.output.append(event.tape.source)
        self.start = self.json.output.count
        let people = (event.index(.user), event.index(.anon))
        self.json.beginObject()
        var members = event.tape.members(of: 0)
        var names = Set<[UInt8]>()
        while let (key, value) = members.next(in: event.tape) {
            guard self.beginMember(key, of: event.tape, &names) else { continue }
            if value == people.0 || value == people.1, event.tape[value].kind == .number {
                self.writeDigits(value, of: event.tape)
            } else {
                self.write(value, of: event.tape)
            }
        }
        self.json.endObject()
    }

    private mutating func write(_ index: Int, of tape: borrowing JSONTape) {
        switch tape[index].kind {
        case .null, .false, .true: self.json.verbatim(tape.bytes(of: index))
        case .number:
            if self.isStrict, JSONFaults.isTooLarge(tape.bytes(of: index)) {
                self.writeDigits(index, of: tape)
            } else {
                self.json.verbatim(tape.bytes(of: index))
            }
        case .string:
            if self.findLoneSurrogate(index, of: tape) {
                self.json.string(self.text.bytes)
            } else {
                self.json.string(plain: tape.bytes(of: index))
            }
        case .array:
            self.json.beginArray()
            var element = index + 1
            while element < Int(tape[index].next) {
                self.write(element, of: tape)
                element = Int(tape[element].next)
            }
            self.json.endArray()
        case .object:
            self.json.beginObject()
            var members = tape.members(of: index)
            var names = Set<[UInt8]>()
            while let (key, value) = members.next(in: tape) {
                if self.beginMember(key, of: tape, &names) { self.write(value, of: tape) }
            }
            self.json.endObject()
        }
    }

    private mutating func writeDigits(_ index: Int, of tape: borrowing JSONTape) {
        self.fixes.count(.coerce)
        self.json.string(plain: tape.bytes(of: index))
    }

    /// Writes a name; false if the object already has a member of that name.
    private mutating func beginMember(_ key: Int, of tape: borrowing JSONTape, _ names: inout Set<[UInt8]>) -> Bool {
        let isRepaired = self.findLoneSurrogate(key, of: tape)
        guard self.isStrict else {
            self.json.key(plain: tape.bytes(of: key))
            return true
        }
        if !isRepaired {
            self.text.removeAll()
            JSONText.unescape(tape.bytes(of: key), into: &self.text)
        }
        guard names.insert(Array(self.text.bytes)).inserted else {
            self.fixes.count(.dropField)
            return false
        }
        if isRepaired { self.json.key(self.text.bytes) } else { self.json.key(plain: tape.bytes(of: key)) }
        return true
    }

    /// Whether a string has half a character; ``text`` then is the repaired one.
    private mutating func findLoneSurrogate(_ index: Int, of tape: borrowing JSONTape) -> Bool {
        guard self.isStrict, tape[index].traits.contains(.hasEscapes),
            JSONFaults.hasLoneSurrogate(tape.bytes(of: index))
        else { return false }
        self.fixes.count(.badText)
        self.text.removeAll()
        JSONText.unescape(tape.bytes(of: index), into: &self.text)
        return true
    }
}
