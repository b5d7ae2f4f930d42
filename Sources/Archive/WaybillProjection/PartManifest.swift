package import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
package import WaybillSystem

/// Totals of exported files: of a part, or of a day's parts.
package struct ExportTotals: Hashable, Sendable {
    package var recordCount = 0
    package var eventCount = 0
    package var fixes: [String: Int] = [:]
    package var dead: [String: Int] = [:]

    package init(recordCount: Int = 0, eventCount: Int = 0, fixes: [String: Int] = [:], dead: [String: Int] = [:]) {
        self.recordCount = recordCount
        self.eventCount = eventCount
        self.fixes = fixes
        self.dead = dead
    }

    /// What contradicts that these are the totals of a day whose parts have `sum`; `nil` if nothing does.
    ///
    /// A day also counts what was fixed or refused while no part had a record.
    package func contradiction(to sum: ExportTotals) -> String? {
        if self.recordCount != sum.recordCount {
            return "it states \(self.recordCount) records, the parts have \(sum.recordCount)"
        }
        if self.eventCount != sum.eventCount {
            return "it states \(self.eventCount) events, the parts have \(sum.eventCount)"
        }
        for (own, others) in [(self.fixes, sum.fixes), (self.dead, sum.dead)] {
            for (name, count) in others.sorted(by: { $0.key < $1.key }) where own[name, default: 0] < count {
                return "it states \(own[name, default: 0]) of \(name), the parts have \(count)"
            }
        }
        return nil
    }

    package mutating func add(_ other: ExportTotals) {
        self.recordCount += other.recordCount
        self.eventCount += other.eventCount
        self.fixes.merge(other.fixes, uniquingKeysWith: +)
        self.dead.merge(other.dead, uniquingKeysWith: +)
    }
}

