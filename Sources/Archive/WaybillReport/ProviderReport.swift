internal import WaybillData
internal import WaybillJSON
internal import WaybillSystem

/// The result of the events at each provider, as the exports and their deliveries record it.
extension Reporter {
    /// The counts of one provider's day.
    private struct Day {
        var exported = 0
        var refused: [String: Int] = [:]
        var held = 0
        var delivered = 0
        var dead = 0

        mutating func refuse(_ counts: [String: Int]) { self.refused.merge(counts) { $0 + $1 } }
    }

    func providers(_ analysis: Analysis) throws(ReportFailure) -> Report {
        var report = Report(
            name: "providers", title: "Providers",
            definition:
                "Each provider's day, as the exports record it: events that are in its files, refused ones with "
                + "their reasons, those held until the provider accepts them, those it has accepted, and those it "
                + "has not and never will. Skipped events are not for that provider and are not recorded. Days are "
                + "those of the export's zone, and all apps of the environment count.",
            notes: analysis.notes,
            columns: [
                .init("provider", .text), .init("day", .day), .init("exported", .count), .init("refused", .count),
                .init("reasons", .text), .init("held", .count), .init("delivered", .count), .init("dead", .count),
            ])
        do throws(FileSystemError) {
            for provider in try self.names(in: self.data.exports, prefix: "") where !provider.hasPrefix(".") {
                let environment = "exports/\(provider)/env=\(self.request.options.env)"
                for name in try self.names(in: Path.join(self.data.root, environment), prefix: "date=") {
                    guard let day = CalendarDay(String(name.dropFirst(5))),
                        analysis.range.contains(day.daysSince1970)
                    else { continue }
                    let counts = try self.counts(provider, "\(environment)/\(name)")
                    let reasons = counts.refused.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
                    report.rows.append([
                        .text(provider), analysis.day(day.daysSince1970), .count(counts.exported),
                        .count(counts.refused.values.reduce(0, +)), .text(reasons.joined(separator: ", ")),
                        .count(counts.held), .count(counts.delivered), .count(counts.dead),
                    ])
                }
            }
        } catch {
            throw .disk(error)
        }
        if report.rows.isEmpty { report.notes.append("no export has days of the range") }
        return report
    }

    /// The names in a folder, in order; none if it does not exist.
    private func names(in path: String, prefix: String) throws(FileSystemError) -> [String] {
        guard try self.data.files.status(at: path)?.kind == .directory else { return [] }
        return try self.data.files.list(path).filter { $0.hasPrefix(prefix) }.sorted()
    }

    private func counts(_ provider: String, _ folder: String) throws(FileSystemError) -> Day {
        var day = Day()
        let path = Path.join(self.data.root, folder)
        let names = try self.names(in: path, prefix: "")
        let entries =
            try StateImage.read(self.data.statePath("export-\(provider)"), files: self.data.files)?.entries ?? [:]
        var manifests: [String: JSONValue] = [:]
        for name in names where name.hasPrefix("part-") && name.hasSuffix(".manifest.json") {
            manifests[String(name.dropLast(".manifest.json".utf8.count))] = try self.json(Path.join(path, name))
        }
        // Closed, and not compressed yet.
        for (key, value) in entries where key.hasPrefix("closed:\(folder)/part-") {
            let stem = Path.name(of: key)
            if manifests[stem] == nil { manifests[stem] = JSONValue(Array(value.utf8)) }
        }
        let sealed = try self.json(Path.join(path, "manifest.json"))
        let sealedParts = Set(
            (sealed?["parts"]?.elements ?? []).compactMap { $0["name"]?.string?.prefix { $0 != "." } }.map(String.init))
        day.exported = sealed?["events"]?.count ?? 0
        day.refuse(sealed?["dead"]?.counts ?? [:])
        for (stem, manifest) in manifests where !sealedParts.contains(stem) {
            day.exported += manifest["events"]?.count ?? 0
            day.refuse(manifest["dead"]?.counts ?? [:])
        }
        if let open = entries["part:\(folder)"] { Self.add(open, isSealed: sealed != nil, to: &day) }
        try self.addDelivery(provider, folder, names, manifests, to: &day)
        return day
    }

    /// Adds the open part, as fields of a checkpoint.
    private static func add(_ fields: String, isSealed: Bool, to day: inout Day) {
        for field in fields.split(separator: " ") {
            guard let place = field.firstIndex(of: "="), let count = Int(field[field.index(after: place)...]) else {
                continue
            }
            let name = field[..<place]
            if name == "events" { day.exported += count }
            if name == "held", !isSealed { day.held = count }
            if name.hasPrefix("dead.") { day.refuse([String(name.dropFirst(5)): count]) }
        }
    }

    private func addDelivery(
        _ provider: String, _ folder: String, _ names: [String], _ manifests: [String: JSONValue], to day: inout Day
    ) throws(FileSystemError) {
        let dead = Path.join(Path.join(self.data.root, folder), "dead")
        for (stem, manifest) in manifests where names.contains(stem + ".delivered") {
            let letter = "delivery-" + stem.dropFirst("part-".utf8.count) + ".manifest.json"
            let mark = Path.join(Path.join(self.data.root, folder), stem + ".delivered")
            let letterCount = try self.json(Path.join(dead, letter))?["records"]?.count
            // In a fleet the dead letters may be another merger's.
            let refused = try self.deadCount(inMark: mark) ?? letterCount ?? 0
            day.delivered += max(0, (manifest["events"]?.count ?? 0) - refused)
            day.dead += refused
        }
        let state = Path.join(self.data.state, "deliver-\(provider).state")
        let entries = try StateImage.read(state, files: self.data.files)?.entries ?? [:]
        let prefix = "part:" + folder.dropFirst("exports/\(provider)/".utf8.count) + "/"
        for (key, value) in entries where key.hasPrefix(prefix) {
            guard !names.contains(key.dropFirst(prefix.utf8.count) + ".delivered") else { continue }
            for field in value.split(separator: " ") {
                if field.hasPrefix("sent=") { day.delivered += Int(field.dropFirst(5)) ?? 0 }
                if field.hasPrefix("dead=") { day.dead += Int(field.dropFirst(5)) ?? 0 }
            }
        }
    }

    /// The `dead=` of the second line of `.delivered`; `nil` outside a fleet.
    private func deadCount(inMark path: String) throws(FileSystemError) -> Int? {
        let mark = try self.data.files.contents(of: path, byteCountMax: 256) ?? []
        let fields = String(decoding: mark.drop { $0 != 0x0A }.dropFirst().prefix { $0 != 0x0A }, as: UTF8.self)
        return fields.split(separator: " ").first { $0.hasPrefix("dead=") }.flatMap { Int($0.dropFirst(5)) }
    }

    private func json(_ path: String) throws(FileSystemError) -> JSONValue? {
        try self.data.files.contents(of: path, byteCountMax: 32 << 20).flatMap { JSONValue($0) }
    }
}
