/// What an ASCII character may stand in; other bytes may stand in nothing.
struct CharacterTraits: OptionSet {
    let rawValue: UInt8

    /// An event's id: letters, digits, `-`, `_`, `.` and `:`.
    static let identifier = CharacterTraits(rawValue: 1)
    /// What Mixpanel takes in `$insert_id`: letters, digits and `-`.
    static let insertID = CharacterTraits(rawValue: 2)
    /// A UUID: hexadecimal digits and `-`.
    static let uuid = CharacterTraits(rawValue: 4)

    /// What all of a text's characters may stand in: one look-up each, no branch.
    @inline(__always)
    init(commonTo text: UnsafeRawBufferPointer) {
        let table = Self.table
        var common: UInt8 = 7
        for byte in text { common &= table[Int(byte)] }
        self.rawValue = common
    }

    init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The traits of each byte; made once, never freed.
    nonisolated(unsafe) private static let table: UnsafePointer<UInt8> = {
        let table = UnsafeMutablePointer<UInt8>.allocate(capacity: 256)
        table.initialize(repeating: 0, count: 256)
        for byte in "0123456789ABCDEFabcdef-".utf8 { table[Int(byte)] = 7 }
        for byte in "GHIJKLMNOPQRSTUVWXYZghijklmnopqrstuvwxyz".utf8 { table[Int(byte)] = 3 }
        for byte in "_.:".utf8 { table[Int(byte)] = 1 }
        return UnsafePointer(table)
    }()
}
