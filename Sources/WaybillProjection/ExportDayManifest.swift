internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillSystem

/// What a sealed day of an export holds, as the `manifest.json` in its folder says it.
///
/// - SeeAlso: `Protocol/formats/exports.md`, section 9.
struct ExportDayManifest {
    /// What a part's own manifest says, as far as its day repeats it.
    struct Part {
        var name: String
        var recordCount: Int
        var eventCount: Int
        var sha256: String
        var isLate: Bool
    }

    /// Sums over parts, and what was refused while no record was written.
    struct Totals {
        var recordCount = 0
        var eventCount = 0
        var fixes: [String: Int] = [:]
        var dead: [String: Int] = [:]

        mutating func add(_ other: Totals) {
            self.recordCount += other.recordCount
            self.eventCount += other.eventCount
            self.fixes.merge(other.fixes, uniquingKeysWith: +)
            self.dead.merge(other.dead, uniquingKeysWith: +)
        }
    }

    var revision: Int
    var sealedAt: WallTime
    var parts: [Part] = []
    var totals = Totals()

    /// One line without an LF, members in a fixed order.
    func json(_ options: ExportOptions, _ key: PartSink.Key) -> String {
        var json = JSONWriter()
        json.beginObject()
        json.key("revision")
        json.integer(Int64(self.revision))
        json.key("provider")
        json.string(options.provider.rawValue)
        json.key("env")
        json.string(key.env.rawValue)
        json.key("day")
        json.string(key.day.description)
        json.key("zone")
        json.string(options.zone.name)
        json.key("mapping")
        json.integer(Int64(options.mappingVersion))
        json.key("sealed_at")
        json.string(self.sealedAt.text)
        json.key("records")
        json.integer(Int64(self.totals.recordCount))
        json.key("events")
        json.integer(Int64(self.totals.eventCount))
        json.key("fix")
        ExportManifest.write(self.totals.fixes, to: &json)
        json.key("dead")
        ExportManifest.write(self.totals.dead, to: &json)
        json.key("parts")
        json.beginArray()
        for part in self.parts {
            json.beginObject()
            json.key("name")
            json.string(part.name)
            json.key("records")
            json.integer(Int64(part.recordCount))
            json.key("events")
            json.integer(Int64(part.eventCount))
            json.key("sha256")
            json.string(part.sha256)
            json.key("late")
            json.bool(part.isLate)
            json.endObject()
        }
        json.endArray()
        json.endObject()
        return String(decoding: json.output.bytes, as: UTF8.self)
    }
}

/// A manifest of a part or of a day, as far as it is read again.
package struct ExportManifestFacts {
    package private(set) var revision = 0
    private(set) var part: ExportDayManifest.Part
    private(set) var totals = ExportDayManifest.Totals()
    /// Of a day: the names of its parts.
    package private(set) var partNames: [String] = []

    package var recordCount: Int { self.totals.recordCount }
    package var eventCount: Int { self.totals.eventCount }

    /// Reads either; `nil` for anything else.
    package init?(_ bytes: [UInt8], name: String) {
        let facts = bytes.withUnsafeBytes { buffer -> ExportManifestFacts? in
            var tape = JSONTape()
            do throws(JSONError) {
                try tape.parse(buffer)
            } catch {
                return nil
            }
            return ExportManifestFacts(tape, name: name)
        }
        guard let facts else { return nil }
        self = facts
    }

    private init?(_ tape: borrowing JSONTape, name: String) {
        guard let records = Self.integer(tape, "records", 0), let events = Self.integer(tape, "events", 0) else {
            return nil
        }
        let isLate = tape.firstValue(of: "late", in: 0).map { tape[$0].kind == .true } ?? false
        self.part = ExportDayManifest.Part(
            name: name, recordCount: records, eventCount: events, sha256: Self.string(tape, "sha256", 0) ?? "",
            isLate: isLate)
        self.revision = Self.integer(tape, "revision", 0) ?? 0
        self.totals.recordCount = records
        self.totals.eventCount = events
        self.totals.fixes = Self.counts(tape, "fix")
        self.totals.dead = Self.counts(tape, "dead")
        guard let parts = tape.firstValue(of: "parts", in: 0), tape[parts].kind == .array else { return }
        var index = parts + 1
        while index < Int(tape[parts].next) {
            if let name = Self.string(tape, "name", index) { self.partNames.append(name) }
            index = Int(tape[index].next)
        }
    }

    private static func integer(_ tape: borrowing JSONTape, _ name: StaticString, _ object: Int) -> Int? {
        guard let index = tape.firstValue(of: name, in: object), tape[index].kind == .number,
            let value = Int(String(decoding: tape.bytes(of: index), as: UTF8.self)), (0..<(1 << 53)).contains(value)
        else { return nil }
        return value
    }

    private static func string(_ tape: borrowing JSONTape, _ name: StaticString, _ object: Int) -> String? {
        guard let index = tape.firstValue(of: name, in: object), tape[index].kind == .string else { return nil }
        return JSONText.string(tape.bytes(of: index))
    }

    private static func counts(_ tape: borrowing JSONTape, _ name: StaticString) -> [String: Int] {
        var counts: [String: Int] = [:]
        guard let object = tape.firstValue(of: name, in: 0), tape[object].kind == .object else { return [:] }
        var members = tape.members(of: object)
        while let member = members.next(in: tape) {
            let value = Int(String(decoding: tape.bytes(of: member.value), as: UTF8.self)) ?? 0
            counts[JSONText.string(tape.bytes(of: member.key))] = min(max(0, value), 1 << 53)
        }
        return counts
    }
}
