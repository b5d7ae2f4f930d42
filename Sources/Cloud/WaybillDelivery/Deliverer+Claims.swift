internal import Logging
internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillFleet
internal import WaybillHost
internal import WaybillProjection
internal import WaybillSystem

/// What makes a delivery one of a fleet's: where claims are, and the name of this merger.
package struct DeliveryClaims: Sendable {
    package let bucket: any ClaimBucket
    package let merger: String

    package init(_ bucket: any ClaimBucket, merger: String) {
        (self.bucket, self.merger) = (bucket, merger)
    }
}

/// What a delivery remembers of claims while it runs; all of it can be asked for again.
struct ClaimMemory {
    /// The part that is being sent.
    struct Holding {
        let part: String
        let link: Int
        /// When the bucket was last asked, and said that it is still so.
        var confirmed: MonotonicTime
        /// The same by the wall clock: the other one may stand still while a machine is suspended.
        var confirmedAt: WallTime

        /// Whether the bucket need not be asked again.
        func isFresh(_ now: MonotonicTime, _ wallTime: WallTime) -> Bool {
            let pause = ClaimMemory.confirmPause
            let passed = wallTime.milliseconds - self.confirmedAt.milliseconds
            return now - self.confirmed < pause && (0..<pause.nanoseconds / 1_000_000).contains(passed)
        }
    }

    var identity: ClaimIdentity?
    var elsewhere = ElsewhereParts()
    /// Parts that this merger holds and has not finished.
    var own: Set<String> = []
    var holding: Holding?
    /// When the bucket is asked again that did not answer.
    var retryAt: MonotonicTime?
    var backoff = Backoff(from: .seconds(2), to: .seconds(60), SeededGenerator(seed: SystemRandom.seed()))
    /// How often this scan asked about parts of others.
    var lookCount = 0
    /// When overdue parts were last logged.
    var lastOverdueLog: MonotonicTime?

    /// A merger of many parts that are others' asks about so many of them in one scan.
    static let lookCountMax = 32
    /// Before a request a holder asks again if it did not for so long: so long it may send after it was taken over.
    static let confirmPause = Duration.seconds(10)
    static let overdueLogPause = Duration.seconds(3600)
}

/// Claims: of a fleet's mergers one sends each part.
extension Deliverer {
    private func claimKey(_ part: PendingPart) -> String { "\(part.key) \(part.manifest.claimSHA256)" }

    // MARK: The start

    /// Gives the state a life of its own, and refuses a merger's directory without claims.
    func prepareClaims() throws {
        let data = DataDirectory(root: self.configuration.dataDirectory, files: self.files)
        guard self.claims != nil else {
            guard try !data.hasState("merge") else {
                throw DeliveryError.mergerWithoutClaims(dataDirectory: self.configuration.dataDirectory)
            }
            return
        }
        if self.state.entries[ClaimIdentity.stateKey].map(ClaimIdentity.isDigits) != true {
            let life = Hexadecimal.text(try SystemRandom.secretBytes(count: 16))
            try self.state.commit([ClaimIdentity.stateKey: life])
        }
    }

    // MARK: Before a part

    /// Whether this merger may open a part: it holds it, or no one does.
    func mayOpen(_ part: PendingPart) async throws -> Bool {
        guard self.claims != nil else { return true }
        let (now, wallTime) = (self.clock.monotonicTime(), self.clock.wallTime())
        let key = self.claimKey(part)
        // It waits for another day, on every merger.
        if let standing = self.standing(of: part),
            standing.isHeld(recordCount: part.manifest.recordCount, at: wallTime)
        {
            return true
        }
        guard self.memory.retryAt.map({ $0 <= now }) ?? true, self.memory.elsewhere.isDue(key, at: now) else {
            return false
        }
        if self.memory.elsewhere[key] != nil {
            guard self.memory.lookCount < ClaimMemory.lookCountMax else { return false }
            self.memory.lookCount += 1
        }
        let outcome = try await self.inquire(.look, part, known: self.memory.elsewhere[key]?.link ?? 1)
        guard let outcome else { return false }
        return try self.take(outcome, part, askedAt: now, wallTime)
    }

    /// Claims an open part.
    ///
    /// - Returns: the number of the claim; `nil` if another one holds the part, or that is unknown.
    func claim(_ part: PendingPart) async throws -> Int? {
        guard self.claims != nil else { return 1 }
        if let holding = self.memory.holding, holding.part == self.claimKey(part) { return holding.link }
        let (now, wallTime) = (self.clock.monotonicTime(), self.clock.wallTime())
        guard let outcome = try await self.inquire(.hold, part),
            try self.take(outcome, part, askedAt: now, wallTime)
        else { return nil }
        return self.memory.holding?.link
    }

