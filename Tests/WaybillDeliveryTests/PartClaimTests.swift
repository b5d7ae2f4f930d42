import Testing
import WaybillSystem

@testable import WaybillDelivery

private let fleet = String(repeating: "f", count: 32)

private func identity(_ number: Int) -> ClaimIdentity {
    ClaimIdentity(
        fleet: fleet, merger: "m\(number)", life: String(repeating: "\(number)", count: 32))
}

private func holder(_ number: Int) -> ClaimHolder {
    ClaimHolder(merger: "m\(number)", life: String(repeating: "\(number)", count: 32), time: .unknown)
}

/// Mergers that ask one bucket about one part, in some order.
private struct World: Hashable {
    /// The holders, the first one first.
    var links: [ClaimHolder] = []
    var isDone = false
    var claims: [PartClaim]
    let aims: [PartClaim.Aim]
    /// How many answers may still be lost.
    var lossCount: Int

    init(_ aims: [PartClaim.Aim], links: [ClaimHolder] = [], lossCount: Int) {
        self.aims = aims
        self.links = links
        self.claims = aims.enumerated().map { PartClaim($0.element, as: identity($0.offset)) }
        self.lossCount = lossCount
    }

    var outcomes: [PartClaim.Outcome?] {
        self.claims.map { if case .ended(let outcome) = $0.step { outcome } else { nil } }
    }

    /// The worlds after the next call of a merger: answered, done without an answer, or not done.
    func next(_ number: Int) -> [World] {
        var answered = self
        var lost = self
        lost.lossCount -= 1
        lost.claims[number] = PartClaim(self.aims[number], as: identity(number))
        let undone = lost
        switch self.claims[number].step {
        case .ended:
            return []
        case .create(let link):
            if link == self.links.count + 1 {
                answered.links.append(holder(number))
                lost.links.append(holder(number))
                answered.claims[number].created()
            } else {
                answered.claims[number].present()
            }
        case .read(let link):
            answered.claims[number].found(link <= self.links.count ? .present(self.links[link - 1]) : .absent)
        case .readDone:
            let done = ClaimDone(holder: holder(0), recordCount: 1, sentEventCount: 1, deadEventCount: 0)
            answered.claims[number].found(done: self.isDone ? .present(done) : .absent)
        }
        return self.lossCount > 0 ? [answered, lost, undone] : [answered]
    }

    /// Visits every world that follows, in every order of calls.
    func explore(_ visit: (World) -> Void) -> Int {
        var seen: Set<World> = [self]
        var open = [self]
        while let world = open.popLast() {
            visit(world)
            for number in world.claims.indices {
                for next in world.next(number) where seen.insert(next).inserted { open.append(next) }
            }
        }
        return seen.count
    }
}

@Suite struct PartClaimTests {
    @Test(arguments: [2, 3]) func `in every order of calls and lost answers one of several holds`(count: Int) {
        var endCount = 0
        let world = World(Array(repeating: .hold, count: count), lossCount: 3)
        let worldCount = world.explore { world in
            let held = world.outcomes.indices.filter { world.outcomes[$0] == .held(link: 1) }
            #expect(held.count <= 1)
            guard world.outcomes.allSatisfy({ $0 != nil }) else { return }
            endCount += 1
            #expect(held.count == 1)
            for (number, outcome) in world.outcomes.enumerated() where number != held[0] {
                #expect(outcome == .elsewhere(holder(held[0]), link: 1))
            }
        }
        #expect(endCount >= count)
        #expect(worldCount > 20)
    }

    @Test func `two that take over from a third agree on one of them`() {
        let aims: [PartClaim.Aim] = [.takeOver(from: "m9"), .takeOver(from: "m9"), .look]
        _ = World(aims, links: [holder(9)], lossCount: 3).explore { world in
            #expect(world.links.count <= 2)
            let held = world.outcomes.indices.filter { world.outcomes[$0] == .held(link: 2) }
            #expect(held.count <= 1)
            guard let first = world.outcomes[0], let second = world.outcomes[1] else { return }
            #expect(held.count == 1)
            let other = held == [0] ? second : first
            #expect(other == .elsewhere(holder(held[0]), link: 2))
        }
    }

    @Test func `a holder that asks after it was taken over finds that`() {
        // What it asked before may be answered "still" afterwards; what it asks from then on may not.
        let aims: [PartClaim.Aim] = [.confirm(link: 1), .takeOver(from: "m0")]
        var endCount = 0
        _ = World(aims, links: [holder(0)], lossCount: 2).explore { world in
            guard world.outcomes[1] == .held(link: 2) else { return }
            endCount += 1
            var later = World([.confirm(link: 1)], links: world.links, lossCount: 0)
            while let next = later.next(0).first { later = next }
            #expect(later.outcomes == [.elsewhere(holder(1), link: 2)])
        }
        #expect(endCount > 0)
    }

