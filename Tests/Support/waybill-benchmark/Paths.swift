import Waybill
import WaybillCompression
import WaybillData
import WaybillExport
import WaybillJSON
import WaybillProjection
import WaybillProtocol
import WaybillSystem

extension Benchmark {
    static func codec(_ lines: UnsafeRawBufferPointer, _ bench: inout Bench) {
        var deflater = Deflater(level: 1)
        var inflater = Inflater()
        let room = UnsafeMutableRawBufferPointer.allocate(
            byteCount: deflater.byteCountMax(of: lines.count), alignment: 64)
        defer { room.deallocate() }
        let raw = UnsafeMutableRawBufferPointer.allocate(byteCount: lines.count, alignment: 64)
        defer { raw.deallocate() }
        var wireByteCount = deflater.deflate(lines, into: room)
        let wire = UnsafeRawBufferPointer(rebasing: room[..<wireByteCount])
        bench.measure("deflate", items: 1, bytes: lines.count, allocationsMax: 0) {
            wireByteCount = deflater.deflate(lines, into: room)
        }
        bench.measure("inflate", items: 1, bytes: lines.count, allocationsMax: 0) {
            do throws(InflateError) {
                try inflater.inflate(wire, into: raw)
            } catch {
                preconditionFailure("what was deflated inflates: \(error)")
            }
        }
        bench.measure("checksum", items: 1, bytes: lines.count, allocationsMax: 0) {
            blackHole(FrameChecksum.checksum(continuing: 0, lines))
        }
    }

    static func json(_ lines: UnsafeRawBufferPointer, _ lineCount: Int, _ bench: inout Bench) {
        bench.measure("split", items: lineCount, bytes: lines.count, allocationsMax: 0) {
            var count = 0
            lines.forEachLine { _ in count += 1 }
            blackHole(count)
        }
        bench.measure("check-utf8", items: lineCount, bytes: lines.count, allocationsMax: 0) {
            blackHole(UTF8Text.firstInvalidOffset(in: lines) == nil)
        }
        let reader = EventReader(source: Self.source)
        bench.measure("judge", items: lineCount, bytes: lines.count, allocationsMax: 0) {
            lines.forEachLine { range in
                let line = UnsafeRawBufferPointer(rebasing: lines[range])
                guard case .event = reader.read(line) else {
                    preconditionFailure("the sample holds events")
                }
            }
        }
        // Someone else was erased; the sample's lines have a user of a million each, and one anonymous id.
        for kind in [ErasedPeople.Kind.user, .anon] {
            let key = [UInt8](repeating: 7, count: 32)
            let person = ErasedPeople.Person(id: Array("someone-else".utf8), kind, key: key)
            let reader = EventReader(source: Self.source, erased: ErasedPeople(key: key, people: [kind: [person]]))
            bench.measure("judge-erased-\(kind)", items: lineCount, bytes: lines.count, allocationsMax: 0) {
                lines.forEachLine { range in
                    let line = UnsafeRawBufferPointer(rebasing: lines[range])
                    guard case .event = reader.read(line) else {
                        preconditionFailure("the sample holds events of others")
                    }
                }
            }
        }
        var tape = JSONTape()
        bench.measure("parse", items: lineCount, bytes: lines.count, allocationsMax: 0) {
            lines.forEachLine { range in
                do throws(JSONError) {
                    try tape.parse(UnsafeRawBufferPointer(rebasing: lines[range]))
                } catch {
                    preconditionFailure("the sample is JSON: \(error)")
                }
            }
        }
    }

    private static var source: SourceDescription { SourceDescription(env: .prod, bundle: "com.example.shop") }
    private static var now: WallTime { POSIXClock().wallTime() }

    static func exporters(_ lines: UnsafeRawBufferPointer, _ lineCount: Int, _ bench: inout Bench) {
        let reader = EventReader(source: Self.source)
        let now = Self.now
        for provider in Destination.allCases {
            var exporter = Exporter(ExportOptions(provider: provider))
            var sink = CountingSink()
            bench.measure("export-\(provider)", items: lineCount, bytes: lines.count, allocationsMax: 0) {
                lines.forEachLine { range in
                    let line = UnsafeRawBufferPointer(rebasing: lines[range])
                    let isEvent = exporter.export(
                        line, reader, at: UInt64(range.lowerBound), receivedAt: now, isAgeJudged: true, to: &sink)
                    precondition(isEvent, "the sample holds events")
                }
                exporter.finishGroup(to: &sink)
            }
            precondition(sink.refusedCount == 0, "\(provider) refuses the sample")
        }
    }

