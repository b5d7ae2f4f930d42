import Testing
import WaybillData
import WaybillProtocol
import WaybillReceiver
import WaybillServerTestSupport
import WaybillSystem

/// A receiver that belongs to a fleet, as an agent hears it; the test stands for the uploader.
@Suite struct FleetConnectionTests {
    private static let fleet = "7d2a40c5e9b1836f04d8fa6e21c97b53"
    private static let one = StreamNumber(1)
    private static let everything = JournalPosition(1 << 50)
    private let bytes = Array("8 bytes\nand more".utf8)

    private func description(_ id: String = "a") -> StreamDescription {
        StreamDescription(
            id: StreamID(unchecked: id), source: "/a", environment: "prod", bundle: "com.example.shop", format: .waybill
        )
    }

    /// A skip of the stream's bytes up to `end`.
    private func skip(_ reason: SkipReason, from offset: Int = 0, to end: Int) throws -> Message {
        .skip(
            Self.one,
            try #require(
                SkippedRange(
                    offset: StreamOffset(UInt64(offset)), byteCount: UInt64(end - offset), reason: reason,
                    tail: Array(bytes[..<end]), holder: reason == .before ? "a" : nil)))
    }

    private func proof(_ end: Int) -> StreamProof {
        StreamProof(of: StreamID(unchecked: "a"), at: StreamOffset(UInt64(end)), tail: bytes[..<end])
    }

    /// Runs a receiver, and `body` on a thread of its own.
    private func receiving(
        _ membership: FleetMembership?, _ body: @escaping @Sendable (Int) throws -> Void
    ) async throws {
        let place = try Place()
        let port = place.port
        // The receiver ends before a failure is thrown.
        let result = try await place.receiving(adjusting: { $0.membership = membership }) {
            await withCheckedContinuation { (continuation: CheckedContinuation<Result<Void, any Error>, Never>) in
                _ = Worker(name: "client") { continuation.resume(returning: Result { try body(port) }) }
            }
        }
        try result.get()
    }

    /// Opens the stream and returns what it is answered before anything else.
    private func open(_ client: LineClient, _ claim: OpenClaim = .none) throws -> Message {
        try client.send(.open(Self.one, description(), claim))
        return try client.next()
    }

    private func end(of message: Message) throws -> JournalPosition {
        guard case .ack(_, _, let end) = message else { throw Unexpected() }
        return JournalPosition(Int(end))
    }

    /// Another message was expected.
    private struct Unexpected: Error {}

    @Test func `READY names the fleet and its level; a receiver that stands alone names none`() async throws {
        try await receiving(FleetMembership(fleet: Self.fleet)) { port in
            let ready = try LineClient(port: port).greet()
            #expect(ready.fleet == Self.fleet)
            #expect(ready.level == .stored)
        }
        try await receiving(nil) { port in
            let ready = try LineClient(port: port).greet()
            #expect(ready.fleet == nil)
            #expect(ready.level == .durable)
        }
    }

    @Test func `ACK does not wait for the store; STORED and SEALED do`() async throws {
        let membership = FleetMembership(fleet: Self.fleet)
        try await receiving(membership) { port in
            let client = try LineClient(port: port)
            _ = try client.greet()
            guard case .at(_, StreamOffset(0), .empty, _) = try open(client) else { throw Unexpected() }
            try client.send(try skip(.tooLong, to: 8))
            let ack = try client.next()
            let position = try end(of: ack)
            #expect(try client.flush() == [], "nothing is stored")
            membership.advance(to: JournalPosition(position.rawValue - 1))
            #expect(try client.flush() == [])
            membership.advance(to: position)
            #expect(try client.next() == .stored(Self.one, StreamOffset(8)))
            try client.send(.seal(Self.one, length: StreamOffset(8)))
            // It is answered when the end is durable.
            guard case .at(_, StreamOffset(8), let proof, _) = try open(client) else { throw Unexpected() }
            #expect(proof == self.proof(8).skipping(8))
            #expect(try client.flush() == [], "its end is not stored")
            membership.advance(to: Self.everything)
            guard case .sealed(Self.one, let sealed, _) = try client.next() else { throw Unexpected() }
            #expect(sealed == self.proof(8).skipping(8))
        }
    }

    @Test func `what is stored already is said directly after AT`() async throws {
        let membership = FleetMembership(fleet: Self.fleet, stored: Self.everything)
        try await receiving(membership) { port in
            let client = try LineClient(port: port)
            _ = try client.greet()
            _ = try open(client)
            try client.send(try skip(.tooLong, to: 8))
            _ = try end(of: try client.next())
            #expect(try client.next() == .stored(Self.one, StreamOffset(8)))
            guard case .at(_, StreamOffset(8), _, _) = try open(client) else { throw Unexpected() }
            #expect(try client.next() == .stored(Self.one, StreamOffset(8)))
            try client.send(.seal(Self.one, length: StreamOffset(8)))
            guard case .sealed = try client.next() else { throw Unexpected() }
            guard case .at = try open(client) else { throw Unexpected() }
            guard case .sealed = try client.next() else { throw Unexpected() }
        }
    }

    @Test func `more than the end of a sealed stream is refused while SEALED waits`() async throws {
        let membership = FleetMembership(fleet: Self.fleet)
        try await receiving(membership) { port in
            let client = try LineClient(port: port)
            _ = try client.greet()
            _ = try open(client)
            try client.send(try skip(.tooLong, to: 8))
            _ = try end(of: try client.next())
            try client.send(.seal(Self.one, length: StreamOffset(8)))
            _ = try open(client)
            let header = BatchHeader(
                stream: Self.one, offset: StreamOffset(8), rawByteCount: 4, lineCount: 1, wireByteCount: 12, checksum: 0
            )
            try client.send(.batch(header), payload: Array(repeating: 0x42, count: 12))
            guard case .nak(Self.one, StreamOffset(8), .sealed, _) = try client.next() else {
                throw Unexpected()
            }
            #expect(try client.flush() == [], "the payload was read and discarded")
        }
    }

    @Test func `bytes are elsewhere only if OPEN said so with their proof`() async throws {
        let good = OpenClaim(from: StreamOffset(8), by: "b~0", proof: self.proof(8).digest)
        let bad: [OpenClaim] = [
            .none, OpenClaim(from: StreamOffset(8)), OpenClaim(from: StreamOffset(7), proof: good.proof),
            OpenClaim(from: StreamOffset(8), proof: self.proof(9).digest),
        ]
        try await receiving(FleetMembership(fleet: Self.fleet)) { port in
            let client = try LineClient(port: port)
            _ = try client.greet()
            for claim in bad {
                _ = try open(client, claim)
                try client.send(try skip(.elsewhere, to: 8))
                guard case .nak(Self.one, StreamOffset(0), .notAllowed, _) = try client.next() else {
                    throw Unexpected()
                }
            }
            guard case .at(_, StreamOffset(0), .empty, _) = try open(client, good) else {
                throw Unexpected()
            }
            try client.send(try skip(.elsewhere, to: 8))
            guard case .ack(_, StreamOffset(8), _) = try client.next() else { throw Unexpected() }
            try client.send(try skip(.elsewhere, from: 8, to: 9))
            guard case .nak(_, _, .notAllowed, _) = try client.next() else { throw Unexpected() }
        }
        try await receiving(nil) { port in
            let client = try LineClient(port: port)
            _ = try client.greet()
            _ = try open(client, good)
            try client.send(try skip(.elsewhere, to: 8))
            guard case .nak(_, _, .notAllowed, _) = try client.next() else { throw Unexpected() }
        }
    }

    @Test func `what is before the fleet is skipped up to the claim's end, or in front of what is stored`()
        async throws
    {
        let claim = OpenClaim(from: StreamOffset(8), by: "a~1", proof: proof(8).digest)
        try await receiving(FleetMembership(fleet: Self.fleet)) { port in
            let client = try LineClient(port: port)
            _ = try client.greet()
            for (opening, end) in [(OpenClaim.none, 5), (claim, 9)] {
                _ = try open(client, opening)
                try client.send(try skip(.before, to: end))
                guard case .nak(Self.one, StreamOffset(0), .notAllowed, _) = try client.next() else {
                    throw Unexpected()
                }
            }
            _ = try open(client, claim)
            try client.send(try skip(.before, to: 5))
            try client.send(try skip(.elsewhere, from: 5, to: 8))
            var acked = StreamOffset(0)
            while acked < StreamOffset(8) {
                guard case .ack(_, let offset, _) = try client.next() else { throw Unexpected() }
                acked = offset
            }
            #expect(acked == StreamOffset(8))
        }
        try await receiving(nil) { port in
            let client = try LineClient(port: port)
            _ = try client.greet()
            _ = try open(client, claim)
            try client.send(try skip(.before, to: 8))
            guard case .nak(_, _, .notAllowed, _) = try client.next() else { throw Unexpected() }
        }
    }

    @Test(arguments: [false, true])
    func `skips of what the fleet has do not count for the day's bound`(isBefore: Bool) async throws {
        // More than a principal may skip in a day.
        let end = StreamOffset(65 << 30)
        let tail = [UInt8](repeating: 0x42, count: StreamProof.byteCountMax)
        let proof = StreamProof(of: StreamID(unchecked: "a"), at: end, tail: tail)
        let skips = [SkipReason.tooLong, .elsewhere, .before].compactMap {
            SkippedRange(
                offset: StreamOffset(0), byteCount: end.rawValue, reason: $0, tail: tail,
                holder: $0 == .before ? "a" : nil)
        }
        try await receiving(FleetMembership(fleet: Self.fleet)) { port in
            let client = try LineClient(port: port)
            _ = try client.greet()
            _ = try open(client)
            try client.send(.skip(Self.one, skips[0]))
            guard case .nak(_, _, .retryAfter, _) = try client.next() else { throw Unexpected() }
            _ = try open(client, OpenClaim(from: end, proof: proof.digest))
            try client.send(.skip(Self.one, skips[isBefore ? 2 : 1]))
            guard case .ack(_, end, _) = try client.next() else { throw Unexpected() }
        }
    }

    @Test func `a hole is longer than a day's bound, and has nothing but NULs`() async throws {
        let end = UInt64(65 << 30)
        var tail = [UInt8](repeating: 0, count: StreamProof.byteCountMax)
        let hole = SkippedRange(offset: StreamOffset(0), byteCount: end, reason: .hole, tail: tail)
        tail[0] = 0x0A
        let other = SkippedRange(offset: StreamOffset(0), byteCount: end, reason: .hole, tail: tail)
        let skips = try [#require(other), #require(hole)]
        try await receiving(nil) { port in
            let client = try LineClient(port: port)
            _ = try client.greet()
            _ = try open(client)
            try client.send(.skip(Self.one, skips[0]))
            guard case .nak(_, StreamOffset(0), .notAllowed, _) = try client.next() else { throw Unexpected() }
            _ = try open(client)
            try client.send(.skip(Self.one, skips[1]))
            guard case .ack(_, StreamOffset(end), _) = try client.next() else { throw Unexpected() }
        }
    }
}
