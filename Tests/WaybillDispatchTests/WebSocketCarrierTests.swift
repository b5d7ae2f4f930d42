import NIOCore
import Testing
import WaybillAgent
import WaybillSystem

@testable import WaybillDispatch

/// A tunnel over a system's own WebSocket, driven by a fake of it.
@Suite struct WebSocketCarrierTests {
    /// A WebSocket that does what the test says.
    private final class FakeTask: WebSocketTask {
        private struct State {
            var sent: [(bytes: [UInt8], done: @Sendable ((any Error)?) -> Void)] = []
            var takes: [@Sendable (Result<[UInt8]?, any Error>) -> Void] = []
            var endCount = 0
        }

        private let state = Lock(State())

        func send(_ bytes: [UInt8], _ done: @escaping @Sendable ((any Error)?) -> Void) {
            self.state.withLock { $0.sent.append((bytes, done)) }
        }

        func receive(_ take: @escaping @Sendable (Result<[UInt8]?, any Error>) -> Void) {
            self.state.withLock { $0.takes.append(take) }
        }

        func end() { self.state.withLock { $0.endCount += 1 } }

        var endCount: Int { self.state.withLock { $0.endCount } }
        /// Messages that were given to it, and not said to be sent.
        var waiting: [[UInt8]] { self.state.withLock { $0.sent.map(\.bytes) } }
        var receiveCount: Int { self.state.withLock { $0.takes.count } }

        func finishSend(_ error: (any Error)? = nil) {
            let done = self.state.withLock { $0.sent.removeFirst().done }
            done(error)
        }

        func bring(_ result: Result<[UInt8]?, any Error>) {
            let take = self.state.withLock { $0.takes.removeFirst() }
            take(result)
        }
    }

    private enum Told: Hashable, Sendable {
        case opened
        case received([UInt8])
        case closed(String)
    }

    private struct Broken: Error {}

    private let task = FakeTask()
    private let told = Lock<[Told]>([])
    private let carrier: WebSocketCarrier

    init() {
        let told = self.told
        self.carrier = WebSocketCarrier(
            CarrierEvents(
                opened: { told.withLock { $0.append(.opened) } },
                received: { bytes in told.withLock { $0.append(.received(bytes)) } },
                closed: { reason in told.withLock { $0.append(.closed(reason)) } }))
        self.carrier.use(self.task)
    }

    private var news: [Told] {
        self.told.withLock { told in
            defer { told = [] }
            return told
        }
    }

    @Test func `bytes go out in their order, one message at a time, none above a frame`() {
        let written = Lock(0)
        let long = (0..<100_000).map { UInt8(truncatingIfNeeded: $0) }
        self.carrier.write(ByteBuffer(bytes: [1]), isFollowed: true, written: nil)
        self.carrier.write(ByteBuffer(bytes: long), isFollowed: false) { written.withLock { $0 += 1 } }
        self.carrier.write(ByteBuffer(bytes: [2]), isFollowed: false, written: nil)
        var sent: [[UInt8]] = []
        while let message = self.task.waiting.first {
            #expect(self.task.waiting.count == 1)
            #expect(written.withLock { $0 } == (message == [2] ? 1 : 0))
            sent.append(message)
            self.task.finishSend()
        }
        #expect(sent.allSatisfy { $0.count <= 32 << 10 })
        #expect(sent.flatMap(\.self) == [1] + long + [2])
    }

    @Test func `messages come one for each read, once the tunnel is open`() {
        self.carrier.read()
        #expect(self.task.receiveCount == 0)
        self.carrier.opened()
        self.carrier.opened()
        self.carrier.read()
        self.carrier.read()
        #expect(self.task.receiveCount == 1)
        self.task.bring(.success([1, 2]))
        #expect(self.task.receiveCount == 0, "the next waits for a read")
        self.carrier.read()
        self.task.bring(.success([3]))
        #expect(self.news == [.opened, .received([1, 2]), .received([3])])
    }

    @Test func `a failure in the middle of a send ends it once`() {
        self.carrier.opened()
        self.carrier.read()
        self.carrier.write(ByteBuffer(repeating: 7, count: 80_000), isFollowed: false, written: nil)
        self.task.finishSend()
        self.task.finishSend(Broken())
        #expect(self.task.waiting.isEmpty, "what follows is not sent")
        self.task.bring(.failure(Broken()))
        self.carrier.failed("later")
        #expect(self.news == [.opened, .closed("the tunnel broke: Broken()")])
        #expect(self.task.endCount == 1)
        self.carrier.write(ByteBuffer(bytes: [1]), isFollowed: false, written: nil)
        self.carrier.read()
        #expect(self.task.waiting.isEmpty && self.task.receiveCount == 0)
    }

    @Test func `text, the end of the door, and our own end`() {
        self.carrier.opened()
        self.carrier.read()
        self.task.bring(.success(nil))
        #expect(self.news == [.opened, .closed("the door sent text, which no tunnel has")])
        let early = WebSocketCarrierTests()
        early.carrier.failed("the door closed the tunnel (1001)")
        early.carrier.opened()
        #expect(early.news == [.closed("the door closed the tunnel (1001)")])
        let ours = WebSocketCarrierTests()
        ours.carrier.close()
        ours.carrier.close()
        #expect(ours.news == [.closed("the connection was closed")])
        #expect(ours.task.endCount == 1)
    }

    @Test func `a task that comes after the end is ended`() {
        let carrier = WebSocketCarrier(CarrierEvents(opened: {}, received: { _ in }, closed: { _ in }))
        carrier.close()
        carrier.use(self.task)
        #expect(self.task.endCount == 1)
    }
}
