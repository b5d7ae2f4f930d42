internal import WaybillJSON

/// Whether a request's body could be read.
package enum IngestReading: Hashable, Sendable {
    case read
    /// The body as a whole is nothing that the dialect knows; nothing of it is a line.
    case malformed
    /// It has more than ``IngestLimits/eventCountMax`` events; nothing of it may be stored.
    case tooManyEvents
}

/// Reads a request's body in its dialect.
package enum IngestReader {
    private static let listHead = Array("{\"batch\":".utf8)

    /// PostHog's SDKs send lists, too.
    private static func isList(_ body: [UInt8]) -> Bool {
        body.first { !$0.isBlank } == UInt8(ascii: "[")
    }

    /// Reads all events of a body, which was inflated and unwrapped.
    package static func read(
        _ body: [UInt8], as dialect: Dialect, type: SegmentType?, _ context: IngestContext,
        into batch: inout IngestBatch
    ) -> IngestReading {
        if dialect == .native {
            var reader = NativeDialect(context: context)
            reader.read(body, into: &batch)
            return batch.lines.count + batch.faults.count > IngestLimits.eventCountMax ? .tooManyEvents : .read
        }
        let isList = Self.isList(body)
        let text = isList ? Self.listHead + body + [0x7D] : body
        defer { if isList { batch.moveFaults(by: Self.listHead.count, within: body.count) } }
        return text.withUnsafeBytes { bytes in
            do throws(JSONError) {
                let tape = try EventTape(bytes)
                for name in ["batch", "events", "data"] as [StaticString] {
                    if let list = tape.value(name, in: 0), tape.tape[list].kind == .array,
                        tape.elements(of: list).count > IngestLimits.eventCountMax
                    {
                        return .tooManyEvents
                    }
                }
                if dialect == .amplitude || dialect == .posthog && tape.value("events", in: 0) != nil {
                    var reader = AmplitudeDialect(tape: tape, context: context)
                    reader.read(into: &batch)
                } else if dialect == .posthog {
                    var reader = PostHogDialect(tape: tape, context: context)
                    reader.read(into: &batch)
                } else {
                    var reader = SegmentDialect(tape: tape, context: context, type: type)
                    reader.read(into: &batch)
                }
                return .read
            } catch {
                return .malformed
            }
        }
    }

    /// The key that a body names.
    package static func key(in body: [UInt8], _ dialect: Dialect) -> String? {
        guard dialect != .native else { return nil }
        let text = Self.isList(body) ? Self.listHead + body + [0x7D] : body
        return text.withUnsafeBytes { bytes in
            do throws(JSONError) {
                let tape = try EventTape(bytes)
                for name in ["writeKey", "api_key", "token"] as [StaticString] {
                    if let key = tape.string(name, in: 0) { return key }
                }
                let event =
                    tape.value("batch", in: 0).flatMap { list in
                        tape.tape[list].kind == .array ? tape.elements(of: list).first : nil
                    } ?? 0
                return tape.string("api_key", in: event) ?? tape.string("token", in: event)
                    ?? tape.string("token", in: tape.object("properties", in: event))
            } catch {
                return nil
            }
        }
    }
}

/// `POST /v1/events`: Waybill's own events, one a line, of programs without its library.
///
/// Members of a line stay as they are, but for those that the key and this host decide: `env`, `bundle`, `writer`, `seq`. What
/// has no `id` gets one; what has no `ts` gets the time of receipt.
struct NativeDialect {
    var context: IngestContext

    private static let decided: [StaticString] = ["v", "id", "writer", "seq", "ts", "env", "bundle"]

    mutating func read(_ body: [UInt8], into batch: inout IngestBatch) {
        body.withUnsafeBytes { bytes in
            var start = JSONText.byteOrderMarkByteCount(bytes)
            while start < bytes.count, batch.lines.count + batch.faults.count <= IngestLimits.eventCountMax {
                let end = bytes[start...].firstIndex(of: 0x0A) ?? bytes.count
                let line = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
                if line.contains(where: { !$0.isBlank }) { self.read(line, start..<end, into: &batch) }
                start = end + 1
            }
        }
    }

    private mutating func read(_ line: UnsafeRawBufferPointer, _ range: Range<Int>, into batch: inout IngestBatch) {
        do throws(IngestFault) {
            let tape: EventTape
            do throws(JSONError) {
                tape = try EventTape(line)
            } catch {
                throw .notJSON
            }
            guard let name = tape.piece("name", in: 0) else { throw .noName }
            let time = try tape.time("ts", in: 0) ?? self.context.receivedAt
            let id = self.context.id("id", in: 0, tape)
            batch.add(
                own: id, at: time, name, .init(object: 0, without: Self.decided + ["name"]), range, tape.tape,
                self.context.source)
        } catch {
            batch.faults.append(.init(reason: error, range: range))
        }
    }
}
