import Testing
import WaybillExport
import WaybillSystem

@testable import WaybillDelivery

private let start = MonotonicTime(nanoseconds: 0)
private let later = MonotonicTime(nanoseconds: 3_600_000_000_000)
private let today = WallTime(milliseconds: 1_795_165_200_000)

private func delivery(
    _ provider: DeliverableProvider, records: Int, standing: DeliveryStanding? = nil,
    policy: AmbiguityPolicy = .skip, now: WallTime = today
) -> PartDelivery {
    PartDelivery(
        standing ?? DeliveryStanding(sha256: "ab", deadByteCount: 0), recordCount: records,
        rules: DeliveryRules(provider), policy: policy,
        backoff: Backoff(from: .seconds(2), to: .seconds(60), SeededGenerator(seed: 1)), now: now)
}

/// All records of GA4; of profiles those that add numbers, every third here.
private func isCounted(_ number: Int, _ provider: DeliverableProvider) -> Bool {
    provider == .ga4 || provider == .mixpanelProfiles && number % 3 == 0
}

extension PartDelivery {
    /// The requests that go out now; the cursor moves by `size` records for each.
    fileprivate mutating func requests(
        of size: Int, in recordCount: Int = .max, at now: MonotonicTime = start,
        counted: (Int) -> Bool = { _ in false }
    ) -> [Attempt] {
        while true {
            switch self.next(at: now) {
            case .cut(let first): self.take(min(size, recordCount - first))
            case .send(let attempts):
                self.announce(attempts, counted: RecordSet(attempts.flatMap(\.records.numbers).filter(counted)))
                return attempts
            case .wait, .held, .finished, .stop: return []
            }
        }
    }

    fileprivate mutating func answer(
        _ attempt: Attempt, _ verdict: Verdict, at now: MonotonicTime = start
    ) -> (accepted: RecordSet, givenUp: [GivenUpRecord]) {
        self.answered(attempt, verdict, at: now, wallTime: today)
    }
}

@Suite struct PartDeliveryTests {
    @Test func `a part without trouble goes out in order`() {
        var part = delivery(.segment, records: 5)
        #expect(part.next(at: start) == .cut(from: 0))
        let first = part.requests(of: 3)
        #expect(first.map(\.records) == [RecordSet(0..<3)])
        #expect(part.answer(first[0], .accepted(unconfirmedCount: 0)).accepted == RecordSet(0..<3))
        let second = part.requests(of: 2)
        #expect(second.map(\.records) == [RecordSet(3..<5)])
        _ = part.answer(second[0], .accepted(unconfirmedCount: 0))
        #expect(part.next(at: start) == .finished)
    }

    @Test func `GA4 has four requests in flight, each of one record`() {
        var part = delivery(.ga4, records: 6)
        let requests = part.requests(of: 1, counted: { _ in true })
        #expect(requests.map(\.records) == (0..<4).map { RecordSet($0..<$0 + 1) })
        #expect(part.standing.announced == RecordSet(0..<4))
        #expect(part.standing.next == 4)
    }

    @Test func `a refusal without an index is found by halving`() {
        for culprit in 0..<7 {
            var part = delivery(.segment, records: 7)
            var accepted = RecordSet()
            var givenUp: [Int] = []
            while case let requests = part.requests(of: 7), let request = requests.first {
                let isBad = request.records.numbers.contains(culprit)
                let result = part.answer(
                    request, isBad ? .refusedWhole(detail: "no") : .accepted(unconfirmedCount: 0))
                accepted = accepted.union(result.accepted)
                givenUp += result.givenUp.map(\.number)
            }
            #expect(givenUp == [culprit])
            #expect(accepted == RecordSet(0..<7).subtracting(RecordSet([culprit])))
            #expect(part.next(at: start) == .finished)
        }
    }

    @Test func `halving keeps the order`() {
        var part = delivery(.segment, records: 9)
        var order: [Int] = []
        while case let requests = part.requests(of: 8, in: 9), let request = requests.first {
            let isTooLarge = request.records.count > 2
            order +=
                part.answer(
                    request, isTooLarge ? .tooLarge(detail: "413") : .accepted(unconfirmedCount: 0)
                ).accepted.numbers
        }
        #expect(order == Array(0..<9))
    }

