internal import WaybillSystem
internal import WaybillExport
internal import WaybillJSON

/// Members whose values no one who looks at the page may see.
///
///     --mask user,data.email      "user":"masked-3f2a91c07b", and the same below "overrides"
///
/// A value becomes a name that is made with a secret of this process: equal values keep equal names, so a person's events
/// stay together, and no one can compute the name of a value that they guess.
package struct Mask: Sendable {
    /// Why members cannot be masked.
    package struct Failure: Error, Hashable, CustomStringConvertible {
        package let description: String
    }

    /// The page cannot do without them, and they say nothing about a person.
    private static let needed: Set<String> = ["v", "ts", "env", "bundle", "kind"]

    private let paths: [[String]]
    private let secret: [UInt8]

    package static let none = Mask(paths: [], secret: [])

    private init(paths: [[String]], secret: [UInt8]) {
        self.paths = paths
        self.secret = secret
    }

    /// Reads paths such as `user,data.email`.
    ///
    /// - Parameter secret: at least 16 random bytes.
    package init(_ list: String, secret: [UInt8]) throws(Failure) {
        var paths: [[String]] = []
        for item in list.split(separator: ",", omittingEmptySubsequences: false) {
            let path = item.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
            guard path.allSatisfy({ !$0.isEmpty && !$0.contains(" ") }) else {
                throw Failure(
                    description: "--mask: \"\(item)\" does not name a member; write paths such as user,data.email")
            }
            guard !Self.needed.contains(path[0]) else {
                throw Failure(description: "--mask: the page needs the member \"\(path[0])\"; leave it out")
            }
            paths.append(path)
        }
        self.init(paths: paths, secret: secret)
    }

    package var isEmpty: Bool { self.paths.isEmpty }

    /// What stands for a value.
    func name(of value: some Collection<UInt8>) -> String {
        let digest = SHA256.digest(self.secret + value)
        return "masked-" + Hexadecimal.text(digest.prefix(5))
    }

    /// The line with names in place of values; `nil` if it has none of the members.
    ///
    /// - Parameter tape: of the line.
    func masked(_ tape: borrowing JSONTape, _ source: SourceDescription) -> [UInt8]? {
        guard !self.isEmpty else { return nil }
        var ranges: [(range: Range<Int>, index: Int)] = []
        let paths = self.paths(in: source)
        self.find(paths, in: 0, tape, &ranges)
        if let overrides = tape.firstValue(of: "overrides", in: 0), tape[overrides].kind == .object {
            var providers = tape.members(of: overrides)
            while let (_, value) = providers.next(in: tape) { self.find(paths, in: value, tape, &ranges) }
        }
        guard !ranges.isEmpty else { return nil }
        ranges.sort { $0.range.lowerBound < $1.range.lowerBound }
        var line: [UInt8] = []
        var position = 0
        // An outer value comes before those inside of it, which it hides.
        for (range, index) in ranges where range.lowerBound >= position {
            line += tape.source[position..<range.lowerBound]
            let body = tape.bytes(of: index)
            let value = tape[index].kind == .string ? Array(JSONText.string(body).utf8) : Array(body)
            line += Array("\"\(self.name(of: value))\"".utf8)
            position = range.upperBound
        }
        return line + tape.source[position...]
    }

    /// The paths, with the names that a log of another program has for the same members.
    private func paths(in source: SourceDescription) -> [[String]] {
        guard source.isForeign else { return self.paths }
        let aliases = [("user", source.userMember), ("anon", source.anonymousMember), ("name", source.nameMember)]
        return self.paths
            + self.paths.flatMap { path in
                aliases.compactMap { name, alias in path[0] == name ? alias.map { [$0] + path.dropFirst() } : nil }
            }
    }

    /// Adds the values that the paths lead to, from an object or the objects of an array.
    private func find(
        _ paths: [[String]], in index: Int, _ tape: borrowing JSONTape,
        _ ranges: inout [(range: Range<Int>, index: Int)]
    ) {
        switch tape[index].kind {
        case .object:
            var members = tape.members(of: index)
            while let (key, value) = members.next(in: tape) {
                let name = JSONText.string(tape.bytes(of: key))
                let matching = paths.filter { $0[0] == name }
                guard !matching.isEmpty else { continue }
                if matching.contains(where: { $0.count == 1 }) {
                    guard tape[value].kind != .null else { continue }
                    let entry = tape[value]
                    let quote = entry.kind == .string ? 1 : 0
                    ranges.append(((Int(entry.start) - quote)..<(Int(entry.end) + quote), value))
                } else {
                    self.find(matching.map { Array($0.dropFirst()) }, in: value, tape, &ranges)
                }
            }
        case .array:
            var element = index + 1
            while element < Int(tape[index].next) {
                self.find(paths, in: element, tape, &ranges)
                element = Int(tape[element].next)
            }
        case .null, .false, .true, .number, .string: break
        }
    }
}
