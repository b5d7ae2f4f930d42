internal import NIOCore
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// The number of each tailed stream on the current connection, the state of its opening, and when it is opened again.
struct StreamNumbers {
    enum State {
        /// Not opened yet, or to be opened again.
        case closed
        case opening
        case open(StreamNumber)
        /// Waits until it may be opened again.
        case refused
        /// Waits until another stream has ended.
        case waiting
    }

    /// Streams that may wait for their position at once; an `OPEN` has about 300 bytes.
    static let openingCountMax = 256

    private enum Standing {
        case opening
        case open
        case refused
        case reopening
    }

    private struct Entry {
        let stream: StreamKey
        let number: StreamNumber
        var standing: Standing
    }

    /// A slot for each stream with a number; found by either.
    private var entries: [Entry?] = []
    private var free: [Int32] = []
    private var slotsByStream = SlotIndex()
    private var slotsByNumber = SlotIndex()
    private(set) var openingCount = 0
    /// How many were opened on all connections.
    private(set) var openedCount = 0
    /// Streams that exceed the receiver's limit, in order of arrival.
    private var waiting = CircularBuffer<StreamKey>()
    private var isWaiting: Set<StreamKey> = []
    /// Streams without a number that may not be opened yet.
    private var held: Set<StreamKey> = []
    /// When streams that were refused or are held are opened again, soonest first.
    private var retries: [(at: MonotonicTime, stream: StreamKey)] = []
    /// What the `OPEN` of a stream claims, until it is answered with an offset.
    private var claims: [StreamKey: OpenClaim] = [:]
    /// Refusals of a stream since it last advanced; kept across connections.
    private var failures: [StreamKey: Int] = [:]
    private var last: UInt64 = 0

    func state(of stream: StreamKey) -> State {
        guard let entry = self.slot(of: stream).flatMap({ self.entries[$0] }) else {
            if self.held.contains(stream) { return .refused }
            return self.isWaiting.contains(stream) ? .waiting : .closed
        }
        switch entry.standing {
        case .opening: return .opening
        case .open: return .open(entry.number)
        case .refused: return .refused
        case .reopening: return .closed
        }
    }

    func stream(_ number: StreamNumber) -> StreamKey? {
        self.slot(of: number).flatMap { self.entries[$0]?.stream }
    }

    private func slot(of stream: StreamKey) -> Int? {
        self.slotsByStream.slot(Self.hash(stream)) { self.entries[$0]?.stream == stream }
    }

    private func slot(of number: StreamNumber) -> Int? {
        self.slotsByNumber.slot(Self.hash(number)) { self.entries[$0]?.number == number }
    }

    private static func hash(_ value: some Hashable) -> UInt32 {
        SlotIndex.hash { $0.combine(value) }
    }

    /// The number for an `OPEN`: the one it had on this connection, else a new one.
    mutating func open(_ stream: StreamKey) -> StreamNumber {
        self.openedCount += 1
        if let known = self.slot(of: stream).flatMap({ self.entries[$0]?.number }) {
            self.move(stream, to: .opening)
            return known
        }
        self.last += 1
        let number = StreamNumber(self.last)
        self.insert(Entry(stream: stream, number: number, standing: .reopening))
        self.move(stream, to: .opening)
        return number
    }

    private mutating func insert(_ entry: Entry) {
        let slot: Int
        if let free = self.free.popLast() {
            slot = Int(free)
            self.entries[slot] = entry
        } else {
            slot = self.entries.count
            self.entries.append(entry)
        }
        self.slotsByStream.insert(slot, Self.hash(entry.stream))
        self.slotsByNumber.insert(slot, Self.hash(entry.number))
    }

    /// Whether the stream already has a number on this connection.
    func hasNumber(_ stream: StreamKey) -> Bool {
        self.slot(of: stream) != nil
    }

    var hasWaiting: Bool { !self.waiting.isEmpty }

    /// Lets a stream wait until another has ended.
    mutating func wait(_ stream: StreamKey) {
        if self.isWaiting.insert(stream).inserted { self.waiting.append(stream) }
    }

    /// Removes and returns the stream that has waited longest.
    mutating func nextWaiting() -> StreamKey? {
        guard let stream = self.waiting.popFirst() else { return nil }
        self.isWaiting.remove(stream)
        return stream
    }