    @Test func `one record that is too large is given up`() {
        var part = delivery(.ga4, records: 1)
        let request = part.requests(of: 1)[0]
        #expect(
            part.answer(request, .tooLarge(detail: "413")).givenUp
                == [GivenUpRecord(number: 0, reason: .rejected, detail: "413")])
        #expect(part.next(at: start) == .finished)
    }

    @Test func `refused records are given up, the others go again where nothing was taken`() {
        var part = delivery(.amplitude, records: 4)
        let refusals = [RecordRefusal(position: 1, detail: "x", field: "time")]
        let result = part.answer(part.requests(of: 4)[0], .refusedSome(refusals))
        #expect(result.givenUp == [GivenUpRecord(number: 1, reason: .rejected, detail: "x", field: "time")])
        #expect(result.accepted.isEmpty)
        let again = part.requests(of: 1)
        #expect(again.map(\.records) == [RecordSet([0, 2, 3])])
        // Positions are those of the request, not of the part.
        let last = part.answer(again[0], .partly([RecordRefusal(position: 2, detail: "y")]))
        #expect(last.givenUp.map(\.number) == [3])
        #expect(last.accepted == RecordSet([0, 2]))
        #expect(part.next(at: start) == .finished)
    }

    @Test func `a failing provider makes everything wait, up to twice as long each time`() {
        var part = delivery(.posthog, records: 2)
        var bound = Duration.seconds(2)
        var now = start
        for _ in 0..<8 {
            _ = part.answer(part.requests(of: 2, at: now)[0], .later(after: nil, detail: "503"), at: now)
            guard case .wait(let until) = part.next(at: now) else {
                // Nothing to wait for: chance may say 0.
                continue
            }
            #expect(until - now <= bound)
            #expect(part.standing.waiting == RecordSet(0..<2))
            bound = min(bound * 2, .seconds(60))
            now = until
        }
        #expect(part.requests(of: 2, at: now).map(\.records) == [RecordSet(0..<2)])
    }

    @Test func `what the provider asks for is waited at least`() {
        var part = delivery(.posthog, records: 1)
        _ = part.answer(part.requests(of: 1)[0], .later(after: .seconds(100), detail: "429"))
        #expect(part.next(at: start) == .wait(until: start + .seconds(100)))
    }

    @Test func `of throttled events the others go at once`() {
        var part = delivery(.amplitude, records: 5)
        _ = part.answer(
            part.requests(of: 5)[0], .throttled(positions: [1], exhausted: [3], pause: .seconds(15)))
        #expect(part.standing.held == RecordSet([3]))
        let others = part.requests(of: 1)
        #expect(others.map(\.records) == [RecordSet([0, 2, 4])])
        _ = part.answer(others[0], .accepted(unconfirmedCount: 0))
        #expect(part.next(at: start) == .wait(until: start + .seconds(15)))
        let throttled = part.requests(of: 1, at: start + .seconds(15))
        #expect(throttled.map(\.records) == [RecordSet([1])])
        _ = part.answer(throttled[0], .accepted(unconfirmedCount: 0))
        // The next midnight in UTC.
        let midnight = WallTime(milliseconds: (today.milliseconds / 86_400_000 + 1) * 86_400_000)
        #expect(part.next(at: start) == .held(until: midnight))
        var tomorrow = delivery(.amplitude, records: 5, standing: part.standing, now: midnight)
        #expect(tomorrow.requests(of: 1).map(\.records) == [RecordSet([3])])
    }

    @Test func `an unknown end is sent again only where that counts once, or on demand`() {
        for (provider, policy, isGivenUp) in [
            (DeliverableProvider.ga4, AmbiguityPolicy.skip, true), (.ga4, .resend, false), (.mixpanel, .skip, false),
        ] {
            var part = delivery(provider, records: 1, policy: policy)
            let request = part.requests(of: 1, counted: { _ in provider == .ga4 })[0]
            let result = part.answer(request, .ambiguous(detail: "?", after: nil))
            let expected = GivenUpRecord(number: 0, reason: .ambiguous, detail: "?")
            #expect(result.givenUp == (isGivenUp ? [expected] : []))
            #expect(part.requests(of: 1, at: later).count == (isGivenUp ? 0 : 1))
        }
    }

    @Test(arguments: [AmbiguityPolicy.skip, .resend])
    func `of a request with an unknown end what adds numbers is given up, and the rest is sent again`(
        policy: AmbiguityPolicy
    ) {
        let isSkipped = policy == .skip
        var part = delivery(.mixpanelProfiles, records: 4, policy: policy)
        let request = part.requests(of: 4, counted: { $0 == 0 || $0 == 2 })[0]
        #expect(part.standing.announced == RecordSet([0, 2]))
        #expect(part.standing.waiting == RecordSet([1, 3]))
        let result = part.answer(request, .ambiguous(detail: "?", after: nil))
        #expect(result.givenUp.map(\.number) == (isSkipped ? [0, 2] : []))
        #expect(result.givenUp.allSatisfy { $0.reason == .ambiguous && $0.detail == "?" })
        #expect(part.standing.announced.isEmpty)
        let again = part.requests(of: 4, at: later)
        #expect(again.map(\.records) == [isSkipped ? RecordSet([1, 3]) : RecordSet(0..<4)])
    }

    @Test func `after a death what adds numbers is given up, and the rest of the request is sent again`() {
        var before = delivery(.mixpanelProfiles, records: 3)
        _ = before.requests(of: 3, counted: { $0 == 1 })
        var part = delivery(.mixpanelProfiles, records: 3, standing: before.standing)
        #expect(part.giveUpAnnounced().map(\.number) == [1])
        #expect(part.requests(of: 3).map(\.records) == [RecordSet([0, 2])])
    }

    @Test func `a refusal of other records leaves unknown whether a number was added`() {
        var part = delivery(.mixpanelProfiles, records: 3)
        let request = part.requests(of: 3, counted: { $0 == 2 })[0]
        let result = part.answer(request, .refusedSome([RecordRefusal(position: 0, detail: "x")]))
        #expect(result.givenUp.map(\.number) == [0, 2])
        #expect(result.givenUp.map(\.reason) == [.rejected, .ambiguous])
        #expect(part.requests(of: 3).map(\.records) == [RecordSet([1])])
    }

    @Test func `an answer that proves that nothing was taken sends numbers again`() {
        for verdict in [
            Verdict.later(after: nil, detail: "503"), .tooLarge(detail: "413"), .refusedWhole(detail: "no"),
        ] {
            var part = delivery(.mixpanelProfiles, records: 2)
            let request = part.requests(of: 2, counted: { _ in true })[0]
            #expect(part.answer(request, verdict).givenUp.isEmpty)
            #expect(Set(part.standing.waiting.numbers) == [0, 1])
            #expect(part.standing.announced.isEmpty)
        }
    }

    @Test func `a stop keeps what was not taken`() {
        var part = delivery(.segment, records: 3)
        _ = part.answer(part.requests(of: 3)[0], .stop(.credentials(detail: "401")))
        #expect(part.next(at: later) == .stop(.credentials(detail: "401")))
        #expect(part.standing.waiting == RecordSet(0..<3))
    }

    @Test func `fifty refusals in a row without a reason stop the provider`() {
        var part = delivery(.segment, records: 200)
        var givenUp = 0
        while case let requests = part.requests(of: 1), let request = requests.first {
            givenUp += part.answer(request, .refusedWhole(detail: "no")).givenUp.count
        }
        #expect(givenUp == 50)
        #expect(part.next(at: start) == .stop(.everythingRefused(detail: "no")))
    }

    @Test func `a success in between is proof that the reason lies in the records`() {
        var part = delivery(.segment, records: 200)
        var givenUp = 0
        while case let requests = part.requests(of: 1), let request = requests.first {
            let isGood = request.records.numbers[0] % 49 == 0
            givenUp +=
                part.answer(request, isGood ? .accepted(unconfirmedCount: 0) : .refusedWhole(detail: "no"))
                .givenUp.count
        }
        #expect(givenUp == 195)
        #expect(part.next(at: start) == .finished)
    }
}

