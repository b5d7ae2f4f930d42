internal import WaybillSystem

/// A store whose calls are counted, and reported as they end.
///
/// What one call sends again counts once.
package struct MeteredStore: ObjectStore {
    package enum Method: String, CaseIterable, Hashable, Sendable {
        case put, get, head, list, delete
    }

    package enum Outcome: String, CaseIterable, Hashable, Sendable {
        case answered, failed
    }

    /// How many calls were made since the start.
    package final class Counts: Sendable {
        private let counts = Lock<[Method: [Outcome: Int]]>([:])

        package init() {}

        package func count(_ method: Method, _ outcome: Outcome) -> Int {
            self.counts.withLock { $0[method]?[outcome] ?? 0 }
        }

        fileprivate func add(_ method: Method, _ outcome: Outcome) {
            self.counts.withLock { $0[method, default: [:]][outcome, default: 0] += 1 }
        }
    }

    private let store: any ObjectStore
    private let counts: Counts
    private let ended: @Sendable () -> Void

    /// - Parameter ended: called at the end of each call, on the caller's thread.
    package init(_ store: any ObjectStore, _ counts: Counts, ended: @escaping @Sendable () -> Void = {}) {
        self.store = store
        self.counts = counts
        self.ended = ended
    }

    package func create(_ key: String, _ body: ObjectBody) throws(StoreError) -> Creation {
        try self.count(.put) { () throws(StoreError) in try self.store.create(key, body) }
    }

    package func replace(_ key: String, _ body: ObjectBody) throws(StoreError) {
        try self.count(.put) { () throws(StoreError) in try self.store.replace(key, body) }
    }

    package func read(_ key: String, _ range: Range<Int>?) throws(StoreError) -> [UInt8]? {
        try self.count(.get) { () throws(StoreError) in try self.store.read(key, range) }
    }

    package func status(of key: String) throws(StoreError) -> ObjectStatus? {
        try self.count(.head) { () throws(StoreError) in try self.store.status(of: key) }
    }

    package func list(_ prefix: String, after: String?, isFolded: Bool) throws(StoreError) -> ObjectListing {
        try self.count(.list) { () throws(StoreError) in
            try self.store.list(prefix, after: after, isFolded: isFolded)
        }
    }

    package func delete(_ key: String) throws(StoreError) {
        try self.count(.delete) { () throws(StoreError) in try self.store.delete(key) }
    }

    package var clockOffset: Duration? { self.store.clockOffset }

    private func count<Answer>(
        _ method: Method, _ body: () throws(StoreError) -> Answer
    ) throws(StoreError) -> Answer {
        defer { self.ended() }
        do throws(StoreError) {
            let answer = try body()
            self.counts.add(method, .answered)
            return answer
        } catch {
            self.counts.add(method, .failed)
            throw error
        }
    }
}
