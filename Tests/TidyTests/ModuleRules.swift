/// The table of rooms and modules in ARCHITECTURE.md, with what each may not import.
struct ModuleTable {
    /// By room (`Core`) and module (`WaybillJSON`): a room, `packages`, or a name in backticks, with `…` for any ending.
    let forbidden: [String: [String]]
    /// By module, the files to start reading at.
    let entries: [String: [String]]

    /// - Parameter page: its section "Modules" has the table.
    init(page: String) {
        let lines = page.split(separator: "\n").drop { $0 != "## Modules" }.dropFirst().prefix { !$0.hasPrefix("## ") }
        var (forbidden, entries): ([String: [String]], [String: [String]]) = ([:], [:])
        for line in lines {
            let cells = line.split(separator: "|", omittingEmptySubsequences: false)
            guard cells.count == 6, let name = Self.name(cells[1]) else { continue }
            forbidden[name] = Self.terms(cells[3])
            entries[name] = Self.terms(cells[4]).map { $0.replacing("`", with: "") }
        }
        self.forbidden = forbidden
        self.entries = entries
    }

    private static func terms(_ cell: Substring) -> [String] {
        cell.split { $0 == "," || $0 == " " }.map(String.init)
    }

    /// `**Core**`, or `` `WaybillUI` (product) ``.
    private static func name(_ cell: Substring) -> String? {
        guard let first = cell.dropFirst().first, first == "*" || first == "`" else { return nil }
        return cell.split { $0 == "*" || $0 == "`" || $0 == " " }.first.map(String.init)
    }
}

/// Rules about the modules that are no tests, and the picture of those that products hold.
extension ImportGraph {
    /// What tests run; no product holds it.
    private static let support = "Tests/Support"

    /// By module, the folder that it is in: `Core`, `Tests/Support`.
    var rooms: [String: String] {
        let targets = self.manifest.targets.filter { !$0.isTest && self.isSwift($0) }
        return Dictionary(
            uniqueKeysWithValues: targets.map { target in
                let parent = target.folder.split(separator: "/").dropLast().joined(separator: "/")
                return (target.name, parent.hasPrefix("Sources/") ? String(parent.dropFirst(8)) : parent)
            })
    }

    /// What is wrong with the modules, or with the table of what they may not import.
    func problems(with table: ModuleTable) -> [String] {
        let rooms = self.rooms
        let rows = Set(rooms.keys).union(rooms.values).sorted()
        var found = rows.filter { table.forbidden[$0, default: []].isEmpty }.map {
            "\($0): its row does not say what it may not import"
        }
        found += table.forbidden.keys.filter { !rows.contains($0) }.sorted().map { "\($0) is no module and no room" }
        for term in Set(table.forbidden.values.joined()).sorted() where self.modules(term, rooms).isEmpty {
            found.append("\(term) names no room, no module and no import")
        }
        for (name, room) in rooms.sorted(by: { $0.key < $1.key }) {
            let ways = self.ways(from: name)
            for term in table.forbidden[room, default: []] + table.forbidden[name, default: []] {
                found += self.modules(term, rooms).intersection(ways.keys).sorted().map { other in
                    "\(name) may not import \(term): \(ways[other, default: []].joined(separator: " → "))"
                }
            }
        }
        return found
    }

    /// A Mermaid flowchart of the modules, without imports that others imply.
    var picture: String {
        let rooms = self.rooms.filter { $0.value != Self.support }
        var lines = ["flowchart LR"]
        for room in Set(rooms.values).sorted() {
            let names = rooms.filter { $0.value == room }.keys.sorted()
            lines += ["    subgraph \(room)"] + names.map { "        \($0)" } + ["    end"]
        }
        for name in rooms.keys.sorted() {
            let direct = self.direct(name).intersection(rooms.keys)
            let implied = Set(direct.flatMap { self.ways(from: $0).keys })
            lines += direct.subtracting(implied).sorted().map { "    \(name) --> \($0)" }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The modules that one imports, itself or through others of this package, each with a shortest way to it.
    private func ways(from name: String) -> [String: [String]] {
        var ways = [name: [name]]
        var waiting = [name]
        while !waiting.isEmpty {
            let module = waiting.removeFirst()
            for other in self.direct(module).sorted() where ways[other] == nil {
                ways[other] = ways[module, default: []] + [other]
                waiting.append(other)
            }
        }
        ways[name] = nil
        return ways
    }

    /// The modules that a term of the table stands for.
    private func modules(_ term: String, _ rooms: [String: String]) -> Set<String> {
        let own = Set(self.manifest.targets.map(\.module))
        if term == "packages" { return Set(self.manifest.targets.flatMap(\.dependencies)).subtracting(own) }
        guard term.hasPrefix("`"), term.hasSuffix("`") else { return Set(rooms.filter { $0.value == term }.keys) }
        let name = term.dropFirst().dropLast()
        let known = Set(rooms.keys).union(rooms.keys.flatMap(self.direct))
        return known.filter { name.last == "…" ? $0.hasPrefix(name.dropLast()) : $0 == name }
    }
}