@Suite struct DeliveryStandingTests {
    @Test func `text gives the same standing back`() {
        var standing = DeliveryStanding(sha256: String(repeating: "a", count: 64), deadByteCount: 7)
        standing.next = 12
        standing.waiting = RecordSet([3, 4, 8])
        standing.announced = RecordSet([11])
        standing.held = RecordSet([0])
        standing.heldUntil = 1_795_165_200_000
        standing.sentEventCount = 5
        standing.deadEventCount = 6
        #expect(DeliveryStanding(text: standing.text, recordCount: 12) == standing)
        // Of a part that has fewer records it cannot be.
        #expect(DeliveryStanding(text: standing.text, recordCount: 11) == nil)
        #expect(DeliveryStanding(text: standing.text.replacing("next=12", with: "next=-1"), recordCount: 12) == nil)
        #expect(DeliveryStanding(text: "next=1", recordCount: 12) == nil)
        #expect(DeliveryStanding(text: "nonsense", recordCount: 12) == nil)
    }

    @Test func `after a death GA4's announced records are given up, and what waits goes first`() {
        var standing = DeliveryStanding(sha256: "ab", deadByteCount: 0)
        standing.next = 4
        standing.waiting = RecordSet([1])
        standing.announced = RecordSet([0, 3])
        var part = delivery(.ga4, records: 6, standing: standing)
        #expect(part.standing == standing)
        #expect(part.giveUpAnnounced().map(\.number) == [0, 3])
        #expect(part.giveUpAnnounced().isEmpty)
        #expect(part.requests(of: 1).map(\.records) == [RecordSet([1]), RecordSet([4]), RecordSet([5])])
    }

