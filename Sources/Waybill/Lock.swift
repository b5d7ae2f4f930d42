#if canImport(Glibc)
    internal import Glibc
#else
    internal import Synchronization
#endif

/// A value protected by a lock with heavy contention.
///
/// On Linux, `Synchronization.Mutex` is handed to the longest-waiting thread, so under contention each turn costs a
/// thread switch: four threads that append lines reach a tenth of the throughput of this lock
/// (`Tools/Benchmarks/results`). On other platforms it is that mutex.
///
/// `@unchecked Sendable`: `state` is accessed only between `pthread_mutex_lock` and `pthread_mutex_unlock`.
final class Lock<State: ~Copyable>: @unchecked Sendable {
    #if canImport(Glibc)
        private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
        private let state = UnsafeMutablePointer<State>.allocate(capacity: 1)

        init(_ state: consuming sending State) {
            self.state.initialize(to: state)
            self.mutex.initialize(to: pthread_mutex_t())
            pthread_mutex_init(self.mutex, nil)
        }

        deinit {
            pthread_mutex_destroy(self.mutex)
            self.mutex.deallocate()
            self.state.deinitialize(count: 1)
            self.state.deallocate()
        }

        /// Runs `body` with the lock held.
        @inline(__always)
        func withLock<Result: ~Copyable>(_ body: (inout State) -> Result) -> Result {
            pthread_mutex_lock(self.mutex)
            defer { pthread_mutex_unlock(self.mutex) }
            return body(&self.state.pointee)
        }
    #else
        private let mutex: Mutex<State>

        init(_ state: consuming sending State) {
            self.mutex = Mutex(state)
        }

        /// Runs `body` with the lock held.
        func withLock<Result: ~Copyable>(_ body: (inout State) -> Result) -> Result {
            self.mutex.withLock { state in body(&state) }
        }
    #endif
}
