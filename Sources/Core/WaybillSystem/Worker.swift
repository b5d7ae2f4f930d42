internal import CWaybillSystem

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A mutex with one condition, for the few places where one of our threads waits for another.
///
/// `@unchecked Sendable`: `state` is accessed only between `pthread_mutex_lock` and `pthread_mutex_unlock`.
package final class Monitor<State>: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var state: State

    package init(_ state: sending State) {
        self.state = state
        self.mutex.initialize(to: pthread_mutex_t())
        self.condition.initialize(to: pthread_cond_t())
        pthread_mutex_init(self.mutex, nil)
        #if canImport(Glibc)
            var attributes = pthread_condattr_t()
            pthread_condattr_init(&attributes)
            pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
            pthread_cond_init(self.condition, &attributes)
            pthread_condattr_destroy(&attributes)
        #else
            pthread_cond_init(self.condition, nil)
        #endif
    }

    deinit {
        pthread_cond_destroy(self.condition)
        pthread_mutex_destroy(self.mutex)
        self.condition.deallocate()
        self.mutex.deallocate()
    }

    /// Runs `body` under the lock, then wakes all waiting threads.
    package func update<Result>(_ body: (inout State) -> Result) -> Result {
        // After unlocking, or the woken threads would wait for the lock.
        defer { pthread_cond_broadcast(self.condition) }
        return self.withLock(body)
    }

    /// Runs `body` under the lock and wakes no thread: for changes that no thread waits for.
    package func withLock<Result>(_ body: (inout State) -> Result) -> Result {
        pthread_mutex_lock(self.mutex)
        defer { pthread_mutex_unlock(self.mutex) }
        return body(&self.state)
    }

    /// Runs `body` under the lock until it returns a value; in between it sleeps until the next update.
    ///
    /// - Parameter deadline: when to give up and return `nil`; never when `nil`.
    package func wait<Result>(until deadline: MonotonicTime? = nil, _ body: (inout State) -> Result?) -> Result? {
        pthread_mutex_lock(self.mutex)
        defer { pthread_mutex_unlock(self.mutex) }
        while true {
            if let result = body(&self.state) { return result }
            guard let deadline else {
                pthread_cond_wait(self.condition, self.mutex)
                continue
            }
            let rest = deadline - POSIXClock().monotonicTime()
            guard rest > .zero else { return nil }
            self.sleep(rest, deadline: deadline)
        }
    }

    private func sleep(_ rest: Duration, deadline: MonotonicTime) {
        #if canImport(Glibc)
            var time = timespec(
                tv_sec: Int(deadline.nanoseconds / 1_000_000_000), tv_nsec: Int(deadline.nanoseconds % 1_000_000_000))
            pthread_cond_timedwait(self.condition, self.mutex, &time)
        #else
            var time = timespec(
                tv_sec: Int(rest.nanoseconds / 1_000_000_000), tv_nsec: Int(rest.nanoseconds % 1_000_000_000))
            pthread_cond_timedwait_relative_np(self.condition, self.mutex, &time)
        #endif
    }
}

/// A named thread that runs one closure.
package final class Worker: Sendable {
    private final class Start {
        let name: String
        let body: @Sendable () -> Void

        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    private let isDone = Monitor(false)

    /// Lowers the calling thread's priority, so that others run first when there are too few cores.
    package static func giveWay() {
        #if canImport(Glibc)
            // Linux applies it to the calling thread only. It cannot fail: any process may lower its priority.
            setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 5)
        #else
            pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0)
        #endif
    }

    /// Makes the calling thread sleep, despite any signals.
    package static func sleep(for duration: Duration) {
        let end = POSIXClock().monotonicTime() + duration
        while true {
            let rest = (end - POSIXClock().monotonicTime()).nanoseconds
            guard rest > 0 else { return }
            var time = timespec(tv_sec: Int(rest / 1_000_000_000), tv_nsec: Int(rest % 1_000_000_000))
            nanosleep(&time, nil)
        }
    }

    /// Starts the thread; ends the program when the system refuses.
    ///
    /// - Parameter name: at most 15 bytes; `top -H` and `perf` show it.
    package convenience init(name: String, _ body: @escaping @Sendable () -> Void) {
        self.init()
        let status = self.start(name, body)
        precondition(status == 0, "no thread could be started: \(Errno.message(status))")
    }

    /// Starts a thread; `nil` when the system refuses.
    package static func attempt(name: String, _ body: @escaping @Sendable () -> Void) -> Worker? {
        let worker = Worker()
        return worker.start(name, body) == 0 ? worker : nil
    }

    private init() {}

    /// Returns the system's error number, 0 for none.
    private func start(_ name: String, _ body: @escaping @Sendable () -> Void) -> Int32 {
        let isDone = self.isDone
        let start = Unmanaged.passRetained(
            Start(name: name) {
                body()
                isDone.update { $0 = true }
            })
        #if canImport(Glibc)
            var thread = pthread_t()
        #else
            var thread: pthread_t?
        #endif
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        let status = pthread_create(
            &thread, &attributes,
            { argument in
                #if canImport(Glibc)
                    guard let argument else { return nil }
                #endif
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                waybill_name_thread(start.name)
                start.body()
                return nil
            }, start.toOpaque())
        pthread_attr_destroy(&attributes)
        if status != 0 { start.release() }
        return status
    }

    /// Returns once the body has returned.
    package func join() {
        _ = self.isDone.wait { $0 ? true : nil }
    }

    /// Whether the calling thread is a worker with this name.
    package static func isCurrent(named name: String) -> Bool {
        waybill_is_thread_named(name) != 0
    }
}

/// Marks the calling thread, to detect reentrant calls.
package enum ThreadMark {
    /// Runs `body` with the thread marked; returns `nil` without running it when the thread is already marked.
    package static func once<Result>(_ body: () -> Result) -> Result? {
        guard waybill_mark_thread(1) == 0 else { return nil }
        defer { _ = waybill_mark_thread(0) }
        return body()
    }
}
