internal import CZlib

/// Gzip (RFC 1952), which every tool reads: a sequence of members, each complete in itself.
///
///     1F 8B 08 00  00 00 00 00  00 FF   deflate …   CRC-32   length mod 2³²       no time, no name: the same input
///     |<------ 10 bytes of header --->|                                           always gives the same bytes
package enum Gzip {
    /// The maximum inflated length of a member.
    package static var memberByteCountMax: Int { 4 << 20 }

    /// zlib's parameter for a window of 32 KiB and a gzip wrapper.
    fileprivate static var windowBits: Int32 { 15 + 16 }
}

/// Compresses bytes into whole gzip members, with one state reused for all of them.
///
/// One state takes about 268 KiB.
package struct GzipDeflater: ~Copyable {
    private var state: DeflateState
    private let header: UnsafeMutablePointer<gz_header>

    /// Creates the state.
    ///
    /// - Parameter level: 0 (store) to 9 (smallest).
    package init(level: Int) {
        self.state = DeflateState(level: level, windowBits: Gzip.windowBits)
        self.header = .allocate(capacity: 1)
        self.header.initialize(to: gz_header())
        // 255 means an unknown system, so that the bytes are the same on all of them.
        self.header.pointee.os = 255
    }

    deinit {
        self.header.deallocate()
    }

    /// The output capacity that suffices for any `rawByteCount` bytes.
    package func byteCountMax(of rawByteCount: Int) -> Int {
        // 18 bytes of header and trailer, which older versions of zlib leave out of their bound.
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

/// Inflates gzip members piece by piece: input and output of any size, with the memory of one state (about 40 KiB).
///
/// Each member's checksum and length are verified at its end. Members follow each other directly; any other bytes
/// between or after them are corrupt.
package struct GzipInflater: ~Copyable {
    private let stream: UnsafeMutablePointer<z_stream>
    /// Whether all input so far consists of whole members.
    package private(set) var isBetweenMembers = true

    /// What the bytes are; each is read as members that follow each other.
    package enum Format: Sendable {
        case gzip
        /// Gzip or zlib, as the first bytes say.
        case automatic
        /// Deflate without a frame, and without a checksum.
        case raw

        fileprivate var windowBits: Int32 {
            switch self {
            case .gzip: Gzip.windowBits
            case .automatic: 15 + 32
            case .raw: -15
            }
        }
    }

    package init(_ format: Format = .gzip) {
        self.stream = .allocate(capacity: 1)
        self.stream.initialize(to: z_stream())
        let status = inflateInit2_(
            self.stream, format.windowBits, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        precondition(status == Z_OK, "zlib could not start: status \(status) (out of memory or another version)")
    }

    deinit {
        inflateEnd(self.stream)
        self.stream.deallocate()
    }

    /// Inflates until the input is used up, the output is full, or a member ends.
    ///
    /// - Returns: the number of input bytes consumed and of output bytes filled; both are 0 only if the input is empty
    ///   or the output has no room.
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
        // No progress was possible: the caller provides more input or output.
        case Z_OK, Z_BUF_ERROR: break
        default: throw .corrupt
        }
        return (taken, filled)
    }
}
