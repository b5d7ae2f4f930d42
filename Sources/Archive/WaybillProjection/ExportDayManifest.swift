package import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
package import WaybillSystem

/// The contents of a sealed day of an export, as in the `manifest.json` in its folder.
///
/// - SeeAlso: `Protocol/formats/exports.md`, section 9.
package struct ExportDayManifest: Hashable, Sendable {
    /// The members of a part's own manifest that the day's manifest repeats.
    package struct Part: Hashable, Sendable {
        package var name: String
        package var recordCount: Int
        package var eventCount: Int
        package var sha256: String
        package var isLate: Bool
    }

    /// How often the day was sealed.
    package var revision: Int
    let provider: String
    let env: String
    let day: CalendarDay
    let zone: String
    let mappingVersion: Int
    let sealedAt: WallTime
    /// Sums over parts, and events refused while no record was written.
    package var totals = ExportTotals()
    package var parts: [Part] = []
    /// Records that were erased since the first seal.
    package var erasedCount = 0
    /// How many revisions are erasures, and no seals.
    package var erasureCount = 0

    init(_ options: ExportOptions, _ key: ExportDay, revision: Int, sealedAt: WallTime) {
        self.revision = revision
        self.provider = options.provider.rawValue
        self.env = key.env.rawValue
        self.day = key.day
        self.zone = options.zone.name
        self.mappingVersion = options.mappingVersion
        self.sealedAt = sealedAt
    }

    /// Verifies the bytes of a manifest by themselves, and against the parts of the folder that they are in.
    ///
    /// - Parameter folder: the day's, below the data directory at `root`.
    package static func verify(
        _ bytes: [UInt8], in folder: String, root: String, files: some FileSystem
    ) throws(FileSystemError) -> [Problem] {
        let path = Path.join(folder, DayFolder.manifestName)
        guard let manifest = ExportDayManifest(json: bytes) else { return [ManifestLine.unreadable(bytes, at: path)] }
        var problems = ManifestLine.problems(in: bytes, at: path)
        if !folder.hasSuffix("exports/\(manifest.provider)/env=\(manifest.env)/date=\(manifest.day)") {
            problems.append(Problem(.disagreement, path, "it is of another folder"))
        }
        var sum = ExportTotals()
        var isWhole = true
        for part in manifest.parts {
            let place = Path.join(root, folder)
            let own = try files.contents(of: "\(place)/\(part.name.prefix { $0 != "." }).manifest.json")
                .flatMap(PartManifest.init(json:))
            if let own { sum.add(own.totals) } else { isWhole = false }
            let isThere = try files.status(at: Path.join(place, part.name)) != nil
            if isThere, own.map({ Part(name: part.name, $0) }) == part { continue }
            problems.append(
                Problem(.disagreement, path, "its entry for \(part.name) differs from the part's own manifest"))
        }
        if isWhole, let contradiction = manifest.totals.contradiction(to: sum) {
            problems.append(
                Problem(
                    .disagreement, path, "its totals are not the sums over its parts' manifests: \(contradiction)"))
        }
        return problems
    }

    /// One line without an LF, members in a fixed order.
    package var json: [UInt8] {
        JSONWriter.object { json in
            json.member("revision", self.revision)
            json.member("provider", self.provider)
            json.member("env", self.env)
            json.member("day", self.day.description)
            json.member("zone", self.zone)
            json.member("mapping", self.mappingVersion)
            json.member("sealed_at", self.sealedAt.text)
            json.member("records", self.totals.recordCount)
            json.member("events", self.totals.eventCount)
            json.member("fix", self.totals.fixes)
            json.member("dead", self.totals.dead)
            if self.erasureCount > 0 {
                json.member("erased", self.erasedCount)
                json.member("erasures", self.erasureCount)
            }
            json.member("parts", objects: self.parts) { json, part in
                json.member("name", part.name)
                json.member("records", part.recordCount)
                json.member("events", part.eventCount)
                json.member("sha256", part.sha256)
                json.member("late", part.isLate)
            }
        }
    }

    /// Parses ``json``; `nil` if it is invalid.
    package init?(json bytes: [UInt8]) {
        guard let json = JSONValue(bytes), let revision = json["revision"]?.count,
            let provider = json["provider"]?.string, let env = json["env"]?.string,
            let day = json["day"]?.string.flatMap({ CalendarDay($0) }), let zone = json["zone"]?.string,
            let mapping = json["mapping"]?.count,
            let sealedAt = json["sealed_at"]?.string.flatMap({ WallTime(text: $0) }),
            let totals = ExportTotals(json), let parts = json["parts"]?.elements?.all({ Part($0) })
        else { return nil }
        self.revision = revision
        self.erasedCount = json["erased"]?.count ?? 0
        self.erasureCount = json["erasures"]?.count ?? 0
        self.provider = provider
        self.env = env
        self.day = day
        self.zone = zone
        self.mappingVersion = mapping
        self.sealedAt = sealedAt
        self.totals = totals
        self.parts = parts
    }
}

extension ExportDayManifest.Part {
    package init(name: String, _ manifest: PartManifest) {
        self.init(
            name: name, recordCount: manifest.recordCount, eventCount: manifest.eventCount, sha256: manifest.sha256,
            isLate: manifest.isLate)
    }

    fileprivate init?(_ json: JSONValue) {
        guard let name = json["name"]?.string, let records = json["records"]?.count,
            let events = json["events"]?.count, let sha256 = json["sha256"]?.string, let late = json["late"]?.bool
        else { return nil }
        self.init(name: name, recordCount: records, eventCount: events, sha256: sha256, isLate: late)
    }
}
