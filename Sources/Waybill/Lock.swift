#if canImport(Glibc)
    internal import Glibc
#else
    internal import Synchronization
#endif

/// A value behind a lock that several threads want all the time.
///
/// On Linux `Synchronization.Mutex` hands itself over to the thread that waits longest, so that under contention each
/// turn costs a switch of threads: four threads that append lines come to a tenth of what they reach with this one
/// (`Tools/Benchmarks/results`). Elsewhere it is that mutex.
///
/// `@unchecked Sendable`: `state` is touched only between `pthread_mutex_lock` and `pthread_mutex_unlock`.
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

        /// Runs `body` alone.
        @inline(__always)
        func withLock<Result: ~Copyable>(_ body: (inout State) -> Result) -> Result {
            pthread_mutex_lock(self.mutex)
            defer { pthread_mutex_unlock(self.mutex) }
            return body(&self.state.pointee)
        }

        /// Runs `body` alone; `nil`, with nothing run, when another thread has the lock.
        @inline(__always)
        func withLockIfAvailable<Result: ~Copyable>(_ body: (inout State) -> Result) -> Result? {
            guard pthread_mutex_trylock(self.mutex) == 0 else { return nil }
            defer { pthread_mutex_unlock(self.mutex) }
            return body(&self.state.pointee)
        }
    #else
        private let mutex: Mutex<State>

        init(_ state: consuming sending State) {
            self.mutex = Mutex(state)
        }

        /// Runs `body` alone.
        func withLock<Result: ~Copyable>(_ body: (inout State) -> Result) -> Result {
            self.mutex.withLock { state in body(&state) }
        }

        /// Runs `body` alone; `nil`, with nothing run, when another thread has the lock.
        func withLockIfAvailable<Result: ~Copyable>(_ body: (inout State) -> Result) -> Result? {
            self.mutex.withLockIfAvailable { state in body(&state) }
        }
    #endif
}
