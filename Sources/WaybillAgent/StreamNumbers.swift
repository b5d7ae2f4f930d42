internal import NIOCore
internal import WaybillProtocol
internal import WaybillTail

/// Which number each tailed stream has on the present connection, and where its opening stands.
struct StreamNumbers {
    enum State {
        /// Not opened, or to be opened again.
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
        let number: StreamNumber
        var standing: Standing
    }

    private var entries: [StreamKey: Entry] = [:]
    private var streams: [StreamNumber: StreamKey] = [:]
    private(set) var openingCount = 0
    /// Streams beyond what the receiver grants, in the order in which they came.
    private var waiting = CircularBuffer<StreamKey>()
    private var isWaiting: Set<StreamKey> = []
    /// Refusals of a stream since it last moved on; kept over connections.
    private var failures: [StreamKey: Int] = [:]
    private var last: UInt64 = 0

    func state(of stream: StreamKey) -> State {
        guard let entry = self.entries[stream] else { return self.isWaiting.contains(stream) ? .waiting : .closed }
        switch entry.standing {
        case .opening: return .opening
        case .open: return .open(entry.number)
        case .refused: return .refused
        case .reopening: return .closed
        }
    }

    func stream(_ number: StreamNumber) -> StreamKey? {
        self.streams[number]
    }

    /// The number for an `OPEN`: the one it had on this connection, else a new one.
    mutating func open(_ stream: StreamKey) -> StreamNumber {
        if self.entries[stream] == nil {
            self.last += 1
            let number = StreamNumber(self.last)
            self.entries[stream] = Entry(number: number, standing: .reopening)
            self.streams[number] = stream
        }
        self.move(stream, to: .opening)
        return self.entries[stream]?.number ?? StreamNumber(self.last)
    }

    /// Whether it had a number on this connection, and keeps it.
    func hasNumber(_ stream: StreamKey) -> Bool {
        self.entries[stream] != nil
    }

    var hasWaiting: Bool { !self.waiting.isEmpty }

    /// Lets a stream wait until another has ended.
    mutating func wait(_ stream: StreamKey) {
        if self.isWaiting.insert(stream).inserted { self.waiting.append(stream) }
    }

    /// Takes out the stream that has waited longest.
    mutating func nextWaiting() -> StreamKey? {
        guard let stream = self.waiting.popFirst() else { return nil }
        self.isWaiting.remove(stream)
        return stream
    }

    mutating func positioned(_ number: StreamNumber) -> StreamKey? {
        guard let stream = self.streams[number] else { return nil }
        self.move(stream, to: .open)
        return stream
    }

    mutating func refused(_ number: StreamNumber) -> StreamKey? {
        guard let stream = self.streams[number] else { return nil }
        self.move(stream, to: .refused)
        return stream
    }

    /// Lets a refused stream be opened again.
    mutating func retry(_ stream: StreamKey) {
        self.move(stream, to: .reopening)
    }

    mutating func remove(_ number: StreamNumber) -> StreamKey? {
        guard let stream = self.streams.removeValue(forKey: number) else { return nil }
        self.move(stream, to: .open)
        self.entries[stream] = nil
        self.failures[stream] = nil
        return stream
    }

    private mutating func move(_ stream: StreamKey, to standing: Standing) {
        guard let entry = self.entries[stream] else { return }
        if entry.standing == .opening { self.openingCount -= 1 }
        if standing == .opening { self.openingCount += 1 }
        self.entries[stream]?.standing = standing
    }

    /// - Returns: how often in a row the stream was refused.
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
        self.streams.removeAll(keepingCapacity: true)
        self.waiting.removeAll()
        self.isWaiting.removeAll()
        self.openingCount = 0
        self.last = 0
    }
}
