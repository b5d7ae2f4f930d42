internal import WaybillSystem

/// What the registry's file has not got yet.
///
///     changed ─▶ written (survives the agent's end) ─▶ synchronized (survives a power failure)
struct RegistryChanges {
    /// The capacity kept for changes until the next checkpoint.
    private static let keptCountMax = 1024

    /// Streams whose entries may differ from what is written.
    private(set) var streams: Set<StreamKey> = []
    /// Keys of entries to be removed.
    private(set) var removedIDs: Set<String>
    /// Whether a power failure may undo what is written.
    private(set) var isUnsynchronized = false
    /// The total size of the registry's entries, in bytes.
    private(set) var byteCount = 0
    private var synchronizedAt: MonotonicTime?

    /// - Parameter unreadable: keys of entries that are dropped.
    init(removing unreadable: some Sequence<String>) {
        self.removedIDs = Set(unreadable)
    }

    var isEmpty: Bool { self.streams.isEmpty && self.removedIDs.isEmpty && !self.isUnsynchronized }

    /// Whether the last checkpoint is `interval` ago.
    func isDue(_ now: MonotonicTime, every interval: Duration) -> Bool {
        self.synchronizedAt.map { now - $0 >= interval } ?? true
    }

    mutating func insert(_ stream: StreamKey) { self.streams.insert(stream) }
    mutating func remove(_ stream: StreamKey) { self.streams.remove(stream) }
    mutating func removeEntry(_ id: String) { self.removedIDs.insert(id) }
    mutating func add(byteCount: Int) { self.byteCount += byteCount }

    mutating func written() {
        self.streams.removeAll(keepingCapacity: self.streams.count <= Self.keptCountMax)
        self.removedIDs.removeAll()
    }

    mutating func appended() { self.isUnsynchronized = true }

    /// The file was written as a whole, durably.
    mutating func rewritten(byteCount: Int) {
        self.byteCount = byteCount
        self.isUnsynchronized = false
    }

    mutating func synchronized() { self.isUnsynchronized = false }
    mutating func checkpointed(_ now: MonotonicTime) { self.synchronizedAt = now }
}
