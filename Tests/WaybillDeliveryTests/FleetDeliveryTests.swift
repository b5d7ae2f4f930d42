import Testing
import WaybillExport
import WaybillFleet
import WaybillSystem
import WaybillTestSupport

@testable import WaybillDelivery

/// What may happen in a life of a fleet.
private struct FleetDangers: Hashable {
    var deaths = false
    var lostAnswers = false
    var takeOvers = false
    /// A planted bug: who creates a claim believes to have won, whatever the bucket says.
    var believesToWin = false
}

/// One life: mergers deliver, die, lose answers and take over, until everything is delivered everywhere.
private struct FleetLife {
    let stage: FleetStage
    /// Parts that were taken over from a merger that ran at that moment: there a record may come twice.
    private(set) var disputed: Set<Int> = []
    private var lostDisks: [FaultyFiles] = []
    private var generator: SeededGenerator
    private let dangers: FleetDangers
    private let provider: DeliverableProvider
    private let mergerCount = 3

    init(seed: UInt64, _ provider: DeliverableProvider, _ dangers: FleetDangers) throws {
        self.generator = SeededGenerator(seed: seed)
        self.dangers = dangers
        self.provider = provider
        let server = StagedProvider { record, attempt in
            guard dangers.lostAnswers, attempt < 3 else { return Self.good }
            var dice = SeededGenerator(seed: seed &* 1_000_003 &+ UInt64(record * 7 + attempt))
            switch Int.random(in: 0..<12, using: &dice) {
            case 0: return .unknown(detail: "no answer")
            case 1: return .notSent(detail: "no connection")
            default: return Self.good
            }
        }
        self.stage = try FleetStage(provider, mergers: self.mergerCount, parts: 4, provider: server)
        self.setFaults(seed)
    }

    private static var good: Answer {
        .response(status: 200, retryAfter: nil, body: Array("{\"success\":true}".utf8))
    }

    private func setFaults(_ seed: UInt64) {
        let dangers = self.dangers
        let dice = Lock(SeededGenerator(seed: seed ^ 0xB0C4))
        self.stage.store.setFaults { call in
            if dangers.believesToWin, call.verb == .create, !call.key.hasSuffix(".done") { return .claimed }
            guard dangers.lostAnswers else { return nil }
            return dice.withLock { dice in
                switch Int.random(in: 0..<30, using: &dice) {
                case 0: .refused(.unreachable)
                case 1 where call.verb == .create: .unanswered
                case 2 where call.verb == .create: .late
                default: nil
                }
            }
        }
    }

    /// - Returns: what is wrong.
    mutating func run() async throws -> [String] {
        for number in 0..<self.mergerCount { try await self.stage.start(number) }
        for _ in 0..<220 { try await self.act() }
        // Whatever was lost is over; what can be finished must be.
        self.stage.store.setFaults(nil)
        self.disputing { $0.deliverLate() }
        var stepCount = 0
        while !self.stage.isAllDelivered() {
            // Some die later than they were told to.
            for number in 0..<self.mergerCount where !self.stage.isRunning(number) {
                try await self.stage.start(number)
            }
            stepCount += 1
            guard stepCount < 20_000 else {
                await self.end()
                return ["it does not end"]
            }
            if stepCount % 400 == 399 { try await self.takeOverFromLost() }
            let waiting = await self.stage.turns.waiting
            try await self.stage.step(waiting[stepCount % waiting.count])
        }
        await self.end()
        return self.judge()
    }

    private func end() async {
        for number in 0..<self.mergerCount where self.stage.isRunning(number) {
            await self.stage.kill(number, powerCut: nil)
        }
    }

    private mutating func act() async throws {
        let number = Int.random(in: 0..<self.mergerCount, using: &self.generator)
        let dice = Int.random(in: 0..<100, using: &self.generator)
        if !self.stage.isRunning(number) {
            if dice < 20 { try await self.stage.start(number) }
        } else if self.dangers.deaths, dice < 3 {
            await self.stage.kill(number, powerCut: dice == 0 ? self.generator.next() : nil)
            if dice == 1 { self.lostDisks.append(try self.stage.loseDisk(number)) }
        } else if self.dangers.deaths, dice < 8 {
            self.stage.doom(number, inCalls: Int.random(in: 0..<60, using: &self.generator))
        } else if self.dangers.takeOvers, dice < 10 {
            try await self.takeOver(to: number)
        } else if dice < 13 {
            self.disputing { $0.deliverLate() }
        } else {
            try await self.stage.step(number)
        }
    }

