internal import WaybillSystem

/// The one source of chance in a life.
final class Dice {
    private var generator: SeededGenerator

    init(seed: UInt64) {
        self.generator = SeededGenerator(seed: seed)
    }

    func bits() -> UInt64 { self.generator.next() }

    func chance(_ perMille: Int) -> Bool { self.int(0..<1000) < perMille }

    func int(_ range: Range<Int>) -> Int { Int.random(in: range, using: &self.generator) }

    func int(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self.generator) }

    func pick<Element>(_ elements: [Element]) -> Element { elements[self.int(0..<elements.count)] }
}

/// The clocks of one simulated machine, which every reading moves on.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class SimulatedClock: SystemClock, @unchecked Sendable {
    private var elapsed: Int64 = 0

    /// 2026-11-20T22:00:00Z.
    private static let start: Int64 = 1_795_212_000_000

    func monotonicTime() -> MonotonicTime {
        self.elapsed += 1_000_000
        return MonotonicTime(nanoseconds: 1_000_000_000 + self.elapsed)
    }

    func wallTime() -> WallTime {
        self.elapsed += 1_000_000
        return WallTime(milliseconds: Self.start + self.elapsed / 1_000_000)
    }

    /// What the file system stamps files with.
    var fileTime: Int64 { self.wallTime().milliseconds * 1_000_000 }
}