    /// Asks the bucket.
    ///
    /// - Returns: `nil` if it did not answer; then it is asked again after `memory.retryAt`.
    private func inquire(
        _ aim: PartClaim.Aim, _ part: PendingPart, known: Int = 1
    ) async throws -> PartClaim.Outcome? {
        try await self.asking { (bucket, identity) throws(StoreError) in
            var claim = PartClaim(aim, as: identity, known: known)
            let own = ClaimObject.claim(
                of: identity, part: "\(part.day)/\(part.name)", at: self.clock.wallTime())
            return try await claim.ask(
                bucket, self.configuration.provider.rawValue, part.env.rawValue, part.manifest.claimSHA256, claim: own,
                fleet: identity.fleet)
        }
    }

    private func asking<Value>(
        _ body: (any ClaimBucket, ClaimIdentity) async throws(StoreError) -> Value
    ) async throws -> Value? {
        guard let claims, let life = self.state.entries[ClaimIdentity.stateKey] else {
            preconditionFailure("claims are asked for after they were prepared")
        }
        do throws(StoreError) {
            if self.memory.identity == nil {
                guard let fleet = try await claims.bucket.fleet() else {
                    throw StoreError(
                        .configuration, code: "no-fleet", detail: "the bucket names no fleet",
                        remedy: "prepare it with waybill store init")
                }
                self.memory.identity = ClaimIdentity(fleet: fleet, merger: claims.merger, life: life)
            }
            guard let identity = self.memory.identity else { return nil }
            let value = try await body(claims.bucket, identity)
            self.memory.retryAt = nil
            self.memory.backoff.succeed()
            self.report.claimTrouble = nil
            return value
        } catch {
            self.memory.retryAt = self.clock.monotonicTime() + self.memory.backoff.fail()
            self.failedClaim(error)
            return nil
        }
    }

    private func failedClaim(_ error: StoreError) {
        if self.report.claimTrouble == nil {
            self.logger.warning(
                .claimsNotAsked, "the bucket does not say who sends which part; parts wait",
                metadata: ["detail": "\(error)"])
        }
        self.report.claimTrouble = "\(error)"
    }

    /// Remembers an outcome.
    ///
    /// - Returns: whether this merger may send the part.
    private func take(
        _ outcome: PartClaim.Outcome, _ part: PendingPart, askedAt time: MonotonicTime, _ wallTime: WallTime
    ) throws -> Bool {
        let key = self.claimKey(part)
        let name = "\(part.day)/\(part.name)"
        self.memory.holding = nil
        switch outcome {
        case .free:
            self.memory.elsewhere.remove(key)
            return true
        case .held(let link):
            self.memory.elsewhere.remove(key)
            self.memory.own.insert(key)
            self.memory.holding = .init(part: key, link: link, confirmed: time, confirmedAt: wallTime)
            return true
        case .done(let done):
            self.memory.elsewhere.remove(key)
            self.memory.own.remove(key)
            try self.markDelivered(part, done)
        case .elsewhere(let holder, let link):
            self.memory.own.remove(key)
            if self.memory.elsewhere.note(key, holder, link: link, at: time) {
                self.logger.info(
                    "another merger sends a part", metadata: ["part": "\(name)", "merger": "\(holder.merger)"])
            }
        case .damaged(let link):
            self.memory.own.remove(key)
            if self.memory.elsewhere.note(key, nil, link: 1, at: time) {
                let (provider, env) = (self.configuration.provider.rawValue, part.env.rawValue)
                let object =
                    link.map { ClaimObject.key(provider, env, part.manifest.claimSHA256, link: $0) }
                    ?? ClaimObject.doneKey(provider, env, part.manifest.claimSHA256)
                self.logger.error(
                    .claimDamaged, "a claim cannot be read; its part is not sent",
                    metadata: ["part": "\(name)", "object": "\(object)"])
            }
        }
        return false
    }

    /// Another merger has finished the part: this one's retention, erasures and status need to know.
    private func markDelivered(_ part: PendingPart, _ done: ClaimDone) throws {
        let generation = try self.parts.generation(of: part.day)
        guard try self.parts.manifest(part.day, part.name) == part.manifest else { return }
        if let known = self.standing(of: part), known.deadByteCount > 0 {
            let log = try RefusalLog(
                folder: self.parts.folder(part.day), partNumber: part.number, byteCount: known.deadByteCount,
                files: self.files)
            try log.compress(self.configuration.provider.id, part.env, part.manifest.day)
        }
        try self.setDelivered(
            part, generation,
            Self.mark(
                merger: done.holder.merger, sentEventCount: done.sentEventCount,
                deadEventCount: done.deadEventCount))
        self.logger.info(
            "a part is delivered by another merger",
            metadata: ["part": "\(part.day)/\(part.name)", "merger": "\(done.holder.merger)"])
    }

