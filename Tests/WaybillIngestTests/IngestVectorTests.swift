import Testing
import WaybillEvent
import WaybillIngest
import WaybillJSON
import WaybillSystem
import WaybillTestSupport

/// The requests in `Protocol/vectors/ingest`, whose lines follow `Documentation/ingest.md` and are kept by hand.
@Suite struct IngestVectorTests {
    private static let writer = "019aa0b4-7a80-7c3e-9f21-5d0c8b1e4f60"
    private static let receivedAt: Int64 = 1_795_165_200_000

    /// What a request became.
    private struct Result: Equatable {
        var key: String?
        var refused: String?
        var lines: [String] = []
        var faults: [String] = []
        var remarks: [String] = []
    }

    private static func rows(of dialect: Dialect) throws -> [JSONValue] {
        let path = Path.join(repositoryPath, "Protocol/vectors/ingest/\(dialect.rawValue).ndjson")
        let file = try #require(try POSIXFileSystem().contents(of: path), "no \(path)")
        return try file.split(separator: 0x0A).map { try #require(JSONValue(Array($0))) }
    }

    private static func bytes(_ name: StaticString, _ base64: StaticString, of row: JSONValue) throws -> [UInt8] {
        if let text = row[name]?.string { return Array(text.utf8) }
        let text = try #require(row[base64]?.string)
        return text.isEmpty ? [] : try #require(Base64Text.decode(Array(text.utf8)))
    }

    private static func expected(_ row: JSONValue) throws -> Result {
        if let refused = row["refused"]?.string { return Result(refused: refused) }
        return Result(
            key: row["key"]?.string, lines: try #require(row["lines"]?.elements).compactMap(\.string),
            faults: try #require(row["faults"]?.elements).map { fault in
                let event = try Self.bytes("event", "event_base64", of: fault)
                return "\(try #require(fault["reason"]?.string)): \(event)"
            }, remarks: row["remarks"]?.elements?.compactMap(\.string) ?? [])
    }

    private static func context(_ row: JSONValue) throws -> IngestContext {
        let policy = try #require(row["addresses"]?.string.flatMap { AddressPolicy(rawValue: $0) })
        let seed = try #require(row["seed"].flatMap { UInt64($0.literal) })
        return IngestContext(
            source: IngestSource(
                key: "wk_test0001", bundle: "com.example.shop", environment: .prod, addressPolicy: policy),
            receivedAt: Self.receivedAt, address: row["address"]?.string.flatMap { policy.apply(to: $0) },
            userAgent: row["user_agent"]?.string.map { IngestLimits.userAgent($0) },
            generator: SeededGenerator(seed: seed))
    }

    private static func read(_ row: JSONValue) throws -> Result {
        let path = try #require(row["path"]?.string)
        let route = try IngestRoute(method: try #require(row["method"]?.string), path: path[...])
        guard case .events(let dialect, let type) = route else { return Result(refused: "route") }
        let query = try #require(row["query"]?.string)[...]
        let named = try #require(row["headers"]?.members).map { ($0.name.lowercased(), $0.value.string ?? "") }
        let headers = Dictionary(uniqueKeysWithValues: named)
        let sent = try Self.bytes("body", "body_base64", of: row)
        let text: [UInt8]
        do throws(RequestBody.Refusal) {
            text = try RequestBody.text(
                of: sent, encoding: headers["content-encoding"]?.lowercased(),
                query: query, dialect)
        } catch {
            switch error {
            case .tooLarge: return Result(refused: "too-large")
            case .inflation: return Result(refused: "inflation")
            case .encoding: return Result(refused: "encoding")
            case .notCompressedAsSaid: return Result(refused: "malformed")
            }
        }
        let body = IngestBody(text, as: dialect)
        let sentAs = body.dialect
        var key = RequestKey.named(query: query, authorization: headers["authorization"])
        if key == nil, dialect != .native, dialect != .pixel {
            switch KeySearch.find(in: text, isKnown: { _ in true }) {
            case .known(let found):
                if body.hasSeveralKeys { return Result(refused: "several-keys") }
                key = found
            case .several: return Result(refused: "several-keys")
            case .noKey, .unreadable: break
            case .unknown: Issue.record("every key is known")
            }
        }
        var batch = IngestBatch()
        switch body.read(type: type, try Self.context(row), into: &batch) {
        case .malformed: return Result(refused: "malformed")
        case .tooManyEvents: return Result(refused: "too-many-events")
        case .read: return Self.result(batch.finish(), sentAs, text, key)
        }
    }

    private static func result(
        _ events: IngestedEvents, _ dialect: Dialect, _ text: [UInt8], _ key: String?
    ) -> Result {
        var lines: [String] = []
        for (index, line) in events.lines.enumerated() {
            var buffer = ByteBuilder()
            events.append(line, number: UInt64(index + 1), writer: Self.writer, via: dialect, to: &buffer)
            lines.append(String(decoding: buffer.bytes.dropLast(), as: UTF8.self))
        }
        return Result(
            key: key, lines: lines, faults: events.faults.map { "\($0.reason.rawValue): \(Array(text[$0.range]))" },
            remarks: events.remarks.map { "\($0.index) \($0.reason.rawValue)" })
    }

    @Test(arguments: Dialect.allCases)
    func `a request becomes the lines and faults of its vector`(dialect: Dialect) throws {
        let rows = try Self.rows(of: dialect)
        #expect(rows.count > 10)
        for row in rows {
            let name = row["name"]?.string ?? ""
            let (found, expected) = (try Self.read(row), try Self.expected(row))
            #expect(found.refused == expected.refused, "\(name)")
            #expect(found.key == expected.key, "\(name)")
            #expect(found.lines == expected.lines, "\(name)")
            #expect(found.faults == expected.faults, "\(name)")
            #expect(found.remarks == expected.remarks, "\(name)")
        }
    }
}
