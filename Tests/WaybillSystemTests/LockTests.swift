import Testing
import WaybillSystem

/// Runs `body` on as many threads at the same time.
private func together(_ threadCount: Int, _ body: @escaping @Sendable () -> Void) {
    let workers = (0..<threadCount).map { Worker(name: "together-\($0)", body) }
    for worker in workers { worker.join() }
}

@Suite struct LockTests {
    /// Goes when its lock goes.
    private final class Owned: Sendable {}

    private struct Unlucky: Error, Hashable {}

    @Test func `threads change a value one after the other`() {
        let lock = Lock((first: 0, second: 0))
        together(4) {
            for _ in 0..<10_000 {
                lock.withLock { value in
                    value.first += 1
                    value.second = value.first
                }
            }
        }
        #expect(lock.withLock { $0 } == (40_000, 40_000))
    }

    @Test func `a lock that another thread holds is not waited for`() {
        let lock = Lock(1)
        #expect(lock.withLockIfAvailable { $0 } == 1)
        let found = lock.withLock { _ in
            let found = Lock<Int?>(0)
            together(1) { found.withLock { $0 = lock.withLockIfAvailable { $0 } } }
            return found.withLock { $0 }
        }
        #expect(found == nil)
        #expect(lock.withLockIfAvailable { $0 } == 1)
    }

    @Test func `an error leaves the lock free, and what was changed changed`() {
        let lock = Lock(0)
        #expect(throws: Unlucky()) {
            try lock.withLock { value throws(Unlucky) in
                value = 1
                throw Unlucky()
            }
        }
        #expect(lock.withLockIfAvailable { $0 } == 1)
    }

    @Test func `the value goes with its lock`() {
        weak var owned: Owned?
        do {
            let value = Owned()
            owned = value
            let lock = Lock<Owned?>(value)
            #expect(lock.withLock { $0 === value })
        }
        #expect(owned == nil)
    }
}

@Suite struct AtomicTests {
    @Test(arguments: [Int.min, -1, 0, 1, Int.max])
    func `a number is what was stored`(value: Int) {
        let atomic = Atomic(0)
        atomic.store(value, ordering: .releasing)
        let found = atomic.load(ordering: .acquiring)
        #expect(found == value)
    }

    @Test func `smaller types keep their values`() {
        let small = Atomic(UInt32.max).load(ordering: .relaxed)
        let signed = Atomic(Int32.min).load(ordering: .relaxed)
        let large = Atomic(UInt64.max).load(ordering: .relaxed)
        #expect(small == .max && signed == .min && large == .max)
        let flag = Atomic(false)
        flag.store(true, ordering: .sequentiallyConsistent)
        let isSet = flag.load(ordering: .sequentiallyConsistent)
        #expect(isSet)
        let sum = Atomic(UInt64.max).add(2, ordering: .relaxed)
        #expect(sum == 1)
    }

    @Test func `threads add without losing any`() {
        let sum = SharedSum()
        together(4) { for _ in 0..<10_000 { sum.value.add(3, ordering: .relaxed) } }
        let total = sum.value.load(ordering: .relaxed)
        #expect(total == 120_000)
    }

    /// Each thread claims a bit, sees that no other has it, and gives it back, as the pool of drafts does.
    @Test func `a bit is claimed by one thread at a time`() {
        let bits = SharedBits()
        together(4) {
            for _ in 0..<5_000 {
                var free = bits.free.load(ordering: .relaxed)
                while free != 0 {
                    if let now = bits.free.replace(free, with: free & (free &- 1)) {
                        free = now
                        continue
                    }
                    let index = free.trailingZeroBitCount
                    if bits.owners[index].add(1, ordering: .relaxed) != 1 { bits.clashes.add(1, ordering: .relaxed) }
                    bits.owners[index].add(-1, ordering: .relaxed)
                    bits.free.set(1 << UInt32(index), ordering: .releasing)
                    break
                }
            }
        }
        let clashCount = bits.clashes.load(ordering: .relaxed)
        let free = bits.free.load(ordering: .relaxed)
        #expect(clashCount == 0)
        #expect(free == 0b11)
    }

    private final class SharedSum: Sendable {
        let value = Atomic(0)
    }

    private final class Owner: Sendable {
        private let count = Atomic(0)

        @discardableResult
        func add(_ value: Int, ordering: AtomicOrdering.Store) -> Int { self.count.add(value, ordering: ordering) }
    }

    private final class SharedBits: Sendable {
        let free = Atomic<UInt32>(0b11)
        let owners = [Owner(), Owner()]
        let clashes = Atomic(0)
    }
}
