internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillSystem

/// What a closed part holds, as `part-00000.manifest.json` says it.
struct ExportManifest {
    let provider: Destination
    let zone: String
    let env: DeploymentEnvironment
    let day: CalendarDay
    let part: PartStanding
    let sha256: String

    /// One line, members in a fixed order.
    var json: String {
        var json = JSONWriter()
        json.beginObject()
        json.key("provider")
        json.string(self.provider.rawValue)
        json.key("env")
        json.string(self.env.rawValue)
        json.key("day")
        json.string(self.day.description)
        json.key("zone")
        json.string(self.zone)
        json.key("mapping")
        json.integer(Int64(self.part.mappingVersion))
        json.key("records")
        json.integer(Int64(self.part.recordCount))
        json.key("events")
        json.integer(Int64(self.part.eventCount))
        json.key("fix")
        Self.write(self.part.fixes, to: &json)
        json.key("dead")
        Self.write(self.part.dead, to: &json)
        json.key("held")
        json.integer(Int64(self.part.heldCount))
        if self.part.isLate {
            json.key("late")
            json.bool(true)
        }
        json.key("first_id")
        json.string(self.part.firstID)
        json.key("last_id")
        json.string(self.part.lastID)
        json.key("sha256")
        json.string(self.sha256)
        if let oldest = self.part.oldest {
            json.key("oldest_ts")
            Self.write(WallTime(milliseconds: oldest), to: &json)
            if self.provider == .ga4 {
                json.key("not_after")
                // GA4 moves the time of older events without saying so.
                Self.write(WallTime(milliseconds: oldest + Limits.GA4.ageMillisecondsMax), to: &json)
                json.key("late_24h")
                json.integer(Int64(self.part.late24HoursCount))
                json.key("late_48h")
                json.integer(Int64(self.part.late48HoursCount))
            }
        }
        json.endObject()
        return String(decoding: json.output.bytes, as: UTF8.self)
    }

    private static func write(_ time: WallTime, to json: inout JSONWriter) {
        var text = ByteBuilder(capacity: 32)
        TimeText.append(time, to: &text)
        json.string(text.bytes)
    }

    static func write(_ counts: [String: Int], to json: inout JSONWriter) {
        json.beginObject()
        for (name, count) in counts.sorted(by: { $0.key < $1.key }) {
            var name = name
            name.withUTF8 { json.key(UnsafeRawBufferPointer($0)) }
            json.integer(Int64(count))
        }
        json.endObject()
    }
}
