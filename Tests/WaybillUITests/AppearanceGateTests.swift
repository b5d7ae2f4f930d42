import Testing
import WaybillUI
import WaybillSystem

private let start = ContinuousClock.Instant.now

/// Asks, and says that the event was stored.
private func pass(
    _ gate: inout AppearanceGate, _ key: String, _ policy: AppearancePolicy, at seconds: Int
) -> Bool {
    let now = start + .seconds(seconds)
    guard gate.admits(key, policy, at: now) else { return false }
    gate.passed(key, policy, at: now)
    return true
}

@Test
func `always lets each appearance pass, once the first alone`() {
    var gate = AppearanceGate()
    #expect((0..<4).map { pass(&gate, "a", .always, at: $0) } == [true, true, true, true])
    #expect((0..<4).map { pass(&gate, "b", .once, at: $0) } == [true, false, false, false])
    #expect(pass(&gate, "c", .once, at: 5))
}

@Test
func `an interval counts from the last event that passed`() {
    var gate = AppearanceGate()
    let seconds = [0, 9, 10, 19, 20, 45]
    #expect(seconds.map { pass(&gate, "a", .every(.seconds(10)), at: $0) } == [true, false, true, false, true, true])
}

@Test
func `an event that was not stored may try again`() {
    var gate = AppearanceGate()
    #expect(gate.admits("a", .once, at: start))
    #expect(gate.admits("a", .once, at: start))
    gate.passed("a", .once, at: start)
    #expect(!gate.admits("a", .once, at: start))
}

@Test
func `a full gate forgets the key that passed longest ago`() {
    var gate = AppearanceGate()
    for index in 0..<AppearanceGate.keyCountMax { #expect(pass(&gate, "\(index)", .once, at: 0)) }
    #expect(pass(&gate, "1", .every(.zero), at: 0))  // Now "0" and then "2" are the oldest.
    #expect(pass(&gate, "new", .once, at: 0))
    #expect(pass(&gate, "newer", .once, at: 0))
    #expect(!pass(&gate, "1", .once, at: 0))
    #expect(!pass(&gate, "3", .once, at: 0))
    #expect(pass(&gate, "0", .once, at: 0))
}

@Test(arguments: 0..<UInt64(100))
func `below its limit a gate does what an endless list would`(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var gate = AppearanceGate()
    var passes: [(key: String, seconds: Int)] = []
    var seconds = 0
    for _ in 0..<300 {
        seconds += Int.random(in: 0...3, using: &generator)
        let key = "\(Int.random(in: 0..<10, using: &generator))"
        let interval = Int.random(in: 0...20, using: &generator)
        let isOnce = Bool.random(using: &generator)
        let last = passes.last { $0.key == key }
        let expected = last.map { !isOnce && seconds - $0.seconds >= interval } ?? true
        #expect(pass(&gate, key, isOnce ? .once : .every(.seconds(interval)), at: seconds) == expected)
        if expected { passes.append((key, seconds)) }
    }
}
