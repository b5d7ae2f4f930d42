internal import NIOCore

/// The requests of one connection in the order in which they came, so that parallel checks keep a stream's order.
struct RequestOrder<Request> {
    private enum Slot {
        case checking(Int)
        case ready(Request)
        /// The check failed: nothing is handed over.
        case void
    }

    /// Starts with room for one: the default of sixteen would waste memory on idle connections.
    private var slots = CircularBuffer<Slot>(initialCapacity: 1)
    private var nextCheck = 0

    /// Keeps the place of a batch that is checked.
    ///
    /// - Returns: the check's number.
    mutating func beginCheck() -> Int {
        defer { self.nextCheck += 1 }
        self.slots.append(.checking(self.nextCheck))
        return self.nextCheck
    }

    /// Puts a batch into its place.
    ///
    /// - Parameter request: `nil` if the check failed.
    /// - Returns: whether the place was still there.
    @discardableResult
    mutating func endCheck(_ check: Int, with request: Request?) -> Bool {
        let index = self.slots.firstIndex { if case .checking(check) = $0 { true } else { false } }
        guard let index else { return false }
        self.slots[index] = request.map { .ready($0) } ?? .void
        return true
    }

    mutating func append(_ request: Request) {
        self.slots.append(.ready(request))
    }

    /// Removes and returns the requests that wait for no check.
    mutating func takeReady() -> [Request] {
        var requests: [Request] = []
        while let slot = self.slots.first {
            switch slot {
            case .checking: return requests
            case .ready(let request): requests.append(request)
            case .void: break
            }
            self.slots.removeFirst()
        }
        return requests
    }

    /// Removes everything, and returns the requests that were ready.
    mutating func removeAll() -> [Request] {
        defer { self.slots.removeAll() }
        return self.slots.compactMap { if case .ready(let request) = $0 { request } else { nil } }
    }
}
