public import CWaybillSystem

/// A value protected by a lock.
///
/// It stands for `Synchronization.Mutex`, which needs iOS 18 and macOS 15, and which on Linux is handed to the
/// longest-waiting thread: under contention each turn then costs a thread switch, and four threads that append lines reach
/// a tenth of the throughput of this lock (`Tools/Benchmarks/results`).
///
/// `@unchecked Sendable`: `state` is accessed only while the lock is held.
@usableFromInline
package final class Lock<State: ~Copyable>: @unchecked Sendable {
    @usableFromInline let lock: OpaquePointer
    @usableFromInline let state: UnsafeMutablePointer<State>

    package init(_ state: consuming sending State) {
        self.lock = waybill_lock_new()
        self.state = .allocate(capacity: 1)
        self.state.initialize(to: state)
    }

    deinit {
        self.state.deinitialize(count: 1)
        self.state.deallocate()
        waybill_lock_free(self.lock)
    }

    /// Runs `body` with the lock held; it must not take the same lock.
    @inlinable @inline(__always)
    package func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        waybill_lock_take(self.lock)
        defer { waybill_lock_release(self.lock) }
        return try body(&self.state.pointee)
    }

    /// Runs `body` with the lock held, unless another thread holds it; then returns `nil`.
    package func withLockIfAvailable<Result, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result? {
        guard waybill_lock_try(self.lock) != 0 else { return nil }
        defer { waybill_lock_release(self.lock) }
        return try body(&self.state.pointee)
    }
}
