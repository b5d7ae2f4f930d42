internal import WaybillSystem

/// The one source of chance in a life.
final class Dice: RandomNumberGenerator {
    private var generator: SeededGenerator

    init(seed: UInt64) {
        self.generator = SeededGenerator(seed: seed)
    }

    func next() -> UInt64 { self.generator.next() }

    /// The next number, which stays the next: equal in two lives that have drawn as often.
    var following: UInt64 {
        var generator = self.generator
        return generator.next()
    }

    func bits() -> UInt64 { self.next() }

    func chance(_ perMille: Int) -> Bool { self.int(0..<1000) < perMille }

    func int(_ range: Range<Int>) -> Int { Int.random(in: range, using: &self.generator) }

    func int(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &self.generator) }

    func milliseconds(_ range: ClosedRange<Int>) -> Int64 { .milliseconds(self.int(range)) }

    func pick<Element>(_ elements: [Element]) -> Element { elements[self.int(0..<elements.count)] }
}
