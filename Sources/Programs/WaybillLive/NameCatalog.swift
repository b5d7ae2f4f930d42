internal import WaybillExport
internal import WaybillReport
internal import WaybillSystem

/// The names of events, and of their properties with types and versions, as far back as they were read.
///
/// Bounded: what does not fit is counted and not kept, so that names made by a mistake cannot fill the memory.
package struct NameCatalog {
    package struct Limits: Sendable {
        package var nameCount = 2_000
        package var propertyCount = 20_000
        package var propertyCountPerName = 200
        package var versionCount = 20

        package init() {}
    }

    private struct Key: Hashable {
        let name: String
        let kind: String
    }

    /// How often something came, and when and from which versions.
    private struct Tally {
        var count = 0
        var first: WallTime
        var last: WallTime
        var versions: [String] = []

        init(_ time: WallTime) {
            self.first = time
            self.last = time
        }

        mutating func add(_ time: WallTime, _ version: String?, _ limits: Limits) {
            self.count += 1
            self.first = min(self.first, time)
            self.last = max(self.last, time)
            if let version, !self.versions.contains(version), self.versions.count < limits.versionCount {
                self.versions.append(version)
            }
        }
    }

    private struct Entry {
        var tally: Tally
        /// By path and type.
        var properties: [String: [String: Tally]] = [:]
    }

    private let limits: Limits
    private var entries: [Key: Entry] = [:]
    private var propertyCount = 0
    /// Names and properties that found no room.
    package private(set) var omittedCount = 0

    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// Takes the names of an event.
    ///
    /// - Returns: what was not seen before: `name`, a property, or a property and the type that it has not had.
    package mutating func add(_ line: borrowing ShownLine) -> [String] {
        let key = Key(name: Self.cut(line.name), kind: line.kind)
        var news: [String] = []
        if self.entries[key] == nil {
            guard self.entries.count < self.limits.nameCount else {
                self.omittedCount += 1
                return []
            }
            self.entries[key] = Entry(tally: Tally(line.facts.time))
            news.append("name")
        }
        let isNew = !news.isEmpty
        let version = line.text("app").map(Self.cut)
        let time = line.facts.time
        var entry = self.entries[key] ?? Entry(tally: Tally(time))
        // Without a second reference the entry is changed in place.
        self.entries[key] = nil
        entry.tally.add(time, version, self.limits)
        line.forEachProperty { path, type in
            let path = Self.cut(path)
            let types = entry.properties[path]
            if types == nil {
                guard self.propertyCount < self.limits.propertyCount,
                    entry.properties.count < self.limits.propertyCountPerName
                else {
                    self.omittedCount += 1
                    return
                }
                self.propertyCount += 1
                if !isNew { news.append(path) }
            } else if types?[type] == nil, type != Self.null {
                news.append("\(path):\(type)")
            }
            entry.properties[path, default: [:]][type, default: Tally(time)].add(time, version, self.limits)
        }
        self.entries[key] = entry
        return news
    }

    private static let null = "null"

    private static func cut(_ text: String) -> String {
        ShownText.cut(text, to: 200)
    }

    /// The answer of `/api/names`: everything that was read, of all environments and apps, as `names.json`.
    package var json: [UInt8] {
        let sorted = self.entries.sorted { ($0.key.name, $0.key.kind) < ($1.key.name, $1.key.kind) }
        let document = NamesDocument(
            names: sorted.map { key, entry in
                NamesDocument.Name(
                    name: key.name, kind: key.kind, count: entry.tally.count, first: entry.tally.first,
                    last: entry.tally.last, versions: entry.tally.versions.sorted(),
                    properties: entry.properties.sorted { $0.key < $1.key }.map(Self.property))
            })
        return document.json
    }

    private static func property(_ path: String, _ types: [String: Tally]) -> NamesDocument.Property {
        NamesDocument.Property(
            path: path, count: types.values.reduce(0) { $0 + $1.count },
            first: types.values.map(\.first).min() ?? WallTime(milliseconds: 0),
            last: types.values.map(\.last).max() ?? WallTime(milliseconds: 0),
            types: types.filter { $0.key != Self.null }.sorted { $0.key < $1.key }.map { type, tally in
                NamesDocument.PropertyType(name: type, count: tally.count, versions: tally.versions.sorted())
            })
    }
}

/// Text in tables: of bounded length, whatever an event says.
enum ShownText {
    static func cut(_ text: String, to count: Int = 256) -> String {
        guard text.utf8.count > count else { return text }
        // A character may have any number of scalars.
        let scalars = text.unicodeScalars
        guard scalars.count > count else { return text }
        return String(String.UnicodeScalarView(scalars.prefix(count - 1))) + "…"
    }
}
