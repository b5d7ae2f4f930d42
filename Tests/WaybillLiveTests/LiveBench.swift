import Testing
import WaybillData
import WaybillExport
import WaybillJSON
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

@testable import WaybillLive

/// A journal of known events, and what reads it.
struct LiveBench {
    let bench: ProjectionBench
    static let now = WallTime(milliseconds: ProjectionBench.noon + 60_000)

    init() throws {
        self.bench = try ProjectionBench()
    }

    /// An event's line; `more` are further members.
    static func line(
        _ number: Int, name: String = "tapped", user: String? = nil, anon: String = "install-1", more: String = ""
    ) -> String {
        let id = "019550fc-0000-7000-8000-" + String(repeating: "0", count: 12 - String(number).count) + "\(number)"
        let user = user.map { ",\"user\":\"\($0)\"" } ?? ""
        return "{\"v\":1,\"id\":\"\(id)\",\"ts\":\"2026-11-20T11:59:59.000Z\",\"kind\":\"event\",\"name\":\"\(name)\","
            + "\"env\":\"prod\",\"bundle\":\"com.example.shop\",\"app\":\"1.4.0\",\"anon\":\"\(anon)\"\(user)\(more)}\n"
    }

    /// Puts batches of lines into the journal, one group each.
    func write(_ batches: [[String]], format: StreamFormat = .waybill, stream: Int = 1) throws {
        try self.bench.write(
            batches.map { (ProjectionBench.description(stream, format: format), Array($0.joined().utf8)) }, perGroup: 1,
            at: ProjectionBench.noon)
    }

    func state(
        exports: [Destination] = [], mask: Mask = .none, limits: LineRing.Limits = LineRing.Limits()
    ) -> LiveState<FaultyFiles> {
        LiveState(
            data: self.bench.data, exports: exports.map { ExportOptions(provider: $0) }, mask: mask, limits: limits)
    }

    /// Reads everything that there is.
    func read(_ state: inout LiveState<FaultyFiles>, resuming cursor: LineID? = nil) throws {
        try state.begin(upTo: self.bench.end, resuming: cursor)
        while try !state.advance(upTo: self.bench.end, now: Self.now) {}
    }
}

/// An answer's JSON; fails the test without one.
func parsed(_ answer: [UInt8]?) throws -> JSONValue {
    try #require(answer.flatMap(JSONValue.init))
}

extension [UInt8] {
    var text: String { String(decoding: self, as: UTF8.self) }

    /// The JSON of a stream's message, and its event and id.
    func message() throws -> (event: String, id: String?, data: JSONValue) {
        let lines = self.text.split(separator: "\n").map(String.init)
        let event = try #require(lines.first { $0.hasPrefix("event: ") }).dropFirst(7)
        let data = try #require(lines.first { $0.hasPrefix("data: ") }).dropFirst(6)
        return (
            String(event), lines.first { $0.hasPrefix("id: ") }.map { String($0.dropFirst(4)) },
            try parsed(Array(data.utf8))
        )
    }
}

extension JSONValue {
    /// The places of an answer's rows.
    var places: [String] { (self["rows"]?.elements ?? []).compactMap { $0["at"]?.string } }
}
