/// The kinds of text in which an ASCII character is allowed; other bytes are allowed in none.
struct CharacterTraits: OptionSet {
    let rawValue: UInt8

    /// An event's id: letters, digits, `-`, `_`, `.` and `:`.
    static let identifier = CharacterTraits(rawValue: 1)
    /// Mixpanel's `$insert_id`: letters, digits and `-`.
    static let insertID = CharacterTraits(rawValue: 2)
    /// A UUID: hexadecimal digits and `-`.
    static let uuid = CharacterTraits(rawValue: 4)

    /// The kinds in which all of a text's characters are allowed: one look-up each, no branch.
    @inline(__always)
    init(commonTo text: UnsafeRawBufferPointer) {
        let table = Self.table.utf8Start
        var common: UInt8 = 7
        for byte in text { common &= table[Int(byte)] }
        self.rawValue = common
    }

    init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The traits of each byte as a digit, 32 bytes a line: a constant needs no check for its initialization.
    private static let table: StaticString = """
        00000000000000000000000000000000\
        00000000000007107777777777100000\
        07777773333333333333333333300001\
        07777773333333333333333333300000\
        00000000000000000000000000000000\
        00000000000000000000000000000000\
        00000000000000000000000000000000\
        00000000000000000000000000000000
        """
}
