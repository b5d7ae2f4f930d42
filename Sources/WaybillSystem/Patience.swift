internal import CWaybillSystem

#if canImport(Glibc)
    internal import Glibc
#endif

/// How a thread waits for what another one does in a few microseconds: it pauses, then lets others run, then sleeps.
///
/// To sleep and be woken costs both threads more than the wait, up to 100 µs on virtual machines. Elsewhere than on Linux
/// there is no patience: locks there lend the waiting thread's priority to the one that has them, once it sleeps.
package struct Patience: ~Copyable {
    private var pauseCount = 1
    private var pausedCount = 0
    private var yieldedCount = 0

    package init() {}

    /// Passes a little time; `false` when the thread had better sleep.
    package mutating func wait() -> Bool {
        #if canImport(Glibc)
            if self.pausedCount < Self.pausedCountMax {
                for _ in 0..<self.pauseCount { waybill_pause() }
                self.pausedCount += self.pauseCount
                self.pauseCount *= 2
                return true
            }
            // The one that is waited for may have no core.
            guard self.yieldedCount < Self.yieldedCountMax else { return false }
            self.yieldedCount += 1
            sched_yield()
            return true
        #else
            return false
        #endif
    }

    /// Lets the processor's other threads go first for some nanoseconds.
    package static func pause() {
        waybill_pause()
    }

    private static var pausedCountMax: Int { 31 }
    private static var yieldedCountMax: Int { 50 }
}