    /// The second line of `.delivered`.
    static func mark(merger: String, sentEventCount: Int, deadEventCount: Int) -> String {
        "merger=\(merger) sent=\(sentEventCount) dead=\(deadEventCount)\n"
    }

    // MARK: While a part is sent

    /// Whether this merger still holds the part that it sends; waits until the bucket says so.
    func stillHolds(_ part: PendingPart) async throws -> Bool {
        guard self.claims != nil else { return true }
        let key = self.claimKey(part)
        while let holding = self.memory.holding, holding.part == key {
            let (now, wallTime) = (self.clock.monotonicTime(), self.clock.wallTime())
            guard !holding.isFresh(now, wallTime) else { return true }
            guard let outcome = try await self.inquire(.confirm(link: holding.link), part) else {
                try await self.waitForBucket()
                continue
            }
            if outcome == .held(link: holding.link) {
                self.memory.holding?.confirmed = now
                self.memory.holding?.confirmedAt = wallTime
                return true
            }
            _ = try self.take(outcome, part, askedAt: now, wallTime)
            // With another number it is this merger's again, and opened again, since others may have sent it meanwhile.
            self.memory.holding = nil
            self.logger.warning(
                .partTakenOver, "another merger took over a part that was being sent",
                metadata: ["part": "\(part.day)/\(part.name)"])
            return false
        }
        return false
    }

    /// Tells the fleet that a part is finished; waits until the bucket has it.
    func publishDone(_ part: PendingPart, _ standing: DeliveryStanding) async throws {
        guard self.claims != nil else { return }
        while true {
            let answer = try await self.asking { (bucket, identity) throws(StoreError) in
                let done = ClaimDone(
                    holder: ClaimHolder(
                        merger: identity.merger, life: identity.life, time: self.clock.wallTime()),
                    recordCount: part.manifest.recordCount, sentEventCount: standing.sentEventCount,
                    deadEventCount: standing.deadEventCount)
                return try await bucket.create(
                    ClaimObject.doneKey(
                        self.configuration.provider.rawValue, part.env.rawValue, part.manifest.claimSHA256),
                    ClaimObject.done(done, of: identity))
            }
            if answer != nil { break }
            try await self.waitForBucket()
        }
        self.memory.own.remove(self.claimKey(part))
        self.memory.holding = nil
    }

    private func waitForBucket() async throws {
        self.patience.failed("the bucket: \(self.report.claimTrouble ?? "no answer")")
        try await self.wait(until: self.memory.retryAt ?? self.clock.monotonicTime())
    }

    // MARK: What it says

    /// Begins a scan of parts.
    func beginScan(of parts: [PendingPart]) {
        guard self.claims != nil else { return }
        self.memory.lookCount = 0
        let keys = Set(parts.map(self.claimKey))
        self.memory.elsewhere.keep(only: keys)
        self.memory.own.formIntersection(keys)
    }

    /// Whether what is left of a part is another one's.
    func isElsewhere(_ part: PendingPart) -> Bool {
        self.claims != nil && self.memory.elsewhere[self.claimKey(part)] != nil
    }

    /// Counts claims; logs what others hold for long.
    func countClaims(of parts: [PendingPart]) {
        guard self.claims != nil else { return }
        var counts = ClaimCounts()
        for part in parts {
            let key = self.claimKey(part)
            if self.memory.own.contains(key) {
                counts.claimed += 1
            } else if self.memory.elsewhere[key] != nil {
                counts.elsewhere += 1
            } else {
                counts.waiting += 1
            }
        }
        let now = self.clock.monotonicTime()
        counts.damaged = self.memory.elsewhere.damagedCount
        counts.overdue = self.memory.elsewhere.overdue(at: now).filter { $0.merger != PartClaim.damagedName }
        self.report.claims = counts
        guard let first = counts.overdue.first,
            self.memory.lastOverdueLog.map({ now - $0 >= ClaimMemory.overdueLogPause }) ?? true
        else { return }
        self.memory.lastOverdueLog = now
        self.logger.warning(
            .partHeldElsewhere, "another merger holds parts for long and does not finish them",
            metadata: [
                "merger": "\(first.merger)", "parts": .number(first.partCount), "seconds": .number(first.seconds),
                "command": "waybill deliver --config FILE --take-over \(first.merger)",
            ])
    }
}

/// Parts of a fleet that are not delivered, by who sends them.
package struct ClaimCounts: Hashable, Sendable {
    /// By this merger.
    package var claimed = 0
    /// By another one, or no one knows by whom.
    package var elsewhere = 0
    /// It was not asked yet, or could not be.
    package var waiting = 0
    /// Parts among `elsewhere` whose claims cannot be read.
    package var damaged = 0
    /// Mergers that hold parts for long.
    package var overdue: [ElsewhereParts.Overdue] = []

    package init() {}
}