    mutating func positioned(_ number: StreamNumber) -> StreamKey? {
        guard let stream = self.stream(number) else { return nil }
        self.move(stream, to: .open)
        return stream
    }

    mutating func refused(_ number: StreamNumber) -> StreamKey? {
        guard let stream = self.stream(number) else { return nil }
        self.move(stream, to: .refused)
        return stream
    }

    // MARK: Opening again

    /// When the next stream may be opened again.
    var nextRetry: MonotonicTime? { self.retries.first?.at }

    /// Lets a stream without a number wait.
    mutating func hold(_ stream: StreamKey, until time: MonotonicTime) {
        self.held.insert(stream)
        self.retry(stream, at: time)
    }

    /// Lets a refused stream wait: not at all the first time, then longer and longer until it succeeds.
    ///
    /// - Parameter attempt: the number of its consecutive refusals.
    mutating func postpone(_ stream: StreamKey, after code: ErrorCode, attempt: Int, _ now: MonotonicTime) {
        // A proof, and then a stream of its own: a third demand makes no sense.
        let isLongest = code == .notAllowed || (code == .prove && attempt > 2)
        let isAtOnce = code == .prove || (attempt == 1 && code != .inUse && code != .retryAfter)
        let growing: Duration = isAtOnce ? .zero : .seconds(min(60, 5 << min(attempt, 4)))
        self.retry(stream, at: now + (isLongest ? .seconds(60) : growing))
    }

    private mutating func retry(_ stream: StreamKey, at time: MonotonicTime) {
        let index = self.retries.firstIndex { $0.at > time } ?? self.retries.endIndex
        self.retries.insert((at: time, stream: stream), at: index)
    }

    /// Takes a stream that has waited as long as it must; it may be opened again.
    mutating func takeDue(_ now: MonotonicTime) -> StreamKey? {
        guard let retry = self.retries.first, retry.at <= now else { return nil }
        self.retries.removeFirst()
        self.held.remove(retry.stream)
        self.move(retry.stream, to: .reopening)
        return retry.stream
    }

    /// What the `OPEN` of a stream must claim.
    func claim(of stream: StreamKey) -> OpenClaim? { self.claims[stream] }

    mutating func claim(_ claim: OpenClaim, for stream: StreamKey) {
        self.claims[stream] = claim
    }

    /// The claim of a stream was answered.
    mutating func takeClaim(of stream: StreamKey) -> OpenClaim? {
        self.claims.isEmpty ? nil : self.claims.removeValue(forKey: stream)
    }

    mutating func remove(_ number: StreamNumber) -> StreamKey? {
        guard let slot = self.slot(of: number), let stream = self.entries[slot]?.stream else { return nil }
        self.move(stream, to: .open)
        self.entries[slot] = nil
        self.free.append(Int32(slot))
        self.slotsByStream.remove(slot, Self.hash(stream))
        self.slotsByNumber.remove(slot, Self.hash(number))
        self.failures[stream] = nil
        return stream
    }

    private mutating func move(_ stream: StreamKey, to standing: Standing) {
        guard let slot = self.slot(of: stream), let entry = self.entries[slot] else { return }
        if entry.standing == .opening { self.openingCount -= 1 }
        if standing == .opening { self.openingCount += 1 }
        self.entries[slot]?.standing = standing
    }

    /// - Returns: the number of consecutive refusals of the stream.
    mutating func failed(_ stream: StreamKey) -> Int {
        self.failures[stream, default: 0] += 1
        return self.failures[stream, default: 0]
    }

    mutating func succeeded(_ stream: StreamKey) {
        if !self.failures.isEmpty { self.failures[stream] = nil }
    }

    /// Forgets the connection.
    mutating func removeAll() {
        self.entries.removeAll(keepingCapacity: true)
        self.free.removeAll()
        self.slotsByStream = SlotIndex()
        self.slotsByNumber = SlotIndex()
        self.waiting.removeAll()
        self.isWaiting.removeAll()
        self.held.removeAll()
        self.retries.removeAll()
        self.claims.removeAll()
        self.openingCount = 0
        self.last = 0
    }
}
