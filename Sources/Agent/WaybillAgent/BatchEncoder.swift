internal import WaybillCompression
package import WaybillProtocol

/// Encodes lines for the wire: a header and a compressed payload.
///
/// One owner, one zlib state, reused.
package struct BatchEncoder: ~Copyable {
    private var deflater: Deflater
    private let wire: UnsafeMutableRawBufferPointer

    /// - Parameter rawByteCountMax: the raw bytes of the longest batch.
    package init(level: Int, rawByteCountMax: Int) {
        self.deflater = Deflater(level: level)
        self.wire = .allocate(byteCount: self.deflater.byteCountMax(of: rawByteCountMax), alignment: 4096)
    }

    deinit {
        self.wire.deallocate()
    }

    /// The whole header, and the payload, which is valid until the next call.
    package mutating func encode(_ batch: RawBatch) -> (header: BatchHeader, payload: UnsafeRawBufferPointer) {
        var header = batch.header
        let lines = UnsafeRawBufferPointer(rebasing: batch.buffer.bytes[..<header.rawByteCount])
        header.wireByteCount = self.deflater.deflate(lines, into: self.wire)
        let payload = UnsafeRawBufferPointer(rebasing: self.wire[..<header.wireByteCount])
        header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: batch.id), payload)
        return (header, payload)
    }
}