    @Test func `what was finished in the meantime is not taken over`() {
        var world = World([.takeOver(from: "m9")], links: [holder(9)], lossCount: 0)
        while let next = world.next(0).first { world = next }
        #expect(world.outcomes == [.held(link: 2)])

        // Finished between the look at its end and the claim.
        world = World([.takeOver(from: "m9")], links: [holder(9)], lossCount: 0)
        while world.links.count < 2 { world = world.next(0)[0] }
        world.isDone = true
        while let next = world.next(0).first { world = next }
        guard case .done = world.outcomes[0] else {
            Issue.record("it is \(String(describing: world.outcomes[0]))")
            return
        }
    }

    @Test func `another life of one's own name holds as another one does`() {
        let former = ClaimHolder(merger: "m0", life: String(repeating: "e", count: 32), time: .unknown)
        var world = World([.hold], links: [former], lossCount: 0)
        while let next = world.next(0).first { world = next }
        #expect(world.outcomes == [.elsewhere(former, link: 1)])

        world = World([.takeOver(from: "m0")], links: [former], lossCount: 0)
        while let next = world.next(0).first { world = next }
        #expect(world.outcomes == [.held(link: 2)])
        #expect(world.claims[0].hasCreated)
    }

    @Test func `a claim that cannot be read is no one's until it is taken over by that name`() {
        for (aim, expected): (PartClaim.Aim, PartClaim.Outcome?) in [
            (.look, .damaged(link: 1)), (.hold, .damaged(link: 1)), (.takeOver(from: "m9"), .damaged(link: 1)),
            (.takeOver(from: PartClaim.damagedName), nil),
        ] {
            var claim = PartClaim(aim, as: identity(0))
            if aim == .hold { claim.present() }
            claim.found(.damaged)
            claim.found(.absent)
            claim.found(done: .absent)
            #expect(claim.step == expected.map { .ended($0) } ?? .create(link: 2))
        }
    }

    @Test func `objects are read as they were written, and nothing else is`() {
        let own = identity(1)
        let claim = ClaimObject.claim(
            of: own, part: "env=prod/date=2026-11-20/part-00000", at: WallTime(milliseconds: 5))
        let expected = ClaimHolder(merger: "m1", life: own.life, time: WallTime(milliseconds: 5))
        #expect(ClaimObject.claim(in: claim, fleet: fleet) == .present(expected))
        #expect(ClaimObject.claim(in: claim, fleet: String(repeating: "e", count: 32)) == .damaged)
        #expect(ClaimObject.claim(in: nil, fleet: fleet) == .absent)
        for count in 0..<(claim.count - 2) {
            #expect(ClaimObject.claim(in: Array(claim.prefix(count)), fleet: fleet) == .damaged)
        }
        let done = ClaimDone(holder: expected, recordCount: 20, sentEventCount: 19, deadEventCount: 1)
        #expect(ClaimObject.done(in: ClaimObject.done(done, of: own), fleet: fleet) == .present(done))
        #expect(ClaimObject.done(in: claim, fleet: fleet) == .damaged)
        #expect(ClaimObject.key("ga4", "prod", "ab", link: 1) == "delivery/ga4/prod/ab")
        #expect(ClaimObject.key("ga4", "prod", "ab", link: 2) == "delivery/ga4/prod/ab~2")
        #expect(ClaimObject.doneKey("ga4", "prod", "ab") == "delivery/ga4/prod/ab.done")
    }
}

@Suite struct ElsewherePartsTests {
    private static let start = MonotonicTime(nanoseconds: 0)

    @Test func `a part of another is looked at after 5 s, 10 s, and at most 5 minutes`() {
        var parts = ElsewhereParts()
        var now = Self.start
        #expect(parts.isDue("a", at: now))
        let isNew = parts.note("a", holder(1), link: 1, at: now)
        #expect(isNew)
        var waits: [Int64] = []
        for _ in 0..<9 {
            var wait: Int64 = 0
            while !parts.isDue("a", at: now + .seconds(wait)) { wait += 1 }
            waits.append(wait)
            now = now + .seconds(wait)
            let isNew = parts.note("a", holder(1), link: 1, at: now)
            #expect(!isNew)
        }
        #expect(waits == [5, 10, 20, 40, 80, 160, 300, 300, 300])
        // Another holder is a new beginning.
        let isOther = parts.note("a", holder(2), link: 2, at: now)
        #expect(isOther)
        #expect(parts.isDue("a", at: now + .seconds(5)))
        parts.keep(only: ["b"])
        #expect(parts.count == 0)
    }

    @Test func `who holds parts for half an hour is named, with how many`() {
        var parts = ElsewhereParts()
        parts.note("a", holder(1), link: 1, at: Self.start)
        parts.note("b", holder(1), link: 1, at: Self.start + .seconds(60))
        parts.note("c", nil, link: 1, at: Self.start + .seconds(120))
        #expect(parts.overdue(at: Self.start + .seconds(1799)) == [])
        #expect(
            parts.overdue(at: Self.start + .seconds(1800)) == [.init(merger: "m1", partCount: 1, seconds: 1800)])
        #expect(
            parts.overdue(at: Self.start + .seconds(1920)) == [
                .init(merger: "m1", partCount: 2, seconds: 1920), .init(merger: "damaged", partCount: 1, seconds: 1800),
            ])
        #expect(parts.damagedCount == 1)
    }
}
