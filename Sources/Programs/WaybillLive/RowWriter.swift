internal import WaybillExport
internal import WaybillJSON
internal import WaybillSystem

/// Writes events as JSON, with what may be shown of them.
enum RowWriter {
    /// The members of a row; texts are cut, for they may be a megabyte long.
    ///
    /// - Parameters:
    ///   - news: what was seen for the first time with the event.
    ///   - fields: paths whose values the row also has.
    static func write(
        _ row: LiveRow, _ line: borrowing ShownLine, news: [String],
        refusals: [(provider: String, reason: String)], fields: [[String]], to json: inout JSONWriter
    ) {
        json.member("at", row.id.description)
        Self.text("id", line.text("id"), to: &json)
        json.member("ts", row.time.milliseconds)
        json.member(
            "received", row.batch.receivedAt == .unknown ? nil : Int(row.batch.receivedAt.milliseconds))
        json.member("delay", row.delay)
        json.member("env", line.env)
        json.member("app", ShownText.cut(line.app))
        json.member("kind", ShownText.cut(line.kind))
        json.member("name", ShownText.cut(line.name))
        Self.text("screen", line.text("screen"), to: &json)
        Self.text("prev", line.text("prev"), to: &json)
        if let time = line.integer("prev_ms") { json.member("prev_ms", time) }
        Self.text("session", line.text("session"), to: &json)
        Self.text("user", line.user, to: &json)
        Self.text("anon", line.anon, to: &json)
        Self.text("version", line.text("app"), to: &json)
        json.member("refused") { json in
            for (provider, reason) in refusals {
                json.key(text: provider)
                json.string(reason)
            }
        }
        json.member("new", array: news) { $0.string($1) }
        guard !fields.isEmpty else { return }
        json.member("fields") { json in
            for path in fields {
                guard let value = line.value(at: path) else { continue }
                json.key(text: path.joined(separator: "."))
                json.string(ShownText.cut(value))
            }
        }
    }

    private static func text(_ name: StaticString, _ text: String?, to json: inout JSONWriter) {
        if let text { json.member(name, ShownText.cut(text)) }
    }

    /// The members that an event has where it is looked at alone: the line, where it is, and what providers make of it.
    static func writeDetail(
        _ row: LiveRow, _ line: borrowing ShownLine, outcomes: [ProviderOutcome], to json: inout JSONWriter
    ) {
        json.member("event", verbatim: line.object)
        json.member("raw", line.bytes)
        json.member("source", row.batch.path)
        json.member("stream", row.batch.stream)
        json.member("offset", Int(row.streamOffset))
        Self.writeOutcomes(outcomes, to: &json)
    }

    static func writeOutcomes(_ outcomes: [ProviderOutcome], to json: inout JSONWriter) {
        json.member("outcomes", objects: outcomes) { json, outcome in
            json.member("provider", outcome.provider)
            json.member("outcome", outcome.kind.rawValue)
            if let record = outcome.record {
                json.key("record")
                record.withUnsafeBytes { json.string($0) }
            }
            if let reason = outcome.reason { json.member("reason", reason) }
            if let detail = outcome.detail { json.member("detail", detail) }
            if let field = outcome.field { json.member("field", field) }
            json.member("changes") { json in
                for (code, count) in outcome.changes {
                    json.key(text: code.rawValue)
                    json.integer(Int64(count))
                }
            }
        }
    }

    /// A line that is not an event, as it may be shown.
    static func text(of line: QuarantinedLine, _ mask: Mask) -> String {
        if mask.isEmpty { return String(decoding: line.bytes, as: UTF8.self) }
        var tape = JSONTape()
        let masked = line.bytes.withUnsafeBytes { bytes -> [UInt8]? in
            guard line.bytes.count == line.byteCount,
                tape.accepts(bytes, from: JSONText.byteOrderMarkByteCount(bytes))
            else { return nil }
            return mask.masked(tape, line.reader.source) ?? line.bytes
        }
        // What is not one object may have the masked members anywhere.
        return masked.map { String(decoding: $0, as: UTF8.self) } ?? "masked (\(line.byteCount) bytes)"
    }
}
