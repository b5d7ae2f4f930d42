internal import WaybillProtocol
package import WaybillSystem

/// Names in the journal's folder.
package enum JournalPath {
    package static func segment(_ position: JournalPosition, in directory: String) -> String {
        Path.join(directory, ZeroPadded.text(position.rawValue, digitCount: 20) + ".journal")
    }

    /// The positions of the segments in a folder, sorted.
    package static func segments(
        in directory: String, _ files: some FileSystem
    ) throws(FileSystemError) -> [JournalPosition] {
        try files.list(directory).compactMap(Self.position(ofSegment:)).sorted()
    }

    /// The position in a segment's name; `nil` for any other file.
    package static func position(ofSegment name: String) -> JournalPosition? {
        let digits = name.utf8.prefix(20)
        // `Int` accepts a sign; our names have none. Positions have the same limit as the protocol's integers.
        guard name.utf8.count == 28, name.hasSuffix(".journal"),
            digits.allSatisfy(Self.isDigit),
            let value = Int(name.prefix(20)), value <= LineProtocol.integerMax
        else { return nil }
        return JournalPosition(value)
    }

    /// The position in the name of a file that a start set aside, or of a group left by a start that died; `nil` for
    /// any other file, which is never deleted.
    ///
    ///     268435900.torn-1                         268435900.group      268435900.group.tmp
    ///     00000000000268435612.journal.torn-1      00000000000268435612.journal.suspect-1
    static func position(ofLeftover name: String) -> JournalPosition? {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        guard let first = parts.first, first.utf8.allSatisfy(Self.isDigit), let value = Int(first),
            value <= LineProtocol.integerMax
        else { return nil }
        switch parts.count {
        case 2 where parts[1] == "group": break
        case 2 where Self.isNumbered(parts[1], "torn-"): break
        case 3 where parts[1] == "group" && parts[2] == "tmp": break
        case 3 where Self.position(ofSegment: "\(first).\(parts[1])") != nil:
            guard Self.isNumbered(parts[2], "torn-") || Self.isNumbered(parts[2], "suspect-") else { return nil }
        default: return nil
        }
        return JournalPosition(value)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }

    private static func isNumbered(_ text: Substring, _ prefix: String) -> Bool {
        let number = text.dropFirst(prefix.count)
        return text.hasPrefix(prefix) && !number.isEmpty && number.utf8.allSatisfy(Self.isDigit)
    }

    static func unused(_ path: String, _ files: some FileSystem) throws(FileSystemError) -> String {
        var number = 1
        while try files.status(at: "\(path)-\(number)") != nil { number += 1 }
        return "\(path)-\(number)"
    }
}