    static func frames(_ bench: inout Bench) {
        let header = BatchHeader(
            stream: StreamNumber(7), offset: StreamOffset(1_234_567), rawByteCount: 262_144, lineCount: 512,
            wireByteCount: 61_234, checksum: 0xDEAD_BEEF)
        let encoded = Message.batch(header).encoded
        bench.measure("frame-encode", items: 1, allocationsMax: 8) { blackHole(Message.batch(header).encoded) }
        encoded.withUnsafeBytes { bytes in
            bench.measure("frame-decode", items: 1, allocationsMax: 0) {
                do throws(WireError) {
                    let decoded = try Message.decode(prefixOf: bytes)
                    precondition(decoded?.byteCount == bytes.count, "a frame is read whole")
                } catch {
                    preconditionFailure("what was encoded decodes: \(error)")
                }
            }
        }
    }

    /// Groups of four batches of 64 KiB, as in a receiver with several agents.
    static func journal(_ sample: Sample, _ directory: String, _ bench: inout Bench) throws {
        let files = POSIXFileSystem()
        try files.createDirectory(directory)
        guard let id = StreamID("benchmark") else { preconditionFailure("a stream id is letters") }
        let description = StreamDescription(
            id: id, source: "benchmark", environment: "prod", bundle: "com.example.shop", format: .waybill)
        let payload = sample.lines.withUnsafeBytes {
            SharedBytes(UnsafeRawBufferPointer(rebasing: $0[..<min($0.count, 64 << 10)]))
        }
        var journal = try Journal(directory: directory, files: files, segmentByteCountMax: 64 << 20)
        var offset = 0
        try bench.measure("journal-commit", items: 4, bytes: 4 * payload.count, allocationsMax: 64) {
            for _ in 0..<4 {
                let header = BatchHeader(
                    stream: StreamNumber(1), offset: StreamOffset(UInt64(offset)), rawByteCount: payload.count,
                    lineCount: 128, wireByteCount: payload.count, checksum: 0)
                guard case .staged = journal.stage(.batch(header, payload: payload, raw: payload), of: description)
                else {
                    preconditionFailure("a batch that continues its stream is staged")
                }
                offset += payload.count
            }
            _ = try journal.commit(at: Self.now)
        }
    }

    private struct Tapped: ActionEvent {
        let index: Int

        var name: String { "Product Tapped" }

        func encode(into fields: inout Fields) {
            fields.put("productName", "toaster, 2 slices")
            fields.put("productPrice", 39_900)
            fields.put("productPosition", "left")
            fields.put("productIndex", self.index)
        }
    }

    /// The same fields, encoded by the compiler.
    private struct EncodableTapped: ActionEvent, Encodable {
        let productName = "toaster, 2 slices"
        let productPrice = 39_900
        let productPosition = "left"
        let productIndex: Int

        var name: String { "Product Tapped" }
    }

    static func track(_ spool: String, _ bench: inout Bench) throws {
        var configuration = WaybillClient.Configuration(
            spool: spool, environment: .prod, bundle: "com.example.shop", version: "1.4.2", build: "118")
        // No agent ships this spool, so a quota would evict events meanwhile.
        configuration.quota.byteCountMax = .max
        let waybill = try WaybillClient(configuration)
        waybill.setUser("u-8812345")
        // A new segment begins occasionally.
        bench.measure("track", items: 64, allocationsMax: 1) {
            for index in 0..<64 { waybill.track(Tapped(index: index)) }
        }
        // The standard library boxes one container for each event.
        bench.measure("track-encodable", items: 64, allocationsMax: 64 + 1) {
            for index in 0..<64 { waybill.track(EncodableTapped(productIndex: index)) }
        }
    }
}

/// Counts events and keeps nothing.
private struct CountingSink: ExportSink {
    private(set) var eventCount = 0
    private(set) var refusedCount = 0

    mutating func write(_ record: ExportRecord) { self.eventCount += record.eventCount }
    mutating func refuse(_ refusal: Refusal) { self.refusedCount += 1 }
    mutating func hold(_ event: HeldEvent) { self.eventCount += 1 }
    mutating func skip(_ reason: NotExported) { self.eventCount += 1 }
}

/// Uses a value so that its creation is not optimized away.
@inline(never)
private func blackHole(_ value: some Any) {
    withExtendedLifetime(value) {}
}
