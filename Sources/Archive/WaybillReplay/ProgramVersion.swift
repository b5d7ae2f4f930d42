internal import WaybillProjection

/// A version of the program, three numbers and dots: 0.1.0.
package struct ProgramVersion: Hashable, Comparable, Sendable {
    private let numbers: [Int]

    /// `nil` if the text is not a version; what follows a `-` does not count.
    package init?(_ text: String) {
        let numbers = text.prefix { $0 != "-" }.split(separator: ".", omittingEmptySubsequences: false).map { Int($0) }
        guard numbers.count == 3, numbers.allSatisfy({ $0.map { (0...9_999).contains($0) } ?? false }) else {
            return nil
        }
        self.numbers = numbers.compactMap(\.self)
    }

    package static func < (left: ProgramVersion, right: ProgramVersion) -> Bool {
        left.numbers.lexicographicallyPrecedes(right.numbers)
    }

    /// The first of these lines that ended this version, or a later one, or one that is unknown: this version may not
    /// read them either.
    func firstEnded(of poison: PoisonedLines?) -> PoisonedLine? {
        poison?.lines.first { line in ProgramVersion(line.version).map { $0 >= self } ?? true }
    }

    /// Why lines that ended this version, or a later one than was named, are not read.
    static func mayEndAgain(_ version: String) -> String {
        "lines ended version \(version) of the program, so they may end it again; name a later version with "
            + "--after-version, once it runs here"
    }
}
