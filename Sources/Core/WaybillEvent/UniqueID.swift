/// A UUID (RFC 9562) as two words, most significant first.
package struct UniqueID: Hashable, Sendable {
    package let high: UInt64
    package let low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Version 4: random except for the six bits of version and variant.
    package static func random(_ generator: inout some RandomNumberGenerator) -> UniqueID {
        UniqueID(
            high: generator.next() & 0xFFFF_FFFF_FFFF_0FFF | 0x4000,
            low: generator.next() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
    }

    /// Version 7: the time, then a counter of 12 bits, then 62 random bits.
    fileprivate static func timed(_ milliseconds: UInt64, counter: UInt64, random: UInt64) -> UniqueID {
        UniqueID(
            high: milliseconds << 16 | 0x7000 | counter & 0xFFF,
            low: random & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
    }

    /// A single version 7 id: it sorts by time, but not relative to others of the same millisecond.
    package static func timed(_ milliseconds: Int64, _ generator: inout some RandomNumberGenerator) -> UniqueID {
        let random = generator.next()
        return self.timed(UInt64(clamping: milliseconds), counter: random >> 52, random: generator.next())
    }

    /// Reads ``text``; `nil` for anything else.
    package init?(text: String) {
        guard text.utf8.count == 36 else { return nil }
        var words: (high: UInt64, low: UInt64) = (0, 0)
        for (index, byte) in text.utf8.enumerated() {
            if [8, 13, 18, 23].contains(index) {
                guard byte == UInt8(ascii: "-") else { return nil }
                continue
            }
            let digit: UInt8
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
            default: return nil
            }
            if index < 18 {
                words.high = words.high << 4 | UInt64(digit)
            } else {
                words.low = words.low << 4 | UInt64(digit)
            }
        }
        self.init(high: words.high, low: words.low)
    }

    /// The id as 36 lower-case characters.
    package var text: String {
        var buffer = LineBuffer(capacity: 36)
        buffer.append(self)
        return String(decoding: buffer.bytes, as: UTF8.self)
    }
}

extension LineBuffer {
    /// Appends the 36 characters of a UUID.
    package mutating func append(_ id: UniqueID) {
        self.fill(36) { $0.put(id) }
    }
}

/// Generates version 7 ids that strictly increase, whatever the clock does.
///
/// Within a millisecond the counter increases (RFC 9562, section 6.2, method 1). When it is full or the clock went
/// back, the last time is kept or increased by one, so an id may have a later time than its event's `ts`.
package struct UniqueIDSequence: Sendable {
    private var milliseconds: UInt64 = 0
    private var counter: UInt64 = 0

    package init() {}

    package mutating func next(at milliseconds: Int64, random: UInt64) -> UniqueID {
        let now = UInt64(clamping: milliseconds)
        if now > self.milliseconds {
            self.milliseconds = now
            // The top bit stays free: at least 2048 ids fit in a millisecond.
            self.counter = random >> 53
        } else if self.counter < 0xFFF {
            self.counter += 1
        } else {
            self.milliseconds += 1
            self.counter = 0
        }
        return .timed(self.milliseconds, counter: self.counter, random: random)
    }
}
