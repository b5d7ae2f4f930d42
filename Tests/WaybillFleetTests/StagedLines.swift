import Testing
import WaybillCompression
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

extension Journal where Files == FaultyFiles {
    /// Stages a line of the stream `stream-N` behind those that it has.
    mutating func stage(_ raw: [UInt8], of stream: Int) throws {
        let id = try #require(StreamID("stream-\(stream)"))
        let description = StreamDescription(
            id: id, source: "/\(stream).ndjson", environment: "prod", bundle: "com.example.app", format: .waybill)
        var deflater = Deflater(level: 1)
        let payload = raw.withUnsafeBytes { raw in
            SharedBytes(capacity: deflater.byteCountMax(of: raw.count)) { deflater.deflate(raw, into: $0) }
        }
        var header = BatchHeader(
            stream: StreamNumber(1), offset: self.position(of: description.name), rawByteCount: raw.count,
            lineCount: 1, wireByteCount: payload.count, checksum: 0)
        header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: id), payload.bytes)
        let entry = JournalEntry.batch(header, payload: payload, raw: raw.withUnsafeBytes { SharedBytes($0) })
        let outcome = self.stage(entry, of: description)
        #expect(outcome == .staged)
    }
}
