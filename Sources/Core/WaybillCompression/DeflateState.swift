internal import CZlib

/// A compressor of zlib's, which writes one whole stream at a time.
struct DeflateState: ~Copyable {
    private let stream: UnsafeMutablePointer<z_stream>

    /// - Parameters:
    ///   - level: 0 (store) to 9 (smallest).
    ///   - windowBits: zlib's code for window and envelope.
    init(level: Int, windowBits: Int32) {
        precondition((0...9).contains(level), "zlib levels are 0 to 9, got \(level)")
        self.stream = .allocate(capacity: 1)
        self.stream.initialize(to: z_stream())
        let status = deflateInit2_(
            self.stream, Int32(level), Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size))
        precondition(status == Z_OK, "zlib could not start: status \(status) (out of memory or another version)")
    }

    deinit {
        deflateEnd(self.stream)
        self.stream.deallocate()
    }

    /// Room that is enough for any `rawByteCount` bytes.
    func byteCountMax(of rawByteCount: Int) -> Int {
        Int(deflateBound(self.stream, uLong(rawByteCount)))
    }

    /// Writes `raw` as one complete stream.
    ///
    /// - Returns: the bytes written.
    mutating func deflate(
        _ raw: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer,
        header: UnsafeMutablePointer<gz_header>? = nil
    ) -> Int {
        deflateReset(self.stream)
        if let header { deflateSetHeader(self.stream, header) }
        self.stream.pointee.setBuffers(raw, output)
        let status = CZlib.deflate(self.stream, Z_FINISH)
        precondition(status == Z_STREAM_END, "deflate needs byteCountMax(of:) bytes of room, got \(output.count)")
        return output.count - Int(self.stream.pointee.avail_out)
    }
}

extension z_stream {
    mutating func setBuffers(_ input: UnsafeRawBufferPointer, _ output: UnsafeMutableRawBufferPointer) {
        self.next_in = UnsafeMutablePointer(mutating: input.baseAddress?.assumingMemoryBound(to: UInt8.self))
        self.avail_in = UInt32(input.count)
        self.next_out = output.baseAddress?.assumingMemoryBound(to: UInt8.self)
        self.avail_out = UInt32(output.count)
    }
}