    @Test(arguments: [(DeliverableProvider.ga4, AmbiguityPolicy.resend), (.posthog, .skip)])
    func `after a death everything goes again where that is allowed`(
        provider: DeliverableProvider, policy: AmbiguityPolicy
    ) {
        var standing = DeliveryStanding(sha256: "ab", deadByteCount: 0)
        standing.next = 3
        standing.announced = RecordSet([0, 2])
        var part = delivery(provider, records: 3, standing: standing, policy: policy)
        #expect(part.giveUpAnnounced().isEmpty)
        #expect(part.requests(of: 1).flatMap(\.records.numbers) == [0, 2])
    }

    /// Random answers, and a death at any moment: a model that knows what the provider took.
    @Test(arguments: 0..<UInt64(300))
    func `every record ends in one place, whatever is answered and whenever it dies`(seed: UInt64) {
        var chance = SeededGenerator(seed: seed)
        let provider = DeliverableProvider.allCases.randomElement(using: &chance) ?? .ga4
        let recordCount = Int.random(in: 1...40, using: &chance)
        let size = provider == .ga4 ? 1 : Int.random(in: 1...12, using: &chance)
        var durable = DeliveryStanding(sha256: "ab", deadByteCount: 0)
        var takenCount = [Int](repeating: 0, count: recordCount)
        var deadCount = [Int](repeating: 0, count: recordCount)
        var now = start
        var budget = 400
        lives: while true {
            var part = delivery(provider, records: recordCount, standing: durable)
            for record in part.giveUpAnnounced() { deadCount[record.number] += 1 }
            durable = part.standing
            while true {
                switch part.next(at: now) {
                case .cut(let first): part.take(min(size, recordCount - first))
                case .send(let attempts):
                    let counted = RecordSet(attempts.flatMap(\.records.numbers).filter { isCounted($0, provider) })
                    part.announce(attempts, counted: counted)
                    if !counted.isEmpty { durable = part.standing }
                    var dead: [Int] = []
                    for attempt in attempts {
                        budget -= 1
                        let verdict = Self.verdict(for: attempt, isCalm: budget < 0, &chance)
                        for number in Self.taken(by: verdict, attempt, &chance) { takenCount[number] += 1 }
                        dead += part.answered(attempt, verdict, at: now, wallTime: today).givenUp.map(\.number)
                    }
                    if budget > 0, Int.random(in: 0..<8, using: &chance) == 0 { continue lives }
                    for number in dead { deadCount[number] += 1 }
                    durable = part.standing
                case .wait(let until): now = until
                case .held, .stop:
                    Issue.record("no one holds or stops")
                    return
                case .finished: break lives
                }
            }
        }
        for number in 0..<recordCount {
            #expect(deadCount[number] <= 1)
            #expect(takenCount[number] + deadCount[number] >= 1, "record \(number) is lost")
            if isCounted(number, provider) { #expect(takenCount[number] <= 1, "record \(number) counts twice") }
        }
    }

    private static func verdict(
        for attempt: PartDelivery.Attempt, isCalm: Bool, _ chance: inout SeededGenerator
    ) -> Verdict {
        if isCalm { return .accepted(unconfirmedCount: 0) }
        switch Int.random(in: 0..<9, using: &chance) {
        case 0: return .later(after: nil, detail: "503")
        case 1: return .ambiguous(detail: "timeout", after: nil)
        case 2: return .tooLarge(detail: "413")
        case 3: return .throttled(positions: [0], exhausted: [], pause: .seconds(1))
        case 4: return .partly([RecordRefusal(position: attempt.records.count - 1, detail: "x")])
        case 5: return .refusedSome([RecordRefusal(position: 0, detail: "x")])
        case 6: return attempt.records.count > 1 ? .refusedWhole(detail: "x") : .accepted(unconfirmedCount: 0)
        default: return .accepted(unconfirmedCount: 0)
        }
    }

    private static func taken(
        by verdict: Verdict, _ attempt: PartDelivery.Attempt, _ chance: inout SeededGenerator
    ) -> [Int] {
        switch verdict {
        case .accepted: attempt.records.numbers
        case .partly: attempt.records.numbers.dropLast()
        case .ambiguous: Bool.random(using: &chance) ? attempt.records.numbers : []
        case .refusedSome, .refusedWhole, .tooLarge, .throttled, .later, .stop: []
        }
    }
}
