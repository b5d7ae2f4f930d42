internal import WaybillJSON
internal import WaybillSystem

/// Texts, each stored once and known by a number: rows of a report are compact because they hold numbers.
///
///     "Home" → 1, "com.example" → 2, …        0 is the absence of a text
///
/// A UUID in lower case is stored as 17 bytes: 0xFF, which no UTF-8 text begins with, and its 16 bytes. Numbers depend
/// on the order of arrival; nothing that is printed depends on them.
struct StringTable: Sendable {
    /// The number that stands for no text.
    static var none: UInt32 { 0 }

    private static var uuidMark: UInt8 { 0xFF }
    private static var packedByteCount: Int { 17 }

    private var bytes: [UInt8] = []
    /// Where each text ends in ``bytes``; text 0 is empty.
    private var ends: [Int] = [0]
    /// Open addressing, at most three quarters full: 0 when free, else the number of a text.
    ///
    /// Above it is the upper half of its hash, which tells most texts apart without a look at them.
    private var slots: [UInt64]
    private let seed: UInt64

    init() {
        self.slots = [UInt64](repeating: 0, count: 1024)
        // Differs from process to process, so that no input can be made to collide.
        self.seed = UInt64(bitPattern: Int64("seed".hashValue))
    }

    /// How many numbers are in use, 0 included.
    var count: Int { self.ends.count }
    var byteCount: Int { self.bytes.count }

    /// The number of a text, which is added if it is new.
    mutating func intern(_ text: UnsafeRawBufferPointer) -> UInt32 {
        guard text.count == 36 else { return self.insert(text) }
        return withUnsafeTemporaryAllocation(byteCount: Self.packedByteCount, alignment: 8) { packed in
            self.insert(Self.pack(text, into: packed) ? UnsafeRawBufferPointer(packed) : text)
        }
    }

    mutating func intern(_ text: String) -> UInt32 {
        var text = text
        return text.withUTF8 { self.intern(UnsafeRawBufferPointer($0)) }
    }

    /// The number of a text; 0 if it is not here.
    func find(_ text: String) -> UInt32 {
        var text = text
        return text.withUTF8 { text in
            let raw = UnsafeRawBufferPointer(text)
            return withUnsafeTemporaryAllocation(byteCount: Self.packedByteCount, alignment: 8) { packed in
                let key = Self.pack(raw, into: packed) ? UnsafeRawBufferPointer(packed) : raw
                return UInt32(truncatingIfNeeded: self.slots[self.place(of: key, self.hash(key))])
            }
        }
    }

    /// Whether a number's text is `text`, which is not a UUID.
    func isEqual(_ number: UInt32, _ text: StaticString) -> Bool {
        self.withStored(number) { JSONText.equals($0, isEscaped: false, text) }
    }

    /// The text with a number.
    func text(_ number: UInt32) -> String {
        self.withStored(number) { Self.text($0) }
    }

    private static func text(_ stored: UnsafeRawBufferPointer) -> String {
        self.isPacked(stored) ? self.uuid(stored) : String(decoding: stored, as: UTF8.self)
    }

    /// Whether the first text comes before the second in the order of their bytes; no text comes last.
    func isOrdered(_ left: UInt32, _ right: UInt32) -> Bool {
        if left == right || left == 0 { return false }
        if right == 0 { return true }
        return self.withStored(left) { a in self.withStored(right) { b in Self.isOrdered(a, b) } }
    }

    /// Whether a text comes before another, both as they are stored.
    static func isOrdered(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        if self.isPacked(left) == self.isPacked(right) { return left.lexicographicallyPrecedes(right) }
        return self.text(left).utf8.lexicographicallyPrecedes(self.text(right).utf8)
    }

    /// The numbers of all texts, in the order of the texts.
    func ordered() -> [UInt32] {
        let numbers = 1..<UInt32(self.count)
        var keys: [(start: UInt64, number: UInt32)] = []
        keys.reserveCapacity(numbers.count)
        for number in numbers {
            let start = self.withStored(number) { stored -> UInt64? in
                guard Self.isPacked(stored) else { return nil }
                return UInt64(bigEndian: stored.loadUnaligned(fromByteOffset: 1, as: UInt64.self))
            }
            // The start of a UUID says nothing about its place among other texts.
            guard let start else { return numbers.sorted(by: self.isOrdered) }
            keys.append((start, number))
        }
        keys.sort { $0.start == $1.start ? self.isOrdered($0.number, $1.number) : $0.start < $1.start }
        return keys.map(\.number)
    }

    /// Adds every text of another table.
    ///
    /// - Returns: this table's number for each of the other's.
    mutating func absorb(_ other: StringTable) -> [UInt32] {
        (0..<UInt32(other.count)).map { number in
            number == 0 ? 0 : other.withStored(number) { self.insert($0) }
        }
    }

    /// The time in a UUID of version 7, in milliseconds since 1970; `nil` for other texts.
    func uuidTime(_ number: UInt32) -> Int64? {
        self.withStored(number) { stored in
            guard Self.isPacked(stored), stored[7] >> 4 == 7 else { return nil }
            return stored[1...6].reduce(Int64(0)) { $0 << 8 | Int64($1) }
        }
    }

    // MARK: Files

    func write(to output: inout RowOutput) {
        output.append(self.bytes)
        output.append(self.ends)
    }

    /// Reads a table; `nil` if the bytes are not one.
    init?(_ input: inout RowInput) {
        self.init()
        guard let bytes = input.numbers(UInt8.self), let ends = input.numbers(Int.self), ends.first == 0,
            ends.last == bytes.count, zip(ends, ends.dropFirst()).allSatisfy({ $0 <= $1 })
        else { return nil }
        self.bytes = bytes
        self.ends = ends
        var count = self.slots.count
        while Self.isCrowded(ends.count, count) { count *= 2 }
        self.place(into: count)
    }

