import Testing
import WaybillProtocol
import WaybillSystem

@testable import WaybillTail

struct TailNoticesTests {
    private static let error = FileSystemError("read", path: "/a", errno: Errno.noEntry)

    @Test func `a problem of a path is told once, and what cannot be read is known until the next look`() {
        var notices = TailNotices()
        let told = (0..<2).map { _ in notices.complain("/a", .unreadable(path: "/a", Self.error)) }
        #expect(told == [true, false])
        let taken = (0..<2).map { _ in notices.take().count }
        #expect(taken == [1, 0])
        #expect(notices.unreadable == [PathKey("/a")])
        notices.beginLook()
        #expect(notices.unreadable.isEmpty)
        let isToldAgain = notices.complain("/a", .unreadable(path: "/a", Self.error))
        #expect(!isToldAgain && notices.pending.isEmpty)
        #expect(notices.unreadable == [PathKey("/a")])
    }

    @Test func `of very many files that one look finds the first are named, and the others counted`() throws {
        var notices = TailNotices()
        for number in 0..<1002 {
            notices.append(.discovered(StreamID(unchecked: "s\(number)"), path: "/\(number)"))
        }
        let taken = notices.take()
        #expect(taken.count == 1001 && taken.last == .moreDiscovered(count: 2))
        #expect(notices.take().isEmpty)
    }

    @Test func `as many paths are told as memory has room for, and no more`() {
        var notices = TailNotices()
        for number in 0..<(TailNotices.complaintCountMax + 10) {
            notices.refuse("/\(number)", .link)
            notices.refuse("/\(number)", .link)
        }
        #expect(notices.pending.count == TailNotices.complaintCountMax)
        #expect(notices.refusals == [.link: TailNotices.complaintCountMax])
    }

    @Test func `a format is counted once for a path, beside its other problems, and losses only with bytes`() {
        var notices = TailNotices()
        notices.refuse("/a", .owner)
        for _ in 0..<2 { notices.recognized(.cri, of: "/a") }
        #expect(notices.formats == [.cri: 1] && notices.refusals == [.owner: 1])
        notices.lost(.vanished(nil, path: "/a", offset: 0, lostByteCount: 0), 0)
        notices.lost(.vanished(nil, path: "/a", offset: 0, lostByteCount: 7), 7)
        #expect(notices.loss == TailLoss(byteCount: 7, occasionCount: 1))
        #expect(notices.pending.count == 4)
    }
}
