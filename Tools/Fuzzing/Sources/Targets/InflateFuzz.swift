internal import WaybillCompression
internal import WaybillTestSupport

/// Payloads: never past the declared length, whole or refused, and a state that serves again after any of them.
enum InflateFuzz {
    enum Outcome: Equatable {
        case whole([UInt8])
        case refused(InflateError)
    }

    @Sendable static func run(_ input: [UInt8]) throws {
        var decisions = FuzzInput(input)
        let declared = 1 + decisions.number(below: 65_536)
        let level = decisions.number(below: 10)
        let payload = decisions.rest()
        var inflater = Inflater()
        let outcome = try Self.inflate(payload, declared, &inflater)
        if case .whole(let raw) = outcome {
            try require(raw.count == declared, "\(raw.count) bytes for \(declared)")
            try Self.checkBorders(payload, raw, &inflater)
        }
        try Self.checkRoundTrip(payload, level, &inflater)
    }

    private static func inflate(
        _ payload: [UInt8], _ declared: Int, _ inflater: inout Inflater
    ) throws -> Outcome {
        let guardByteCount = 64
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: declared + guardByteCount, alignment: 1)
        defer { room.deallocate() }
        for index in room.indices { room[index] = 0xA5 }
        let output = UnsafeMutableRawBufferPointer(rebasing: room[..<declared])
        var outcome = Outcome.refused(.corrupt)
        withExactBytes(payload) { payload in
            do throws(InflateError) {
                try inflater.inflate(payload, into: output)
                outcome = .whole(Array(output))
            } catch {
                outcome = .refused(error)
            }
        }
        try require(room[declared...].allSatisfy { $0 == 0xA5 }, "bytes behind the output were written")
        return outcome
    }

    /// A payload that is whole is so for no other length, and no prefix or extension of it is.
    private static func checkBorders(_ payload: [UInt8], _ raw: [UInt8], _ inflater: inout Inflater) throws {
        let longer = try Self.inflate(payload, raw.count + 1, &inflater)
        try require(longer == .refused(.tooShort(byteCount: raw.count)), "one byte more: \(longer)")
        if raw.count > 1 {
            let shorter = try Self.inflate(payload, raw.count - 1, &inflater)
            try require(shorter == .refused(.tooLong), "one byte less: \(shorter)")
        }
        let cut = try Self.inflate(Array(payload.dropLast()), raw.count, &inflater)
        try require(cut == .refused(.truncated), "the last byte is missing: \(cut)")
        let extended = try Self.inflate(payload + [0], raw.count, &inflater)
        try require(extended == .refused(.trailingBytes(byteCount: 1)), "a byte follows: \(extended)")
    }

    private static func checkRoundTrip(_ raw: [UInt8], _ level: Int, _ inflater: inout Inflater) throws {
        guard !raw.isEmpty else { return }
        var deflater = Deflater(level: level)
        for _ in 0..<2 {
            let room = UnsafeMutableRawBufferPointer.allocate(
                byteCount: deflater.byteCountMax(of: raw.count), alignment: 1)
            defer { room.deallocate() }
            let count = withExactBytes(raw) { deflater.deflate($0, into: room) }
            let payload = Array(room[..<count])
            let outcome = try Self.inflate(payload, raw.count, &inflater)
            try require(outcome == .whole(raw), "not what was deflated at level \(level): \(outcome)")
            try Self.checkBorders(payload, raw, &inflater)
        }
    }
}