/// The contents of a closed part, as in `part-00000.manifest.json`.
///
/// - SeeAlso: `Protocol/formats/exports.md`, section 2.
package struct PartManifest: Hashable, Sendable {
    /// The late events, whose times GA4 would change without an error.
    struct Lateness: Hashable, Sendable {
        /// The time from which the part's oldest event is too old.
        var notAfter: WallTime?
        var late24HoursCount: Int
        var late48HoursCount: Int
    }

    package let provider: String
    package let env: String
    package let day: CalendarDay
    let zone: String
    package let mappingVersion: Int
    package var totals: ExportTotals
    let heldCount: Int
    let isLate: Bool
    package var firstID: String
    package var lastID: String
    /// The digest of the part's bytes, 64 hexadecimal digits.
    package var sha256: String
    /// The digest of the compressed file, which exists in place of the part's; `nil` if there is none.
    package var gzipSHA256: String?
    /// Records that were erased since it was closed, each with all its events.
    package var erasedCount = 0
    /// The digest that the part had when it was closed, if an erasure has changed it since.
    ///
    /// Mergers of a fleet erase at different times, and know by it that a part is the same.
    package var closedSHA256: String?
    package let oldest: WallTime?
    let lateness: Lateness?

    package var recordCount: Int { self.totals.recordCount }
    /// By what a fleet's mergers know the part, also after an erasure.
    package var claimSHA256: String { self.closedSHA256 ?? self.sha256 }
    package var eventCount: Int { self.totals.eventCount }
    package var notAfter: WallTime? { self.lateness?.notAfter }

    init(
        provider: Destination, zone: String, env: DeploymentEnvironment, day: CalendarDay, part: PartStanding,
        sha256: String
    ) {
        self.provider = provider.rawValue
        self.env = env.rawValue
        self.day = day
        self.zone = zone
        self.mappingVersion = part.mappingVersion
        self.totals = part.totals
        self.heldCount = part.heldCount
        self.isLate = part.isLate
        self.firstID = part.firstID
        self.lastID = part.lastID
        self.sha256 = sha256
        self.gzipSHA256 = nil
        self.oldest = part.oldest.map { WallTime(milliseconds: $0) }
        self.lateness = provider.type.eventAgeMillisecondsMax.flatMap { ageMax in
            part.oldest.map {
                Lateness(
                    notAfter: WallTime(milliseconds: $0 + ageMax), late24HoursCount: part.late24HoursCount,
                    late48HoursCount: part.late48HoursCount)
            }
        }
    }

    /// One line without an LF, members in a fixed order.
    package var json: [UInt8] {
        JSONWriter.object { json in
            json.member("provider", self.provider)
            json.member("env", self.env)
            json.member("day", self.day.description)
            json.member("zone", self.zone)
            json.member("mapping", self.mappingVersion)
            json.member("records", self.recordCount)
            json.member("events", self.eventCount)
            json.member("fix", self.totals.fixes)
            json.member("dead", self.totals.dead)
            json.member("held", self.heldCount)
            if self.isLate { json.member("late", true) }
            if self.erasedCount > 0 { json.member("erased", self.erasedCount) }
            json.member("first_id", self.firstID)
            json.member("last_id", self.lastID)
            json.member("sha256", self.sha256)
            if let closedSHA256 { json.member("closed_sha256", closedSHA256) }
            if let oldest { json.member("oldest_ts", oldest.text) }
            if let lateness {
                if let notAfter = lateness.notAfter { json.member("not_after", notAfter.text) }
                json.member("late_24h", lateness.late24HoursCount)
                json.member("late_48h", lateness.late48HoursCount)
            }
            if let gzipSHA256 { json.member("gz_sha256", gzipSHA256) }
        }
    }

    /// Verifies the mark of the part's delivery, `.delivered`: the digest of its bytes, and in a fleet who delivered it.
    package func verify(mark: [UInt8], at path: String) -> Problem? {
        let lines = mark.split(separator: 0x0A, omittingEmptySubsequences: false)
        let isNamed = lines[0].elementsEqual(self.sha256.utf8)
        let isWhole = lines.last == [] && (lines.count == 2 || (lines.count == 3 && Self.isReceipt(lines[1])))
        guard !isNamed || !isWhole else { return nil }
        return Problem(
            .disagreement, path, at: 0, byteCount: mark.count,
            "it does not hold the SHA-256 of its part: waybill deliver sends the part again")
    }

    /// Whether a mark's second line says which merger delivered the part, and what of it.
    private static func isReceipt(_ line: ArraySlice<UInt8>) -> Bool {
        let fields = line.split(separator: 0x20, omittingEmptySubsequences: false)
        guard fields.count == 3, fields[0].starts(with: "merger=".utf8) else { return false }
        return zip(fields[1...], ["sent=", "dead="]).allSatisfy { field, name in
            let number = String(decoding: field.dropFirst(name.utf8.count), as: UTF8.self)
            return field.starts(with: name.utf8) && Int(number) != nil
        }
    }

    /// Parses ``json``; `nil` if it is invalid.
    package init?(json bytes: [UInt8]) {
        guard let json = JSONValue(bytes), let provider = json["provider"]?.string, let env = json["env"]?.string,
            let day = json["day"]?.string.flatMap({ CalendarDay($0) }), let zone = json["zone"]?.string,
            let mapping = json["mapping"]?.count, let totals = ExportTotals(json), let held = json["held"]?.count,
            let firstID = json["first_id"]?.string, let lastID = json["last_id"]?.string,
            let sha256 = json["sha256"]?.string, SHA256Digest.isText(sha256)
        else { return nil }
        self.provider = provider
        self.env = env
        self.day = day
        self.zone = zone
        self.mappingVersion = mapping
        self.totals = totals
        self.heldCount = held
        self.isLate = json["late"]?.bool ?? false
        self.erasedCount = json["erased"]?.count ?? 0
        self.firstID = firstID
        self.lastID = lastID
        self.sha256 = sha256
        self.closedSHA256 = json["closed_sha256"]?.string
        if json["closed_sha256"] != nil, !(self.closedSHA256.map(SHA256Digest.isText) ?? false) { return nil }
        self.gzipSHA256 = json["gz_sha256"]?.string
        if json["gz_sha256"] != nil, !(self.gzipSHA256.map(SHA256Digest.isText) ?? false) { return nil }
        self.oldest = json["oldest_ts"]?.string.flatMap { WallTime(text: $0) }
        if (json["late"] != nil && json["late"]?.bool == nil) || (json["oldest_ts"] != nil && self.oldest == nil) {
            return nil
        }
        guard ["late_24h", "late_48h", "not_after"].contains(where: { json[$0] != nil }) else {
            self.lateness = nil
            return
        }
        // A delivery relies on the deadline: it is not lost to a damaged member next to it.
        let notAfter = json["not_after"]?.string.flatMap { WallTime(text: $0) }
        guard let late24Hours = json["late_24h"]?.count, let late48Hours = json["late_48h"]?.count,
            json["not_after"] == nil || notAfter != nil
        else { return nil }
        self.lateness = Lateness(
            notAfter: notAfter, late24HoursCount: late24Hours, late48HoursCount: late48Hours)
    }
}

extension ExportTotals {
    /// Parses the members that manifests of parts and days share.
    init?(_ json: JSONValue) {
        guard let records = json["records"]?.count, let events = json["events"]?.count,
            let fixes = json["fix"]?.counts, let dead = json["dead"]?.counts
        else { return nil }
        self.init(recordCount: records, eventCount: events, fixes: fixes, dead: dead)
    }
}
