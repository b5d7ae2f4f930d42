internal import CZlib

/// Gzip (RFC 1952), which every tool reads: members one behind the other, each whole by itself.
///
///     1F 8B 08 00  00 00 00 00  00 FF   deflate …   CRC-32   length mod 2³²       no time, no name: the same bytes
///     |<------- 10 bytes of head ---->|                                           for the same input, always
package enum Gzip {
    /// What one member holds at most, inflated.
    package static var memberByteCountMax: Int { 4 << 20 }

    /// zlib: the window of 32 KiB, and a gzip wrapper.
    fileprivate static var windowBits: Int32 { 15 + 16 }
}

/// Compresses bytes into whole gzip members, with one state reused for all of them.
///
/// One state costs about 268 KiB.
package struct GzipDeflater: ~Copyable {
    private var state: DeflateState
    private let header: UnsafeMutablePointer<gz_header>

    /// Prepares a state.
    ///
    /// - Parameter level: 0 (store) to 9 (smallest).
    package init(level: Int) {
        self.state = DeflateState(level: level, windowBits: Gzip.windowBits)
        self.header = .allocate(capacity: 1)
        self.header.initialize(to: gz_header())
        // 255: of no particular system, so that the bytes are the same on all of them.
        self.header.pointee.os = 255
    }

    deinit {
        self.header.deallocate()
    }

    /// Room that is enough for any `rawByteCount` bytes.
    package func byteCountMax(of rawByteCount: Int) -> Int {
        // 18 bytes of head and tail, which older versions of zlib leave out of their bound.
        self.state.byteCountMax(of: rawByteCount) + 18
    }

    /// Writes `raw` as one member.
    ///
    /// - Parameter output: at least ``byteCountMax(of:)`` bytes.
    /// - Returns: the bytes written.
    package mutating func deflate(_ raw: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) -> Int {
        self.state.deflate(raw, into: output, header: self.header)
    }
}

extension Gzip {
    /// All of `bytes` as one member.
    package static func member(of bytes: [UInt8]) -> [UInt8] {
        var deflater = GzipDeflater(level: 6)
        var member = [UInt8](repeating: 0, count: deflater.byteCountMax(of: bytes.count))
        let count = bytes.withUnsafeBytes { raw in
            member.withUnsafeMutableBytes { deflater.deflate(raw, into: $0) }
        }
        member.removeLast(member.count - count)
        return member
    }
}

/// Inflates gzip members piece by piece: input and output of any size, memory of one state (about 40 KiB).
///
/// Each member's checksum and length are compared when its end is reached. Members follow each other without a gap;
/// anything else between or behind them is corrupt.
package struct GzipInflater: ~Copyable {
    private let stream: UnsafeMutablePointer<z_stream>
    /// Whether all input so far was whole members.
    package private(set) var isBetweenMembers = true

    package init() {
        self.stream = .allocate(capacity: 1)
        self.stream.initialize(to: z_stream())
        let status = inflateInit2_(
            self.stream, Gzip.windowBits, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        precondition(status == Z_OK, "zlib could not start: status \(status) (out of memory or another version)")
    }

    deinit {
        inflateEnd(self.stream)
        self.stream.deallocate()
    }

    /// Inflates until the input is used up, the output is full, or a member ends.
    ///
    /// - Returns: how many bytes of the input were taken and how many of the output were filled; both 0 only when the
    ///   input is empty or the output has no room.
    package mutating func inflate(
        _ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
    ) throws(InflateError) -> (taken: Int, filled: Int) {
        if self.isBetweenMembers {
            if input.isEmpty { return (0, 0) }
            inflateReset(self.stream)
            self.isBetweenMembers = false
        }
        let inputCount = min(input.count, Int(UInt32.max))
        let outputCount = min(output.count, Int(UInt32.max))
        self.stream.pointee.setBuffers(
            UnsafeRawBufferPointer(rebasing: input[..<inputCount]),
            UnsafeMutableRawBufferPointer(rebasing: output[..<outputCount]))
        let status = CZlib.inflate(self.stream, Z_NO_FLUSH)
        let taken = inputCount - Int(self.stream.pointee.avail_in)
        let filled = outputCount - Int(self.stream.pointee.avail_out)
        switch status {
        case Z_STREAM_END: self.isBetweenMembers = true
        // No progress was possible: the caller brings more of what is missing.
        case Z_OK, Z_BUF_ERROR: break
        default: throw .corrupt
        }
        return (taken, filled)
    }
}
