package import WaybillExport
internal import WaybillJSON

/// The newest lines of the quarantine and refused events, so many for each reason: a flood of one pushes none of another
/// out.
package struct KeptLines {
    private let quarantinedMax: Int
    private let refusedMax: Int
    private var quarantined: [QuarantineReason: [QuarantinedLine]] = [:]
    /// How many lines there were for each reason since the process began to read.
    package private(set) var counts: [QuarantineReason: Int] = [:]
    private var refused: [Refusal: [(id: LineID, row: [UInt8])]] = [:]

    private struct Refusal: Hashable {
        let provider: String
        let reason: String
    }

    package init(quarantinedMax: Int = 20, refusedMax: Int = 10) {
        self.quarantinedMax = quarantinedMax
        self.refusedMax = refusedMax
    }

    package mutating func add(_ line: QuarantinedLine) {
        self.counts[line.reason, default: 0] += 1
        self.quarantined[line.reason, default: []].append(line)
        if self.quarantined[line.reason]?.count ?? 0 > self.quarantinedMax {
            self.quarantined[line.reason]?.removeFirst()
        }
    }

    /// Keeps a refused event's row; once, however often it is looked at.
    package mutating func add(_ row: [UInt8], at id: LineID, refusedBy provider: String, because reason: String) {
        let key = Refusal(provider: provider, reason: reason)
        var rows = self.refused.removeValue(forKey: key) ?? []
        if !rows.contains(where: { $0.id == id }) {
            rows.append((id, row))
            rows.sort { $0.id < $1.id }
            if rows.count > self.refusedMax { rows.removeFirst() }
        }
        self.refused[key] = rows
    }

    /// Lines of the quarantine, newest first, at most so many for each reason.
    func lines(max countMax: Int = .max) -> [QuarantinedLine] {
        self.quarantined.values.flatMap { $0.suffix(countMax) }.sorted { $0.id > $1.id }
    }

    /// The answer of `/api/refusals`.
    package var refusalsJSON: [UInt8] {
        var json = JSONWriter()
        json.beginArray()
        for (key, rows) in self.refused.sorted(by: {
            ($0.key.provider, $0.key.reason) < ($1.key.provider, $1.key.reason)
        }) {
            json.beginObject()
            json.member("provider", key.provider)
            json.member("reason", key.reason)
            json.member("rows", array: rows.reversed()) { json, row in
                row.row.withUnsafeBytes { json.verbatim($0) }
            }
            json.endObject()
        }
        json.endArray()
        return Array(json.output.bytes)
    }
}
