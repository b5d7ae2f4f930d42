import Testing
import WaybillData
import WaybillProjection
import WaybillProtocol
import WaybillSystem

@testable import WaybillReceiver

struct AdmissionBudgetTests {
    private final class Admitted: Sendable {
        private let names = Lock<[String]>([])

        func add(_ name: String) {
            self.names.withLock { $0.append(name) }
        }

        var all: [String] {
            self.names.withLock { $0 }
        }
    }

    private static func account(_ device: String) -> Account { Account(principal: "", device: device) }

    private static func charge(_ room: AdmissionCharge.Room, _ amount: Int) -> AdmissionCharge {
        var charge = AdmissionCharge()
        charge[room] = amount
        return charge
    }

    @Test func `one agent is admitted in the order of its requests`() {
        let budget = AdmissionBudget(byteCount: 800)
        let admitted = Admitted()
        let account = Self.account("a")
        #expect(budget.reserve(80, in: .short, for: account) { admitted.add("first") } == true)
        #expect(budget.reserve(60, in: .short, for: account) { admitted.add("second") } == false)
        #expect(budget.reserve(10, in: .short, for: account) { admitted.add("third") } == false)
        #expect(budget.hasWaiters == true)
        budget.release(Self.charge(.short, 80))
        #expect(admitted.all == ["second", "third"])
        #expect(budget.hasWaiters == false)
        #expect(budget.freeByteCount == 800 - 70)
    }

    @Test func `a frame larger than the whole passes alone`() {
        let budget = AdmissionBudget(byteCount: 800)
        let admitted = Admitted()
        #expect(budget.reserve(5000, in: .raw, for: Self.account("a")) { admitted.add("large") } == true)
        #expect(budget.reserve(1, in: .raw, for: Self.account("b")) { admitted.add("small") } == false)
        budget.release(Self.charge(.raw, 5000))
        #expect(admitted.all == ["small"])
    }

    @Test func `long batches never keep a short one waiting`() {
        let budget = AdmissionBudget(byteCount: 16 << 20)
        var waiting = 0
        for number in 0..<100 {
            if !budget.reserve(2 << 20, in: .raw, for: Self.account("\(number)"), otherwise: {}) { waiting += 1 }
        }
        #expect(waiting == 96)
        #expect(budget.reserve(4096, in: .short, for: Self.account("honest")) {} == true)
    }

    @Test func `who comes new is before those who have had their turns`() {
        let budget = AdmissionBudget(byteCount: 800)
        let admitted = Admitted()
        #expect(budget.reserve(90, in: .short, for: Self.account("greedy")) {} == true)
        for number in 0..<20 {
            _ = budget.reserve(90, in: .short, for: Self.account("greedy")) { admitted.add("greedy \(number)") }
        }
        budget.release(Self.charge(.short, 90))
        #expect(budget.reserve(10, in: .short, for: Self.account("honest")) { admitted.add("honest") } == true)
        #expect(budget.reserve(50, in: .short, for: Self.account("other")) { admitted.add("other") } == false)
        budget.release(Self.charge(.short, 90))
        #expect(admitted.all == ["greedy 0", "other"])
    }

    @Test func `slow payloads hold what has arrived, and the oldest always continues`() {
        let budget = AdmissionBudget(byteCount: 16 << 20)
        let piece = AdmissionBudget.pieceByteCount
        var begun: [Int] = []
        while true {
            let number = budget.nextPayloadNumber()
            guard budget.reserveFirst(piece, ofPayload: number, for: Self.account("\(number)"), otherwise: {}) else {
                break
            }
            begun.append(number)
        }
        // Not six, as it would be if each had all that it announces.
        #expect(begun.count > 30)
        #expect(budget.reserveMore(piece, ofPayload: begun[1]) {} == false)
        for _ in 0..<32 { #expect(budget.reserveMore(piece, ofPayload: begun[0]) {} == true) }
        // It gives way: the next one is the oldest.
        budget.payloadEnded(begun[0])
        budget.release(Self.charge(.wire, 33 * piece))
        #expect(budget.reserveMore(piece, ofPayload: begun[1]) {} == true)
    }

    @Test func `everything that is taken comes back`() {
        let budget = AdmissionBudget(byteCount: 1 << 20)
        let header = BatchHeader(
            stream: StreamNumber(1), offset: StreamOffset(0), rawByteCount: 900_000, lineCount: 3000,
            wireByteCount: 90_000, checksum: 0)
        #expect(header.isShort == false)
        var charge = AdmissionCharge()
        for room in AdmissionCharge.Room.allCases {
            charge[room] = header.charge[room]
            if room == .wire {
                #expect(budget.reserveFirst(charge[room], ofPayload: 1, for: Self.account("a"), otherwise: {}) == true)
            } else if charge[room] > 0 {
                #expect(budget.reserve(charge[room], in: room, for: Self.account("a")) {} == true)
            }
        }
        #expect(budget.freeByteCount == (1 << 20) - charge.byteCount)
        #expect(charge == header.charge)
        budget.release(charge)
        #expect(budget.freeByteCount == 1 << 20)
    }
}

struct FairQueueTests {
    private static func account(_ principal: String, _ device: String, share: Int = 1) -> Account {
        Account(principal: principal, device: device, share: share)
    }

