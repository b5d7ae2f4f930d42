#if ISAL
    internal import CISAL

    /// Compresses whole batches in the zlib format (RFC 1950) with Intel's ISA-L, several times as fast as zlib.
    ///
    /// The package trait `ISAL` uses it instead of zlib; each can read the other's output. One state takes about 400
    /// KiB.
    package struct Deflater: ~Copyable {
        private let stream: UnsafeMutablePointer<isal_zstream>
        private let levelBuffer: UnsafeMutablePointer<UInt8>

        /// ISA-L has four levels; its level 1 compresses as well as zlib's level 1.
        private static func level(_ level: Int) -> (level: Int, bufferByteCount: Int) {
            switch level {
            case 0, 1: (1, Int(WAYBILL_ISAL_LEVEL_1_BYTES))
            case 2...5: (2, Int(WAYBILL_ISAL_LEVEL_2_BYTES))
            default: (3, Int(WAYBILL_ISAL_LEVEL_3_BYTES))
            }
        }

        /// Creates the state.
        ///
        /// - Parameter level: 0 (fastest) to 9 (smallest), on zlib's scale.
        package init(level: Int) {
            precondition((0...9).contains(level), "zlib levels are 0 to 9, got \(level)")
            let chosen = Self.level(level)
            self.stream = .allocate(capacity: 1)
            self.stream.initialize(to: isal_zstream())
            self.levelBuffer = .allocate(capacity: chosen.bufferByteCount)
            isal_deflate_init(self.stream)
            self.stream.pointee.level = UInt32(chosen.level)
            self.stream.pointee.level_buf = self.levelBuffer
            self.stream.pointee.level_buf_size = UInt32(chosen.bufferByteCount)
        }

        deinit {
            self.stream.deallocate()
            self.levelBuffer.deallocate()
        }

        /// The output capacity that suffices for any `rawByteCount` bytes: stored blocks of at most 64 KiB, each with a
        /// header.
        package func byteCountMax(of rawByteCount: Int) -> Int {
            rawByteCount + (rawByteCount / 16_384 + 1) * 8 + 512
        }

        /// Writes `raw` as one complete zlib stream.
        ///
        /// - Parameter output: at least ``byteCountMax(of:)`` bytes.
        /// - Returns: the bytes written.
        package mutating func deflate(
            _ raw: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
        ) -> Int {
            isal_deflate_reset(self.stream)
            // Writing the header clears the flag.
            self.stream.pointee.gzip_flag = UInt16(IGZIP_ZLIB)
            self.stream.pointee.next_in = UnsafeMutablePointer(
                mutating: raw.baseAddress?.assumingMemoryBound(to: UInt8.self))
            self.stream.pointee.avail_in = UInt32(raw.count)
            self.stream.pointee.next_out = output.baseAddress?.assumingMemoryBound(to: UInt8.self)
            self.stream.pointee.avail_out = UInt32(output.count)
            self.stream.pointee.end_of_stream = 1
            self.stream.pointee.flush = UInt16(NO_FLUSH)
            let status = isal_deflate(self.stream)
            precondition(
                status == COMP_OK && self.stream.pointee.internal_state.state == ZSTATE_END,
                "deflate needs byteCountMax(of:) bytes of room, got \(output.count) (status \(status))")
            return output.count - Int(self.stream.pointee.avail_out)
        }
    }

    /// Decompresses whole batches in the zlib format (RFC 1950) with Intel's ISA-L, never past the declared length.
    package struct Inflater: ~Copyable {
        private let state: UnsafeMutablePointer<inflate_state>

        package init() {
            self.state = .allocate(capacity: 1)
            isal_inflate_init(self.state)
        }

        deinit {
            self.state.deallocate()
        }

        /// Inflates `payload` into `output`, which it must fill exactly.
        ///
        /// - Throws: ``InflateError`` if `payload` is not one whole zlib stream of `output.count` bytes.
        package mutating func inflate(
            _ payload: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer
        ) throws(InflateError) {
            self.state.pointee.crc_flag = UInt32(ISAL_ZLIB)
            self.state.pointee.next_in = UnsafeMutablePointer(
                mutating: payload.baseAddress?.assumingMemoryBound(to: UInt8.self))
            self.state.pointee.avail_in = UInt32(payload.count)
            self.state.pointee.next_out = output.baseAddress?.assumingMemoryBound(to: UInt8.self)
            self.state.pointee.avail_out = UInt32(output.count)
            let status = isal_inflate_stateless(self.state)
            let rest = Int(self.state.pointee.avail_in)
            let room = Int(self.state.pointee.avail_out)
            switch status {
            case ISAL_DECOMP_OK:
                if room > 0 { throw .tooShort(byteCount: output.count - room) }
                if rest > 0 { throw .trailingBytes(byteCount: rest) }
            case ISAL_END_INPUT: throw .truncated
            case ISAL_OUT_OVERFLOW: throw .tooLong
            default: throw .corrupt
            }
        }
    }

    /// CRC-32 with ISA-L's code, three times as fast as zlib's.
    package enum FrameChecksum {
        /// The checksum of `text` followed by `payload`.
        package static func checksum(of text: String, _ payload: UnsafeRawBufferPointer) -> UInt32 {
            var text = text
            let head = text.withUTF8 { self.checksum(continuing: 0, UnsafeRawBufferPointer($0)) }
            return self.checksum(continuing: head, payload)
        }

        /// The checksum of `bytes` appended to data with this `checksum` (0 for none).
        package static func checksum(continuing checksum: UInt32, _ bytes: UnsafeRawBufferPointer) -> UInt32 {
            guard let start = bytes.baseAddress else { return checksum }
            return crc32_gzip_refl(checksum, start.assumingMemoryBound(to: UInt8.self), UInt64(bytes.count))
        }
    }
#endif
