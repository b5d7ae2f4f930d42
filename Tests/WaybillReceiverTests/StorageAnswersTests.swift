import Testing
import WaybillData
import WaybillProtocol

@testable import WaybillReceiver

struct StorageAnswersTests {
    private static let fleet = "7d2a40c5e9b1836f04d8fa6e21c97b53"
    private let one = StreamNumber(1)
    private let id = StreamID(unchecked: "a")
    private let bytes = Array("8 bytes\nand more".utf8)

    private func proof(_ end: Int) -> StreamProof {
        StreamProof(of: id, at: StreamOffset(UInt64(end)), tail: bytes[..<end])
    }

    private func skip(_ reason: SkipReason, to end: Int) throws -> SkippedRange {
        try #require(
            SkippedRange(
                offset: StreamOffset(0), byteCount: UInt64(end), reason: reason, tail: Array(bytes[..<end]),
                holder: reason == .before ? "a" : nil))
    }

    private func told(_ answers: inout StorageAnswers) -> [UInt64] {
        var told: [UInt64] = []
        while let (_, report) = answers.next() { told.append(report.offset.rawValue) }
        return told
    }

    @Test func `a skip of what the fleet has needs the claim of an OPEN, until the stream is past it`() throws {
        var answers = StorageAnswers(FleetMembership(fleet: Self.fleet))
        let range = try skip(.elsewhere, to: 8)
        let earlier = try skip(.before, to: 5)
        #expect(answers.fault(in: range, of: id, one)?.hasPrefix("OPEN did not say") == true)
        answers.remember(OpenClaim(from: StreamOffset(8), proof: proof(8).digest), of: one)
        #expect(answers.fault(in: range, of: id, one) == nil)
        #expect(answers.fault(in: earlier, of: id, one) == nil)
        #expect(answers.fault(in: try skip(.elsewhere, to: 9), of: id, one) != nil)
        answers.acknowledged(one, upTo: StreamOffset(5), end: 100)
        #expect(answers.fault(in: range, of: id, one) == nil)
        answers.acknowledged(one, upTo: StreamOffset(8), end: 100)
        #expect(answers.fault(in: range, of: id, one) != nil)
    }

    @Test func `without a fleet nothing is claimed, and nothing waits`() throws {
        var answers = StorageAnswers(nil)
        answers.remember(OpenClaim(from: StreamOffset(8), proof: proof(8).digest), of: one)
        #expect(answers.fault(in: try skip(.elsewhere, to: 8), of: id, one)?.contains("no fleet") == true)
        #expect(answers.fault(in: try skip(.tooLong, to: 8), of: id, one) == nil)
        #expect(answers.opened(one, at: StreamOffset(8), seal: proof(8), isChanged: true, end: 100) == .at)
        answers.acknowledged(one, upTo: StreamOffset(8), end: 100)
        #expect(answers.sealed(one, at: StreamOffset(8), proof(8), end: 100) == false)
        #expect(answers.isEmpty && !answers.isDue)
    }

    @Test func `an OPEN is answered by what the store has`() {
        let membership = FleetMembership(fleet: Self.fleet)
        var answers = StorageAnswers(membership)
        #expect(answers.opened(one, at: StreamOffset(0), seal: nil, isChanged: true, end: 100) == .at)
        #expect(answers.isEmpty, "a stream without bytes is owed nothing")
        #expect(answers.opened(one, at: StreamOffset(8), seal: nil, isChanged: true, end: 100) == .at)
        #expect(answers.opened(one, at: StreamOffset(8), seal: proof(8), isChanged: true, end: 100) == .sealedLater)
        #expect(!answers.isEmpty)
        membership.advance(to: JournalPosition(100))
        #expect(answers.opened(one, at: StreamOffset(8), seal: nil, isChanged: true, end: 100) == .atStored)
        #expect(answers.opened(one, at: StreamOffset(8), seal: proof(8), isChanged: true, end: 100) == .at)
    }

    @Test func `an advance is asked for once, and tells what it covers`() {
        let membership = FleetMembership(fleet: Self.fleet)
        var answers = StorageAnswers(membership)
        answers.acknowledged(one, upTo: StreamOffset(8), end: 100)
        #expect(answers.sealed(StreamNumber(2), at: StreamOffset(9), proof(9), end: 200) == true)
        #expect(told(&answers) == [])
        #expect(answers.beginWaiting() == true)
        #expect(answers.beginWaiting() == false)
        membership.advance(to: JournalPosition(100))
        #expect(answers.isDue)
        answers.advanced()
        #expect(told(&answers) == [8])
        #expect(answers.beginWaiting() == true)
        membership.advance(to: JournalPosition(200))
        #expect(told(&answers) == [9])
        #expect(answers.isEmpty)
    }
}