    private mutating func takeOver(to number: Int) async throws {
        let former = Int.random(in: 0..<self.mergerCount, using: &self.generator)
        guard former != number else { return }
        let before = Set(self.stage.store.objects.keys)
        try await self.stage.takeOver(from: "m\(former)", to: number)
        if self.stage.isRunning(former) { self.dispute(since: before) }
    }

    /// Parts whose chain has become longer while a holder may run.
    private mutating func dispute(since before: Set<String>) {
        let new = Set(self.stage.store.objects.keys).subtracting(before)
        for part in 0..<self.stage.partCount where new.contains(where: { $0.contains(self.stage.sha256(part) + "~") }) {
            self.disputed.insert(part)
        }
    }

    private mutating func disputing(_ body: (MemoryStore) -> Void) {
        let before = Set(self.stage.store.objects.keys)
        body(self.stage.store)
        self.dispute(since: before)
    }

    /// An operator takes over what a merger held that came back without its disk.
    private mutating func takeOverFromLost() async throws {
        for number in 0..<self.mergerCount where !self.lostDisks.isEmpty {
            try await self.stage.takeOver(from: "m\(number)", to: number)
        }
    }

    // MARK: Judgement

    private func judge() -> [String] {
        var problems: [String] = []
        let receipts = self.stage.provider.receipts
        let dead = self.stage.deadRecords(of: self.lostDisks)
        let count = FleetStage.recordsPerPart
        for record in 0..<(self.stage.partCount * count) {
            let part = record / count
            let senders = receipts.filter { $0.record == record }
            if senders.isEmpty, !dead.contains(record) { problems.append("record \(record) reached no one") }
            let wasTakenOver = self.stage.store.objects.keys.contains {
                $0.hasSuffix("\(self.stage.sha256(part))~2")
            }
            // Only who holds a part sends it.
            if !wasTakenOver, Set(senders.map(\.merger)).count > 1 {
                problems.append("record \(record) came from \(Set(senders.map(\.merger)).sorted())")
            }
            // What counts twice is sent once, even after a take-over, unless the former holder ran.
            if self.provider == .ga4, senders.count > 1, !self.disputed.contains(part) {
                problems.append("record \(record) came \(senders.count) times")
            }
            if self.dangers == FleetDangers(), senders.count != 1 || dead.contains(record) {
                problems.append("record \(record) came \(senders.count) times in a life without trouble")
            }
        }
        return problems
    }
}

@Suite struct FleetDeliveryTests {
    private static let all = FleetDangers(deaths: true, lostAnswers: true, takeOvers: true)

    private static func problems(
        _ seed: UInt64, _ provider: DeliverableProvider, _ dangers: FleetDangers
    ) async throws -> [String] {
        var life = try FleetLife(seed: seed, provider, dangers)
        return try await life.run()
    }

    @Test(arguments: [DeliverableProvider.ga4, .segment]) func `without trouble each record comes once`(
        _ provider: DeliverableProvider
    ) async throws {
        for seed in 0..<UInt64(20) {
            #expect(try await Self.problems(seed, provider, FleetDangers()) == [], "seed \(seed)")
        }
    }

    @Test(arguments: [DeliverableProvider.ga4, .segment])
    func `with deaths, lost answers and take-overs only a half-sent part that was taken over comes again`(
        _ provider: DeliverableProvider
    ) async throws {
        for seed in 0..<UInt64(60) {
            var dangers = Self.all
            if seed % 4 == 1 { dangers.takeOvers = false }
            if seed % 4 == 2 { dangers.lostAnswers = false }
            if seed % 4 == 3 { dangers.deaths = false }
            #expect(try await Self.problems(seed, provider, dangers) == [], "seed \(seed)")
        }
    }

    @Test func `who sends without looking at who won is found out`() async throws {
        var dangers = FleetDangers()
        dangers.believesToWin = true
        var foundCount = 0
        for seed in 0..<UInt64(20) {
            if try await !Self.problems(seed, .segment, dangers).isEmpty { foundCount += 1 }
        }
        #expect(foundCount > 5, "only \(foundCount) of 20")
    }
}