    // MARK: Storage

    /// Calls `body` with a text as it is stored.
    func withStored<Result, Failure: Error>(
        _ number: UInt32, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try self.bytes.withBytes { (bytes) throws(Failure) in
            let start = number == 0 ? 0 : self.ends[Int(number) - 1]
            return try body(UnsafeRawBufferPointer(rebasing: bytes[start..<self.ends[Int(number)]]))
        }
    }

    private mutating func insert(_ key: UnsafeRawBufferPointer) -> UInt32 {
        let hash = self.hash(key)
        let place = self.place(of: key, hash)
        if self.slots[place] != 0 { return UInt32(truncatingIfNeeded: self.slots[place]) }
        let number = UInt32(self.ends.count)
        self.bytes.append(contentsOf: key)
        self.ends.append(self.bytes.count)
        self.slots[place] = Self.slot(number, hash)
        if Self.isCrowded(self.ends.count, self.slots.count) { self.place(into: self.slots.count * 2) }
        return number
    }

    /// The slot of a text, or the free one where it belongs.
    private func place(of key: UnsafeRawBufferPointer, _ hash: UInt64) -> Int {
        let mask = self.slots.count - 1
        let mark = hash >> 32
        var place = Int(truncatingIfNeeded: hash) & mask
        while true {
            let slot = self.slots[place]
            if slot == 0 { return place }
            let number = UInt32(truncatingIfNeeded: slot)
            if slot >> 32 == mark, self.withStored(number, { JSONText.equals($0, key) }) { return place }
            place = (place + 1) & mask
        }
    }

    private static func slot(_ number: UInt32, _ hash: UInt64) -> UInt64 { (hash >> 32) << 32 | UInt64(number) }

    private static func isCrowded(_ textCount: Int, _ slotCount: Int) -> Bool { textCount * 4 > slotCount * 3 }

    /// Gives the texts so many slots.
    private mutating func place(into count: Int) {
        self.slots = []
        self.slots = [UInt64](repeating: 0, count: count)
        for number in 1..<UInt32(self.ends.count) {
            let hash = self.withStored(number) { self.hash($0) }
            var place = Int(truncatingIfNeeded: hash) & (count - 1)
            while self.slots[place] != 0 { place = (place + 1) & (count - 1) }
            self.slots[place] = Self.slot(number, hash)
        }
    }

    /// Folds eight bytes at a time with a full multiplication.
    private func hash(_ key: UnsafeRawBufferPointer) -> UInt64 {
        var state = self.seed ^ UInt64(key.count) &* 0x9E37_79B9_7F4A_7C15
        var at = 0
        while at < key.count {
            var word: UInt64 = 0
            if at &+ 8 <= key.count {
                word = key.loadUnaligned(fromByteOffset: at, as: UInt64.self)
            } else {
                for byte in key[at...] { word = word << 8 | UInt64(byte) }
            }
            let product = (state ^ word).multipliedFullWidth(by: 0xD6E8_FEB8_6659_FD93)
            state = product.high ^ product.low
            at &+= 8
        }
        return state
    }

    // MARK: UUIDs

    private static func isPacked(_ stored: UnsafeRawBufferPointer) -> Bool {
        stored.count == Self.packedByteCount && stored[0] == Self.uuidMark
    }

    /// - Returns: `false` if the text is not a UUID in lower case.
    private static func pack(_ text: UnsafeRawBufferPointer, into packed: UnsafeMutableRawBufferPointer) -> Bool {
        guard text.count == 36, text[8] == self.hyphen, text[13] == self.hyphen, text[18] == self.hyphen,
            text[23] == self.hyphen
        else { return false }
        func four(_ offset: Int) -> UInt64 {
            UInt64(UInt32(littleEndian: text.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
        }
        var isValid = true
        func store(_ digits: UInt64, at offset: Int) {
            let bytes = self.bytes(ofDigits: digits, &isValid)
            packed.storeBytes(of: bytes.littleEndian, toByteOffset: offset, as: UInt32.self)
        }
        packed[0] = self.uuidMark
        store(four(0) | four(4) << 32, at: 1)
        store(four(9) | four(14) << 32, at: 5)
        store(four(19) | four(24) << 32, at: 9)
        store(four(28) | four(32) << 32, at: 13)
        return isValid
    }

    private static var hyphen: UInt8 { UInt8(ascii: "-") }

    /// The four bytes that eight digits in lower case stand for, all of them at once; the first digit is in the lowest
    /// byte.
    @inline(__always)
    private static func bytes(ofDigits digits: UInt64, _ isValid: inout Bool) -> UInt32 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        // Letters have bit 6: "a" is 0x61.
        let values = (digits & (ones &* 0x0F)) &+ ((digits >> 6) & ones) &* 9
        let letters = ((values &+ ones &* 6) >> 4) & ones
        isValid = isValid && values & (ones &* 0xF0) == 0 && values &+ ones &* 0x30 &+ letters &* 0x27 == digits
        let pairs = (values << 4 | values >> 8) & 0x00FF_00FF_00FF_00FF
        let halves = (pairs | pairs >> 8) & 0x0000_FFFF_0000_FFFF
        return UInt32(truncatingIfNeeded: halves | halves >> 16)
    }

    private static func uuid(_ packed: UnsafeRawBufferPointer) -> String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        text.reserveCapacity(36)
        for (index, byte) in packed.dropFirst().enumerated() {
            if index == 4 || index == 6 || index == 8 || index == 10 { text.append(UInt8(ascii: "-")) }
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }
}
