import Synchronization
import Testing

@testable import WaybillReceiver

struct AdmissionBudgetTests {
    private final class Admitted: Sendable {
        private let names = Mutex<[String]>([])

        func add(_ name: String) {
            self.names.withLock { $0.append(name) }
        }

        var all: [String] {
            self.names.withLock { $0 }
        }
    }

    @Test func `who waits is admitted in order, and nobody passes`() {
        let budget = AdmissionBudget(byteCount: 100)
        let admitted = Admitted()
        #expect(budget.reserve(80) { admitted.add("first") } == true)
        #expect(budget.reserve(60) { admitted.add("second") } == false)
        #expect(budget.reserve(10) { admitted.add("third") } == false)
        #expect(budget.hasWaiters == true)
        budget.release(80)
        #expect(admitted.all == ["second", "third"])
        #expect(budget.hasWaiters == false)
    }

    @Test func `a frame larger than the whole passes alone`() {
        let budget = AdmissionBudget(byteCount: 100)
        let admitted = Admitted()
        #expect(budget.reserve(500) { admitted.add("large") } == true)
        #expect(budget.reserve(1) { admitted.add("small") } == false)
        budget.release(500)
        #expect(admitted.all == ["small"])
    }
}
