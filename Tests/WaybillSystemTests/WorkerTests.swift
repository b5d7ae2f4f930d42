import Testing
import WaybillSystem

@Suite struct WorkerTests {
    @Test func `a worker's body has run when joining returns`() {
        let count = Monitor(0)
        let workers = (0..<8).map { number in
            Worker(name: "test-\(number)") {
                for _ in 0..<1000 { count.update { $0 += 1 } }
            }
        }
        for worker in workers { worker.join() }
        #expect(count.update { $0 } == 8000)
        // Joining again does not wait.
        workers[0].join()
    }

    @Test func `an update wakes whoever waits for it`() {
        let turn = Monitor((next: 0, order: [Int]()))
        let workers = (0..<6).reversed().map { number in
            Worker(name: "turn-\(number)") {
                _ = turn.wait { state in state.next == number ? true : nil }
                turn.update { state in
                    state.order.append(number)
                    state.next += 1
                }
            }
        }
        #expect(turn.wait { $0.next == 6 ? $0.order : nil } == [0, 1, 2, 3, 4, 5])
        for worker in workers { worker.join() }
    }

    @Test func `a wait whose deadline has passed gives up, unless there is a value`() {
        let monitor = Monitor(7)
        let past = MonotonicTime(nanoseconds: 0)
        #expect(monitor.wait(until: past) { $0 == 8 ? $0 : nil } == nil)
        #expect(monitor.wait(until: past) { $0 == 7 ? $0 : nil } == 7)
    }

    @Test func `a wait with a deadline is woken before it`() {
        let monitor = Monitor(false)
        let worker = Worker(name: "waker") { monitor.update { $0 = true } }
        let far = POSIXClock().monotonicTime() + .seconds(3600)
        #expect(monitor.wait(until: far) { $0 ? "woken" : nil } == "woken")
        worker.join()
    }
}

@Suite struct ChecksumTests {
    @Test func `checksums have their published check values`() {
        // CRC-32/ISO-HDLC of "123456789"; FNV-1a 64 of "" and "foobar" (draft-eastlake-fnv).
        #expect(CRC32.checksum(of: "123456789".utf8) == 0xCBF4_3926)
        #expect(FNV1a.hash("".utf8) == 0xCBF2_9CE4_8422_2325)
        #expect(FNV1a.hash("foobar".utf8) == 0x8594_4171_F739_67E8)
        #expect(Hexadecimal.text(UInt32(0xAB), digitCount: 8) == "000000ab")
    }
}

@Suite struct ThreadTests {
    @Test func `a thread knows its own name and no other`() {
        let names = Monitor<[Bool]>([])
        let worker = Worker(name: "fifteen-letters") {
            let found = ["fifteen-letters", "fifteen", "test"].map { Worker.isCurrent(named: $0) }
            names.update { $0 = found }
        }
        worker.join()
        #expect(names.withLock { $0 } == [true, false, false])
        #expect(!Worker.isCurrent(named: "fifteen-letters"))
    }

    @Test func `a mark is set once on each thread, and again when the first is gone`() {
        let other = Monitor<Int?>(nil)
        let result = ThreadMark.once {
            Worker(name: "other") { other.update { $0 = ThreadMark.once { 2 } } }.join()
            return ThreadMark.once { 1 }
        }
        #expect(result == .some(nil))
        #expect(other.withLock { $0 } == 2)
        #expect(ThreadMark.once { 3 } == 3)
    }
}
