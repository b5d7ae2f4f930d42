internal import WaybillSpool
internal import WaybillSystem

/// When the spool must be brought within its quota, by one thread at a time.
struct QuotaUpkeep: ~Copyable {
    private let quota: SpoolQuota
    private let segmentByteCountMax: Int
    /// An upper bound for the size of the spool's segments; it still includes segments delivered since the last count.
    private let byteCount = Atomic(0)
    /// The time of the last check, by the monotonic clock, in nanoseconds.
    private let checked: Atomic<Int64>
    /// Held by the thread that deletes segments.
    private let lock = Lock(())

    init(_ quota: SpoolQuota, segmentByteCountMax: Int, at now: MonotonicTime) {
        self.quota = quota
        self.segmentByteCountMax = segmentByteCountMax
        self.checked = Atomic(now.nanoseconds)
    }

    /// Whether the spool may exceed its quota after so many more segments began.
    func isDue(afterSegments count: Int, at now: MonotonicTime) -> Bool {
        let byteCount = self.byteCount.add(count * self.segmentByteCountMax, ordering: .relaxed)
        // Segments also age in an app that runs for a long time.
        let sinceCheck = now.nanoseconds - self.checked.load(ordering: .relaxed)
        return byteCount > self.quota.byteCountMax || sinceCheck > min(Self.interval, self.quota.ageMax).nanoseconds
    }

    private static var interval: Duration { .seconds(3600) }

    /// Evicts what exceeds the quota; returns `nil` at once if another thread is deleting segments.
    func check(at now: MonotonicTime, _ evict: (SpoolQuota) -> Upkeep) -> Upkeep? {
        self.checked.store(now.nanoseconds, ordering: .relaxed)
        return self.lock.withLockIfAvailable { _ in
            let upkeep = evict(self.quota)
            self.byteCount.store(upkeep.byteCount, ordering: .relaxed)
            return upkeep
        }
    }

    /// Deletes segments for another reason, after a check that another thread began.
    func exclusively<Outcome>(_ delete: () -> Outcome) -> Outcome {
        self.lock.withLock { _ in delete() }
    }
}
