/// A set of ASCII characters, asked for one byte after the other without a branch for each range.
struct ByteSet {
    /// One bit for each of 0–63, and for each of 64–127.
    private let low: UInt64
    private let high: UInt64

    /// What an event's id may hold.
    static let identifier = ByteSet("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.:")
    /// What Mixpanel takes in `$insert_id`.
    static let insertID = ByteSet("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-")
    static let hexadecimal = ByteSet("0123456789ABCDEFabcdef")

    private init(_ characters: StaticString) {
        var (low, high) = (UInt64(0), UInt64(0))
        for index in 0..<characters.utf8CodeUnitCount {
            let byte = characters.utf8Start[index]
            if byte < 64 { low |= 1 << UInt64(byte) } else { high |= 1 << UInt64(byte - 64) }
        }
        self.low = low
        self.high = high
    }

    @inline(__always)
    func contains(_ byte: UInt8) -> Bool {
        let word = byte & 64 == 0 ? self.low : self.high
        return byte < 128 && word &>> UInt64(byte & 63) & 1 == 1
    }

    @inline(__always)
    func containsAll(_ text: UnsafeRawBufferPointer) -> Bool {
        var isMember = true
        for byte in text { isMember = isMember && self.contains(byte) }
        return isMember
    }
}
