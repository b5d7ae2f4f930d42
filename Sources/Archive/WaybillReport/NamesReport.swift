internal import WaybillSystem

/// The catalogue of events: which there are, and what their fields are.
extension Analysis {
    private struct Event: Hashable {
        let name: UInt32
        let kind: RowKind
    }

    /// One field of an event over all its types and versions.
    private struct Field {
        var counts: [ValueType: Int] = [:]
        var versions: [ValueType: Set<UInt32>] = [:]
        var entry = CatalogueEntry()

        mutating func add(_ key: CatalogueKey, _ other: CatalogueEntry) {
            self.counts[key.type, default: 0] += other.count
            self.versions[key.type, default: []].insert(key.version)
            self.entry.add(other)
        }
    }

    /// The catalogue of everything that is kept, whatever `--where` admits.
    func namesDocument(app: String?) -> NamesDocument {
        var events: [Event: [UInt32: Field]] = [:]
        for (key, entry) in self.table.catalogue {
            let event = Event(name: key.name, kind: key.kind)
            events[event, default: [:]][key.property, default: Field()].add(key, entry)
        }
        let people = self.peopleOfNames()
        let sorted = events.sorted { left, right in
            left.key.name == right.key.name
                ? left.key.kind.name < right.key.kind.name
                : self.table.strings.isOrdered(left.key.name, right.key.name)
        }
        let names = sorted.map { event, fields -> NamesDocument.Name in
            // The event itself has no property.
            let whole = fields[0] ?? Field()
            let properties = fields.filter { $0.key != 0 }.sorted {
                self.table.strings.isOrdered($0.key, $1.key)
            }
            return NamesDocument.Name(
                name: self.table.strings.text(event.name), kind: event.kind.name, count: whole.entry.count,
                people: people[event] ?? 0, first: WallTime(milliseconds: whole.entry.first),
                last: WallTime(milliseconds: whole.entry.last), versions: self.texts(whole.versions[.none]),
                properties: properties.map { self.property(self.table.strings.text($0.key), $0.value) })
        }
        return NamesDocument(environment: self.request.options.env, app: app, names: names)
    }

    private func property(_ name: String, _ field: Field) -> NamesDocument.Property {
        let types = ValueType.allCases.filter { $0 != .none && field.counts[$0] != nil }
        return NamesDocument.Property(
            path: "data." + name, count: field.entry.count, first: WallTime(milliseconds: field.entry.first),
            last: WallTime(milliseconds: field.entry.last),
            types: types.map { type in
                NamesDocument.PropertyType(
                    name: type.name, count: field.counts[type] ?? 0, versions: self.texts(field.versions[type]))
            })
    }

    private func texts(_ numbers: Set<UInt32>?) -> [String] {
        (numbers ?? []).filter { $0 != 0 }.map { self.table.strings.text($0) }.sorted(by: String.isOrdered)
    }

    private func peopleOfNames() -> [Event: Int] {
        var counts: [RowKind: PeopleCount] = [:]
        for row in self.table.rows where row.isActive {
            counts[row.kind, default: PeopleCount()].add(row.person, to: row.name)
        }
        var people: [Event: Int] = [:]
        for (kind, count) in counts {
            for (name, number) in count.counts() { people[Event(name: name, kind: kind)] = number }
        }
        return people
    }

    /// The catalogue as a report.
    func names() -> Report {
        var report = Report(
            name: "names", title: "Names",
            definition:
                "All names in all that is kept, with the times of their first and last events, and for each field "
                + "of data how often it has which type, and in which versions of the app. A conflict is a field with "
                + "two types; integer and number are one.",
            notes: self.notes,
            columns: [
                .init("name", .text), .init("kind", .text), .init("property", .text), .init("events", .count),
                .init("people", .count), .init("first", .text), .init("last", .text), .init("types", .text),
                .init("versions", .text), .init("conflict", .text),
            ])
        for name in self.namesDocument(app: nil).names {
            report.rows.append([
                .text(name.name), .text(name.kind), .empty, .count(name.count), .count(name.people ?? 0),
                .text(name.first.text), .text(name.last.text), .text(""),
                .text(name.versions.joined(separator: " ")), .text(""),
            ])
            for property in name.properties {
                let types = property.types.map { "\($0.name) \($0.count)" }
                let versionsOfTypes = property.types.map { "\($0.name): \($0.versions.joined(separator: " "))" }
                let versions =
                    property.isConflict
                    ? versionsOfTypes.joined(separator: ", ") : property.versions.joined(separator: " ")
                report.rows.append([
                    .text(name.name), .text(name.kind), .text(String(property.path.dropFirst("data.".count))),
                    .count(property.count), .empty, .text(property.first.text), .text(property.last.text),
                    .text(types.joined(separator: ", ")),
                    .text(versions), .text(property.isConflict ? "yes" : ""),
                ])
            }
        }
        return report
    }
}
