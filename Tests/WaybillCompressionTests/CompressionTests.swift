import Testing
import WaybillCompression

@Suite struct CompressionTests {
    private static func deflate(_ raw: [UInt8], level: Int = 1) -> [UInt8] {
        var deflater = Deflater(level: level)
        return self.deflate(raw, &deflater)
    }

    private static func deflate(_ raw: [UInt8], _ deflater: inout Deflater) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: deflater.byteCountMax(of: raw.count))
        let count = raw.withUnsafeBytes { raw in
            output.withUnsafeMutableBytes { deflater.deflate(raw, into: $0) }
        }
        output.removeLast(output.count - count)
        return output
    }

    private static func inflate(_ payload: [UInt8], byteCount: Int) -> Result<[UInt8], InflateError> {
        var inflater = Inflater()
        return self.inflate(payload, byteCount: byteCount, &inflater)
    }

    /// Also sees that nothing behind the declared length is touched.
    private static func inflate(
        _ payload: [UInt8], byteCount: Int, _ inflater: inout Inflater
    ) -> Result<[UInt8], InflateError> {
        let guardByteCount = 64
        var output = [UInt8](repeating: 0xA5, count: byteCount + guardByteCount)
        var result: Result<[UInt8], InflateError> = .success([])
        payload.withUnsafeBytes { payload in
            output.withUnsafeMutableBytes { output in
                do throws(InflateError) {
                    try inflater.inflate(payload, into: UnsafeMutableRawBufferPointer(rebasing: output[..<byteCount]))
                } catch {
                    result = .failure(error)
                }
            }
        }
        #expect(output[byteCount...].allSatisfy { $0 == 0xA5 })
        return result.map { _ in Array(output[..<byteCount]) }
    }

    private static func text(_ lineCount: Int) -> [UInt8] {
        (0..<lineCount).flatMap { Array("{\"name\":\"screen_view\",\"seq\":\($0)}\n".utf8) }
    }

    @Test(arguments: 0...9)
    func `what is deflated at any level inflates to the same bytes`(level: Int) {
        var deflater = Deflater(level: level)
        var inflater = Inflater()
        for raw in [[0x0A], Self.text(1), Self.text(500), [UInt8](repeating: 0x61, count: 300_000)] {
            let payload = Self.deflate(raw, &deflater)
            #expect(Self.inflate(payload, byteCount: raw.count, &inflater) == .success(raw))
        }
    }

    @Test(arguments: 0..<UInt64(60))
    func `bytes of any kind survive, with one state for all of them`(seed: UInt64) {
        var generator = Generator(state: seed)
        var deflater = Deflater(level: 1)
        var inflater = Inflater()
        for _ in 0..<6 {
            let alphabet = UInt8.random(in: 0...255, using: &generator)
            let raw = (0..<Int.random(in: 1...20_000, using: &generator)).map { _ in
                UInt8.random(in: 0...alphabet, using: &generator)
            }
            let payload = Self.deflate(raw, &deflater)
            #expect(Self.inflate(payload, byteCount: raw.count, &inflater) == .success(raw))
        }
    }

    @Test func `a payload cut at any byte is an error, and the next one inflates`() {
        let raw = Self.text(60)
        let payload = Self.deflate(raw)
        var inflater = Inflater()
        for count in 0..<payload.count {
            let result = Self.inflate(Array(payload[..<count]), byteCount: raw.count, &inflater)
            #expect(result == .failure(.truncated), "\(count) of \(payload.count) bytes")
        }
        #expect(Self.inflate(payload, byteCount: raw.count, &inflater) == .success(raw))
    }

    @Test func `a declared length that is wrong is an error that says how`() {
        let raw = Self.text(60)
        let payload = Self.deflate(raw)
        for missing in [1, 2, 100, raw.count - 1] {
            #expect(Self.inflate(payload, byteCount: raw.count - missing) == .failure(.tooLong))
        }
        for excess in [1, 2, 100, 1 << 20] {
            #expect(
                Self.inflate(payload, byteCount: raw.count + excess) == .failure(.tooShort(byteCount: raw.count)))
        }
    }

    @Test func `bytes behind the end are an error`() {
        let raw = Self.text(60)
        for extra in [1, 2, 5000] {
            let payload = Self.deflate(raw) + [UInt8](repeating: 0x78, count: extra)
            #expect(Self.inflate(payload, byteCount: raw.count) == .failure(.trailingBytes(byteCount: extra)))
        }
        let twice = Self.deflate(raw) + Self.deflate(raw)
        #expect(
            Self.inflate(twice, byteCount: raw.count) == .failure(.trailingBytes(byteCount: Self.deflate(raw).count)))
    }

    @Test func `a bomb is stopped at the declared length`() {
        let payload = Self.deflate([UInt8](repeating: 0, count: 8 << 20), level: 9)
        #expect(payload.count < 30_000)
        #expect(Self.inflate(payload, byteCount: 1000) == .failure(.tooLong))
        #expect(Self.inflate(payload, byteCount: 1) == .failure(.tooLong))
    }

    @Test func `a flipped bit anywhere gives an error or the same bytes`() {
        let raw = Self.text(20)
        let payload = Self.deflate(raw)
        var sameCount = 0
        for index in payload.indices {
            for bit in 0..<8 {
                var damaged = payload
                damaged[index] ^= 1 << bit
                if case .success(let bytes) = Self.inflate(damaged, byteCount: raw.count) {
                    #expect(bytes == raw, "bit \(bit) of byte \(index)")
                    sameCount += 1
                }
            }
        }
        // Nothing reads the padding between the last block and the checksum.
        #expect(sameCount < 8)
    }

    @Test func `nothing declared and nothing sent are errors, not traps`() {
        #expect(Self.inflate([], byteCount: 10) == .failure(.truncated))
        #expect(Self.inflate(Self.deflate([]), byteCount: 10) == .failure(.tooShort(byteCount: 0)))
    }

    @Test func `the room that is promised is enough for bytes that do not compress`() {
        var generator = Generator(state: 7)
        for count in [0, 1, 100, 65_536, 300_001] {
            let raw = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            for level in [0, 1, 9] {
                let payload = Self.deflate(raw, level: level)
                #expect(payload.count <= raw.count + raw.count / 100 + 64)
            }
        }
    }

    @Test func `the checksum of a frame is CRC-32 of its text and payload`() {
        let payload = Array("456789".utf8)
        let checksum = payload.withUnsafeBytes { FrameChecksum.checksum(of: "123", $0) }
        // The check value of CRC-32/ISO-HDLC: "123456789".
        #expect(checksum == 0xCBF4_3926)
        let continued = Array("123".utf8).withUnsafeBytes { FrameChecksum.checksum(continuing: 0, $0) }
        #expect(payload.withUnsafeBytes { FrameChecksum.checksum(continuing: continued, $0) } == 0xCBF4_3926)
        #expect(FrameChecksum.checksum(continuing: 0, UnsafeRawBufferPointer(start: nil, count: 0)) == 0)
    }
}

/// SplitMix64; this module knows no other.
struct Generator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        self.state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = self.state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
