internal import NIOPosix
internal import WaybillSystem

/// Threads that read bodies, so that none of them holds up an event loop, and how much of their time each address has.
final class DoorReaders: Sendable {
    private let threads = NIOThreadPool(numberOfThreads: 2)
    private let shares = Lock(ReadingShares())

    init() {
        self.threads.start()
    }

    /// Runs on one of the threads.
    ///
    /// - Parameter work: whether nothing is read any more.
    func submit(_ work: @escaping @Sendable (_ isStopping: Bool) -> Void) {
        self.threads.submit { work($0 == .cancelled) }
    }

    func hasTime(_ address: AddressGroup, at now: MonotonicTime) -> Bool {
        self.shares.withLock { $0.hasTime(address, at: now) }
    }

    func spend(_ time: Duration, _ sender: ReadingShares.Sender, _ address: AddressGroup, at now: MonotonicTime) {
        self.shares.withLock { $0.spend(time, sender, address, at: now) }
    }

    /// What waits is told that nothing is read any more.
    func stop() async throws {
        try await self.threads.shutdownGracefully()
    }
}

/// How much time each address has taken, as a level that falls with time.
///
/// An address has the time of one thread, and so never both of them; a stranger's counts twenty times, so that 50 ms of a
/// second are left. What it may take before it waits for the next second is half a second, and its debt is one at most.
struct ReadingShares {
    enum Sender {
        case keyHolder
        /// Its body names no key that is known.
        case stranger
    }

    private static let strangerFactor = 20
    private static let burst = Duration.milliseconds(500)
    private static let debtMax = Duration.seconds(1)

    /// When the level of an address is at zero again; it falls by a second each second.
    private var ends: [AddressGroup: MonotonicTime] = [:]
    private var countMax = 1024

    var count: Int { self.ends.count }

    func hasTime(_ address: AddressGroup, at now: MonotonicTime) -> Bool {
        self.ends[address].map { $0 - now < Self.burst } ?? true
    }

    mutating func spend(_ time: Duration, _ sender: Sender, _ address: AddressGroup, at now: MonotonicTime) {
        let level = self.ends[address].map { max(.zero, $0 - now) } ?? .zero
        let cost = sender == .stranger ? time * Self.strangerFactor : time
        self.ends[address] = now + min(level + cost, Self.burst + Self.debtMax)
        guard self.ends.count > self.countMax else { return }
        self.ends = self.ends.filter { $0.value > now }
        self.countMax = max(1024, 2 * self.ends.count)
    }
}
