/// Times many calls on threads of their own, and says what they cost the process.
///
///     thread 0  │ call 0 │ call 1 │ …            each call's time is from the reading of the clock before it
///     thread 1  │ call n │ call n + 1 │ …        to the one after it, which is the next call's first
///
/// One reading of the clock is in each figure. The times are kept in memory that is touched before the first call,
/// so that the calls alone change what is resident.
#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// What so many calls took.
public struct Timing: Sendable {
    /// Calls on all threads together.
    public var callCount: Int
    /// Threads that called at the same time.
    public var threadCount: Int
    /// Nanoseconds of a call.
    public var mean: UInt64
    /// Nanoseconds that half of the calls did not exceed.
    public var p50: UInt64
    /// Nanoseconds that 99 of 100 calls did not exceed.
    public var p99: UInt64
    /// Nanoseconds of the slowest call.
    public var max: UInt64
    /// Nanoseconds from the first thread's start to the last one's end.
    public var elapsed: UInt64
    /// Nanoseconds of processor time, user and system, of the whole process meanwhile.
    public var processor: UInt64
    /// Times that a thread gave up its core to wait, for a lock or a disk.
    public var waits: Int

    /// Members of a JSON object, in order, without its braces.
    public var members: String {
        let calls = UInt64(self.callCount)
        return "\"events\":\(calls),\"threads\":\(self.threadCount),\"mean_ns\":\(self.mean),\"p50_ns\":\(self.p50),"
            + "\"p99_ns\":\(self.p99),\"max_ns\":\(self.max),\"cpu_ns_per_event\":\(self.processor / calls),"
            + "\"waits_per_1000\":\(1000 * self.waits / self.callCount),"
            + "\"events_per_s\":\(calls * 1_000_000_000 / Swift.max(1, self.elapsed))"
    }
}

/// A place for the times of so many calls.
///
/// `@unchecked Sendable`: each thread writes to a range of its own, and reading waits for all of them.
public final class Stopwatch: @unchecked Sendable {
    private let threadCount: Int
    /// Calls of one thread.
    private let share: Int
    private let times: UnsafeMutableBufferPointer<UInt32>

    /// Has room for `callCount` calls, shared evenly among the threads; what is left over is not called.
    public init(callCount: Int, threadCount: Int) {
        precondition(threadCount > 0 && callCount >= threadCount, "\(callCount) calls on \(threadCount) threads")
        self.threadCount = threadCount
        self.share = callCount / threadCount
        self.times = .allocate(capacity: self.share * threadCount)
        self.times.initialize(repeating: 0)
    }

    deinit {
        self.times.deallocate()
    }

    /// How many calls ``time(_:)`` makes.
    public var callCount: Int {
        self.times.count
    }

    /// Calls `body` once with each number below ``callCount``, every thread with the numbers of its own range.
    public func time(_ body: @escaping @Sendable (Int) -> Void) -> Timing {
        let processor = Self.now(CLOCK_PROCESS_CPUTIME_ID)
        let waits = Self.waits()
        let started = Self.now(CLOCK_MONOTONIC)
        Self.onThreads(self.threadCount) { thread in
            var last = Self.now(CLOCK_MONOTONIC)
            for index in thread * self.share..<(thread + 1) * self.share {
                body(index)
                let time = Self.now(CLOCK_MONOTONIC)
                self.times[index] = UInt32(clamping: time - last)
                last = time
            }
        }
        let elapsed = Self.now(CLOCK_MONOTONIC) - started
        return self.timing(
            elapsed: elapsed, processor: Self.now(CLOCK_PROCESS_CPUTIME_ID) - processor, waits: Self.waits() - waits)
    }

    private func timing(elapsed: UInt64, processor: UInt64, waits: Int) -> Timing {
        var times = self.times
        times.sort()
        let count = times.count
        return Timing(
            callCount: count, threadCount: self.threadCount,
            mean: times.reduce(0) { $0 + UInt64($1) } / UInt64(count), p50: UInt64(times[count / 2]),
            p99: UInt64(times[min(count - 1, count * 99 / 100)]), max: UInt64(times[count - 1]), elapsed: elapsed,
            processor: processor, waits: waits)
    }

    /// Runs `body` once on each of so many threads at the same time; returns when all have ended.
    ///
    /// Not `DispatchQueue.concurrentPerform`: it has no more threads than the machine has cores.
    public static func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
        let threads = (0..<count).map { index in
            let work = Unmanaged.passRetained(Work { body(index) })
            #if canImport(Darwin)
                var thread: pthread_t?
            #else
                var thread = pthread_t()
            #endif
            let code = pthread_create(&thread, nil, Work.run, work.toOpaque())
            precondition(code == 0, "no thread: error \(code)")
            return thread
        }
        for thread in threads {
            #if canImport(Darwin)
                if let thread { pthread_join(thread, nil) }
            #else
                pthread_join(thread, nil)
            #endif
        }
    }

    /// Voluntary context switches of the process so far.
    private static func waits() -> Int {
        var usage = rusage()
        #if canImport(Glibc)
            getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        #else
            getrusage(RUSAGE_SELF, &usage)
        #endif
        return usage.ru_nvcsw
    }

    private static func now(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}

/// What one thread does.
private final class Work {
    private let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) {
        self.body = body
    }

    #if canImport(Darwin)
        static let run: @convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? = { pointer in
            Unmanaged<Work>.fromOpaque(pointer).takeRetainedValue().body()
            return nil
        }
    #else
        static let run: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { pointer in
            if let pointer { Unmanaged<Work>.fromOpaque(pointer).takeRetainedValue().body() }
            return nil
        }
    #endif
}