    /// Who is admitted, one by one, while each releases what it took before the next one is.
    private func order(_ queue: inout FairQueue<String>, _ count: Int) -> [String] {
        var order: [String] = []
        while order.count < count {
            queue.release(10)
            let admitted = queue.admitted()
            guard !admitted.isEmpty else { return order }
            order += admitted
        }
        return order
    }

    @Test func `devices of a principal take turns`() {
        var queue = FairQueue<String>(capacity: 10)
        #expect(queue.request(10, for: Self.account("", "x"), "x") == true)
        for number in 0..<3 { #expect(queue.request(10, for: Self.account("", "a"), "a\(number)") == false) }
        for number in 0..<3 { #expect(queue.request(10, for: Self.account("", "b"), "b\(number)") == false) }
        #expect(self.order(&queue, 6) == ["a0", "b0", "a1", "b1", "a2", "b2"])
    }

    @Test func `many devices of one principal take no more than one of another`() {
        var queue = FairQueue<String>(capacity: 10)
        #expect(queue.request(10, for: Self.account("x", "x"), "x") == true)
        for number in 0..<50 { #expect(queue.request(10, for: Self.account("phones", "\(number)"), "p") == false) }
        for _ in 0..<5 { #expect(queue.request(10, for: Self.account("servers", "s"), "s") == false) }
        #expect(self.order(&queue, 10).count { $0 == "s" } == 5)
    }

    @Test func `a share weighs a principal`() {
        var queue = FairQueue<String>(capacity: 10)
        #expect(queue.request(10, for: Self.account("x", "x"), "x") == true)
        for number in 0..<50 {
            #expect(queue.request(10, for: Self.account("phones", "\(number)", share: 4), "p") == false)
            #expect(queue.request(10, for: Self.account("servers", "s"), "s") == false)
        }
        #expect((38...42).contains(self.order(&queue, 50).count { $0 == "p" }))
    }

    @Test func `nothing is remembered when all is given back`() {
        var queue = FairQueue<String>(capacity: 10)
        for number in 0..<10_000 {
            #expect(queue.request(10, for: Self.account("", "\(number)"), "a") == true)
            queue.release(10)
            #expect(queue.admitted() == [])
        }
        #expect((queue.used, queue.waiterCount) == (0, 0))
    }
}

struct ArchiveBacklogTests {
    private static let long = 100_000_000
    private static let honest = Account(principal: "", device: "honest")
    private static let greedy = Account(principal: "", device: "greedy")

    private static func position(_ number: Int) -> JournalPosition { JournalPosition(number * 1000) }

    /// A pace that the archive follows, with so many long batches in front of it.
    private static func pace(filledBy count: Int) -> ArchiveBacklog<String> {
        var pace = ArchiveBacklog<String>(journalEnd: Self.position(0))
        pace.start(at: Self.position(0))
        for number in 0..<count {
            #expect(pace.request(Self.long, isShort: false, for: Self.greedy, "greedy") == true)
            pace.committed(Self.long, short: 0, of: Self.greedy, end: Self.position(number + 1))
        }
        return pace
    }

    @Test func `the work in front of the archive is bounded, and the newcomer is next`() {
        var pace = Self.pace(filledBy: 4)
        #expect(pace.request(Self.long, isShort: false, for: Self.greedy, "greedy") == false)
        #expect(pace.request(Self.long, isShort: false, for: Self.greedy, "greedy") == false)
        #expect(pace.request(1000, isShort: true, for: Self.honest, "short") == true)
        #expect(pace.request(Self.long, isShort: false, for: Self.honest, "honest") == false)
        pace.archived(upTo: Self.position(1), nanoseconds: Self.long)
        #expect(pace.admitted() == ["honest"])
    }

    @Test func `an archive that is slower than assumed has less in front of it`() {
        var pace = Self.pace(filledBy: 4)
        for number in 1...4 { pace.archived(upTo: Self.position(number), nanoseconds: 4 * Self.long) }
        #expect(pace.request(Self.long, isShort: false, for: Self.greedy, "greedy") == true)
        #expect(pace.request(Self.long, isShort: false, for: Self.greedy, "greedy") == false)
    }

    @Test func `nothing waits for an archive that cannot work or has not caught up`() {
        var pace = Self.pace(filledBy: 4)
        #expect(pace.request(Self.long, isShort: false, for: Self.greedy, "greedy") == false)
        pace.stop()
        #expect(pace.admitted() == ["greedy"])
        pace.committed(Self.long, short: 0, of: Self.greedy, end: Self.position(5))
        pace.start(at: Self.position(1))
        for _ in 0..<10 { #expect(pace.request(Self.long, isShort: false, for: Self.greedy, "greedy") == true) }
        pace.archived(upTo: Self.position(5), nanoseconds: Self.long)
        // Still more in front of it than may be.
        #expect(pace.request(Self.long, isShort: false, for: Self.greedy, "greedy") == true)
    }

    @Test func `it remembers who brought the next batch`() {
        var pace = Self.pace(filledBy: 2)
        #expect(pace.account(ofBatchEndingAt: Self.position(1)) == Self.greedy)
        #expect(pace.account(ofBatchEndingAt: Self.position(2)) == nil)
        pace.archived(upTo: Self.position(1), nanoseconds: 1)
        #expect(pace.account(ofBatchEndingAt: Self.position(2)) == Self.greedy)
    }
}
