package import WaybillFleet
package import WaybillSystem

/// A bucket in memory that several processes share and whose calls fail.
///
///     let store = MemoryStore()
///     store.setFaults { call in call.verb == .create ? .unanswered : nil }
///     store.deliverLate()                        what was on its way arrives
///
/// Keys are in the order of their bytes, as S3 lists them. Everything is visible at once to everybody.
package final class MemoryStore: ObjectStore {
    package enum Verb: String, Hashable, Sendable {
        case create, replace, read, status, list, delete
    }

    /// A call that is about to be made.
    package struct Call: Hashable, Sendable {
        package let number: Int
        package let verb: Verb
        package let key: String
    }

    /// What goes wrong in a call.
    package enum Fault: Hashable, Sendable {
        /// Refused: nothing is done.
        case refused(StoreError.Kind)
        /// Done, and the answer is lost.
        case unanswered
        /// The answer is lost, and the write arrives later.
        case late
        /// A lie: an object that is there is overwritten, and the answer says that it was not.
        case overwritten
        /// A lie: the answer says that the object was created, and it was there.
        case claimed
    }

    private enum Lie {
        case overwrites
        case claims
    }

    private struct State: Sendable {
        var objects: [String: [UInt8]] = [:]
        var plan: (@Sendable (Call) -> Fault?)?
        var callCount = 0
        /// When each object was written, by a clock that tests set.
        var times: [String: WallTime] = [:]
        var time = WallTime.unknown
        var clockOffset: Duration?
        var late: [(verb: Verb, key: String, bytes: [UInt8])] = []
    }

    private let state = Lock(State())
    private let pageCount: Int

    /// - Parameter pageCount: how many keys a listing has at most.
    package init(pageCount: Int = 1000) {
        self.pageCount = pageCount
    }

    /// Asked before each call; replaces the plan before.
    package func setFaults(_ plan: (@Sendable (Call) -> Fault?)?) {
        self.state.withLock { $0.plan = plan }
    }

    /// All objects.
    package var objects: [String: [UInt8]] {
        self.state.withLock { $0.objects }
    }

    /// What objects that are written from now on have as their time.
    package func setTime(_ time: WallTime) {
        self.state.withLock { $0.time = time }
    }

    /// By how much its clock is ahead of everybody's.
    package func setClockOffset(_ offset: Duration?) {
        self.state.withLock { $0.clockOffset = offset }
    }

    package var clockOffset: Duration? { self.state.withLock { $0.clockOffset } }

    package var callCount: Int {
        self.state.withLock { $0.callCount }
    }

    /// Puts an object there, or removes it, as someone else does.
    package func place(_ key: String, _ bytes: [UInt8]?) {
        self.state.withLock { $0.objects[key] = bytes }
    }

    /// Lets the writes arrive that no one waits for any more.
    package func deliverLate() {
        self.state.withLock { state in
            for write in state.late where write.verb == .replace || state.objects[write.key] == nil {
                state.objects[write.key] = write.bytes
            }
            state.late = []
        }
    }

    private static func error(_ kind: StoreError.Kind) -> StoreError {
        StoreError(kind, code: "simulated", detail: "the store failed", remedy: "try again")
    }

    private func perform<Answer>(
        _ verb: Verb, _ key: String, write bytes: [UInt8]? = nil, _ body: (inout State, _ lie: Lie?) -> Answer
    ) throws(StoreError) -> Answer {
        let answer = self.state.withLock { state -> Result<Answer, StoreError> in
            let call = Call(number: state.callCount, verb: verb, key: key)
            state.callCount += 1
            switch state.plan?(call) {
            case nil: return .success(body(&state, nil))
            case .refused(let kind): return .failure(Self.error(kind))
            case .unanswered:
                _ = body(&state, nil)
                return .failure(Self.error(.unreachable))
            case .late:
                if let bytes { state.late.append((verb, key, bytes)) }
                return .failure(Self.error(.unreachable))
            case .overwritten: return .success(body(&state, .overwrites))
            case .claimed: return .success(body(&state, .claims))
            }
        }
        return try answer.get()
    }

    private static func bytes(_ body: ObjectBody) throws(StoreError) -> [UInt8] {
        do throws(FileSystemError) {
            let bytes = try body.read(0, body.byteCount)
            guard bytes.count == body.byteCount else {
                throw FileSystemError("read", path: "", errno: Errno.inputOutput)
            }
            return bytes
        } catch {
            throw StoreError(.disk, code: error.code.rawValue, detail: error.description, remedy: "look at the disk")
        }
    }

    package func create(_ key: String, _ body: ObjectBody) throws(StoreError) -> Creation {
        let bytes = try Self.bytes(body)
        return try self.perform(.create, key, write: bytes) { state, lie in
            guard state.objects[key] == nil || lie == .overwrites else { return lie == .claims ? .created : .present }
            state.objects[key] = bytes
            state.times[key] = state.time
            return .created
        }
    }

    package func replace(_ key: String, _ body: ObjectBody) throws(StoreError) {
        let bytes = try Self.bytes(body)
        try self.perform(.replace, key, write: bytes) { state, _ in state.objects[key] = bytes }
    }

    package func read(_ key: String, _ range: Range<Int>?) throws(StoreError) -> [UInt8]? {
        try self.perform(.read, key) { state, _ in
            guard let bytes = state.objects[key], let range else { return state.objects[key] }
            return Array(bytes[min(range.lowerBound, bytes.count)..<min(range.upperBound, bytes.count)])
        }
    }

    package func status(of key: String) throws(StoreError) -> ObjectStatus? {
        try self.perform(.status, key) { state, _ in
            state.objects[key].map { ObjectStatus(byteCount: $0.count, modified: .unknown, entityTag: "") }
        }
    }

    package func list(_ prefix: String, after: String?, isFolded: Bool) throws(StoreError) -> ObjectListing {
        try self.perform(.list, prefix) { state, _ in
            var listing = ObjectListing()
            let found = state.objects.filter { key, _ in
                key.hasPrefix(prefix) && (after.map { $0.utf8.lexicographicallyPrecedes(key.utf8) } ?? true)
            }
            for (key, bytes) in found.sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) {
                if listing.objects.count + listing.folders.count >= self.pageCount { break }
                let rest = key.dropFirst(prefix.count)
                if isFolded, let slash = rest.firstIndex(of: "/") {
                    let folder = prefix + rest[...slash]
                    if after?.hasPrefix(folder) == true { continue }
                    if listing.folders.last != folder { listing.folders.append(folder) }
                } else {
                    let time = state.times[key] ?? .unknown
                    listing.objects.append(.init(key: key, byteCount: bytes.count, modified: time))
                }
                listing.next = key
            }
            if listing.objects.count + listing.folders.count < self.pageCount { listing.next = nil }
            return listing
        }
    }

    package func delete(_ key: String) throws(StoreError) {
        try self.perform(.delete, key) { state, _ in state.objects[key] = nil }
    }
}
