import Testing
import WaybillCompression
import WaybillProtocol
import WaybillSystem

/// `Protocol/vectors/protocol/batches.ndjson` decides which batches are taken.
@Suite struct BatchVectorTests {
    private struct Batch {
        let name: String
        let id: StreamID
        let header: BatchHeader
        let payload: [UInt8]
        let verdict: String
        let raw: [UInt8]?

        init(_ row: Value) throws {
            self.name = try row.requireText("name")
            self.id = try #require(StreamID(try row.requireText("id")))
            let line = Array(try row.requireText("line").utf8)
            guard case .batch(let header) = try line.withUnsafeBytes({ try Message(line: $0) }) else {
                throw NoBatch(name: self.name)
            }
            self.header = header
            self.payload = try Vectors.bytes(hexadecimal: try row.requireText("payload"))
            self.verdict = try row.requireText("verdict")
            self.raw = try row["raw"]?.text.map(Vectors.bytes(hexadecimal:))
        }
    }

    private struct NoBatch: Error {
        let name: String
    }

    /// The checks of section 6.3 in their order: the verdict, and what the batch holds if it is good.
    private static func check(_ batch: Batch, with inflater: inout Inflater) -> (verdict: String, raw: [UInt8]) {
        let header = batch.header
        let checksum = batch.payload.withUnsafeBytes {
            FrameChecksum.checksum(of: header.checksummedText(id: batch.id), $0)
        }
        if checksum != header.checksum { return ("checksum", []) }
        if header.rawByteCount > header.wireByteCount * 1032 + 1032 { return ("ratio", []) }
        var raw = [UInt8](repeating: 0, count: header.rawByteCount)
        do throws(InflateError) {
            try Self.inflate(batch.payload, into: &raw, with: &inflater)
        } catch {
            return (error.code, [])
        }
        let endCount = raw.count { $0 == 0x0A }
        let lineCount = raw.last == 0x0A ? endCount : endCount + 1
        return lineCount == header.lineCount ? ("ok", raw) : ("line-count", [])
    }

    private static func inflate(
        _ payload: [UInt8], into raw: inout [UInt8], with inflater: inout Inflater
    ) throws(InflateError) {
        var failure: InflateError?
        payload.withUnsafeBytes { payload in
            raw.withUnsafeMutableBytes { raw in
                do throws(InflateError) {
                    try inflater.inflate(payload, into: raw)
                } catch {
                    failure = error
                }
            }
        }
        if let failure { throw failure }
    }

    @Test func `every batch gets the verdict the vector names, one inflater for all of them`() throws {
        let batches = try Vectors.rows("batches.ndjson").map(Batch.init)
        #expect(batches.count >= 40)
        var inflater = Inflater()
        for batch in batches {
            #expect(batch.header.wireByteCount == batch.payload.count, "\(batch.name)")
            let (verdict, raw) = Self.check(batch, with: &inflater)
            #expect(verdict == batch.verdict, "\(batch.name)")
            #expect(raw == batch.raw ?? [], "\(batch.name)")
        }
    }

    @Test func `what the deflater writes of every good batch is good`() throws {
        var inflater = Inflater()
        for level in [0, 1, 6, 9] {
            var deflater = Deflater(level: level)
            for batch in try Vectors.rows("batches.ndjson").map(Batch.init) {
                guard let raw = batch.raw else { continue }
                var payload = [UInt8](repeating: 0, count: deflater.byteCountMax(of: raw.count))
                let byteCount = raw.withUnsafeBytes { raw in
                    payload.withUnsafeMutableBytes { deflater.deflate(raw, into: $0) }
                }
                payload.removeLast(payload.count - byteCount)
                var inflated = [UInt8](repeating: 0xEE, count: raw.count)
                try Self.inflate(payload, into: &inflated, with: &inflater)
                #expect(inflated == raw, "\(batch.name)")
            }
        }
    }

    @Test func `the portable checksum and zlib's agree on every frame`() throws {
        #expect(CRC32.checksum(of: Array("123456789".utf8)) == 0xCBF4_3926)
        for batch in try Vectors.rows("batches.ndjson").map(Batch.init) {
            let text = batch.header.checksummedText(id: batch.id)
            let checksum = batch.payload.withUnsafeBytes { FrameChecksum.checksum(of: text, $0) }
            #expect(checksum == CRC32.checksum(of: Array(text.utf8) + batch.payload), "\(batch.name)")
        }
    }

    @Test func `the checksum covers every field but the number`() throws {
        let batch = try Batch(try #require(try Vectors.rows("batches.ndjson").first))
        let text = batch.header.checksummedText(id: batch.id)
        #expect(text == "8f14e45fceea167a-00000000000000000001 0 16 2 24\n")
        var header = batch.header
        header.stream = StreamNumber(99)
        #expect(header.checksummedText(id: batch.id) == text)
        header.offset = StreamOffset(1)
        header.rawByteCount = 17
        header.lineCount = 3
        header.wireByteCount = 25
        #expect(header.checksummedText(id: batch.id) == "8f14e45fceea167a-00000000000000000001 1 17 3 25\n")
        #expect(header.end == StreamOffset(18))
    }
}
