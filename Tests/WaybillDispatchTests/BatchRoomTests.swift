import Testing
import WaybillSystem

@testable import WaybillAgent

/// Some buffers, each lent once.
private final class Pool: BatchBuffers {
    private let rest: Lock<[BatchBuffer]>
    let wireByteCount: Int

    init(count: Int, wireByteCount: Int) {
        self.rest = Lock((0..<count).map { _ in BatchBuffer(byteCount: 8) })
        self.wireByteCount = wireByteCount
    }

    func take() -> BatchBuffer? { self.rest.withLock { $0.popLast() } }
}

struct BatchRoomTests {
    @Test func `a buffer is taken once, and the next one when a batch of it is on its way`() {
        var room = BatchRoom(Pool(count: 2, wireByteCount: 5))
        let first = room.next()
        #expect(first != nil && room.next() === first)
        room.sent()
        let second = room.next()
        #expect(second != nil && second !== first)
        room.sent()
        #expect(room.next() == nil && room.wireByteCount == 5)
    }

    @Test func `a pool that is replaced keeps no buffer back, and what it compressed counts`() {
        var room = BatchRoom(Pool(count: 1, wireByteCount: 5))
        let former = room.next()
        room.replacePool { Pool(count: 1, wireByteCount: 7) }
        let present = room.next()
        #expect(present != nil && present !== former && room.wireByteCount == 12)
        room.replacePool { Pool(count: 0, wireByteCount: 1) }
        #expect(room.next() == nil && room.wireByteCount == 13)
    }
}
