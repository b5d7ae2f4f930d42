internal import Logging
internal import WaybillExport
internal import WaybillJSON
internal import WaybillHost
internal import WaybillProjection
internal import WaybillSystem

/// The delivery of one part.
extension Deliverer {
    /// An open part and the progress of its records.
    private struct Course {
        let part: PendingPart
        let closed: ClosedPart<Files>
        let log: RefusalLog<Files>
        let template: RequestTemplate
        let generation: String
        var delivery: PartDelivery
    }

    func deliver(_ part: PendingPart) async throws {
        guard var course = try self.open(part), let link = try await self.claim(part) else { return }
        // The bucket may have taken its time.
        guard try self.isUnchanged(part, course.generation) else { return }
        try self.commit(course)
        let lost = course.delivery.giveUpAnnounced()
        if !lost.isEmpty {
            try self.bury(lost, &course)
            try self.commit(course)
        }
        if link > 1 { try self.giveUpDoubtful(&course) }
        while true {
            switch course.delivery.next(at: self.clock.monotonicTime()) {
            case .cut(let first):
                course.delivery.take(
                    try course.closed.requestRecordCount(
                        from: first, recordCountMax: self.rules.facts.recordsPerRequestMax,
                        byteCountMax: self.rules.facts.requestByteCountMax))
            case .send(let attempts):
                guard try await self.send(attempts, &course) else { return }
            case .wait(let time):
                try await self.wait(until: time)
            case .held:
                return
            case .finished:
                try await self.publishDone(part, course.delivery.standing)
                return try self.finish(course)
            case .stop(let reason):
                throw DeliveryEnded(outcome: .stopped(reason))
            }
        }
    }

    // MARK: Start and end

    /// - Returns: `nil` for a part that cannot be delivered now or at all.
    private func open(_ part: PendingPart) throws -> Course? {
        if let known = self.standing(of: part),
            known.isHeld(recordCount: part.manifest.recordCount, at: self.clock.wallTime())
        {
            return nil
        }
        let generation = try self.parts.generation(of: part.day)
        guard try self.admits(part, generation) else { return nil }
        let closed: ClosedPart<Files>
        do throws(PartError) {
            closed = try self.parts.open(part, of: self.configuration.provider)
        } catch {
            // A replay has replaced the part in the meantime; the next scan finds the new one.
            guard try self.isUnchanged(part, generation) else { return nil }
            guard case .damaged(let detail) = error else { throw error }
            self.partIsDamaged("\(part.day)/\(part.name)", detail)
            return nil
        }
        guard try self.isUnchanged(part, generation) else { return nil }
        let known = self.standing(of: part)
        let log = try RefusalLog(
            folder: self.parts.folder(part.day), partNumber: part.number, byteCount: known?.deadByteCount,
            files: self.files)
        let standing = known ?? DeliveryStanding(sha256: part.manifest.sha256, deadByteCount: log.byteCount)
        let now = self.clock.wallTime()
        let age = part.manifest.oldest.map { now.milliseconds - $0.milliseconds } ?? 0
        return Course(
            part: part, closed: closed, log: log,
            template: try Self.template(
                self.configuration, isHistorical: age >= self.rules.facts.historicalMillisecondsMin),
            generation: generation,
            delivery: PartDelivery(
                standing, recordCount: part.manifest.recordCount, rules: self.rules,
                policy: self.configuration.ambiguity,
                backoff: Backoff(
                    from: .seconds(2), to: self.configuration.backoffLongest, SeededGenerator(seed: SystemRandom.seed())
                ), now: now))
    }

    private func isUnchanged(_ part: PendingPart, _ generation: String) throws(FileSystemError) -> Bool {
        guard try self.parts.generation(of: part.day) == generation else { return false }
        return try self.parts.manifest(part.day, part.name) == part.manifest
    }

    /// Whether a part's day has the content of which events were already sent.
    ///
    /// A regenerated day contains the sent events in other parts: a provider that would count them twice gets the day
    /// only on demand.
    private func admits(_ part: PendingPart, _ generation: String) throws -> Bool {
        if self.rules.facts.isRepeatableForEver || self.configuration.isForced { return true }
        if self.isInDoubt(part) {
            self.noteDoubt(part)
            return false
        }
        let remembered = self.state.entries[part.key]
        let known = self.state.entries[part.dayKey].flatMap(DeliveredDay.init(text:))
        let isSame =
            known.map { $0.generation == generation && $0.partCount <= self.parts.deliveredCount(of: part.day) } ?? true
        if isSame, remembered == nil || self.standing(of: part) != nil { return true }
        guard !self.report.remadeDays.contains(part.day) else { return false }
        self.report.remadeDays.append(part.day)
        self.logger.error(
            .dayRemade,
            "a day was regenerated after some of its events were sent; it is not sent again without --force",
            metadata: ["day": "\(part.day)"])
        return false
    }

    private func commit(_ course: Course) throws(FileSystemError) {
        let day = DeliveredDay(
            generation: course.generation, partCount: self.parts.deliveredCount(of: course.part.day))
        var changes: [String: String?] = [course.part.key: course.delivery.standing.text]
        if self.state.entries[course.part.dayKey] != day.text { changes[course.part.dayKey] = day.text }
        try self.state.commit(changes)
    }

    /// Marks the part as delivered, then removes it from the state.
    private func finish(_ course: Course) throws {
        let part = course.part
        guard try self.isUnchanged(part, course.generation) else {
            return self.logger.warning(
                .partRemade, "a part was regenerated while it was being delivered",
                metadata: ["part": "\(part.day)/\(part.name)"])
        }
        try course.log.compress(self.configuration.provider.id, part.env, part.manifest.day)
        let standing = course.delivery.standing
        let mark = self.claims.map {
            Self.mark(
                merger: $0.merger, sentEventCount: standing.sentEventCount, deadEventCount: standing.deadEventCount)
        }
        try self.setDelivered(part, course.generation, mark ?? "")
        self.report.partCount += 1
        self.logger.info(
            "a part is delivered",
            metadata: [
                "part": "\(part.day)/\(part.name)", "sent": .number(standing.sentEventCount),
                "dead": .number(standing.deadEventCount),
            ])
    }

    /// Marks a part as delivered.
    ///
    /// - Parameter mark: what follows its SHA-256: in a fleet, who sent it, and counts.
    func setDelivered(_ part: PendingPart, _ generation: String, _ mark: String) throws(FileSystemError) {
        try self.files.replace(
            self.parts.deliveredPath(part.day, part.name), with: Array("\(part.manifest.sha256)\n\(mark)".utf8))
        self.parts.setDelivered(part, generation)
        let day = DeliveredDay(generation: generation, partCount: self.parts.deliveredCount(of: part.day))
        try self.state.commit([part.key: String?.none, part.dayKey: day.text])
    }

    // MARK: Requests

    /// Gives up what a former holder of the part may have sent and what would count twice.
    ///
    /// It is known of none of them whether it was sent. Those that are in the dead letters already stay there once.
    private func giveUpDoubtful(_ course: inout Course) throws {
        guard self.rules.facts.repetition != .harmless, self.configuration.ambiguity == .skip else { return }
        var attempts = course.delivery.queued
        while true {
            let records = try course.closed.read(RecordSet(attempts.flatMap(\.records.numbers)))
            let counted = RecordSet(records.filter { self.rules.isCounted($0.content) }.map(\.number))
            if !counted.isEmpty {
                for attempt in attempts { course.delivery.giveUp(counted, in: attempt) }
                let lost = counted.numbers.map {
                    GivenUpRecord(
                        number: $0, reason: .ambiguous,
                        detail: "the part was taken over from another merger, which may have sent it")
                }
                try self.bury(lost, &course)
                try self.commit(course)
            }
            attempts = course.delivery.takeQueued(upTo: Self.doubtfulRecordCountMax)
            if attempts.isEmpty { return }
        }
    }

    /// So many records are given up at once.
    private static var doubtfulRecordCountMax: Int { 1000 }

    /// - Returns: `false` if the part is another merger's now; nothing was sent.
    private func send(_ attempts: [PartDelivery.Attempt], _ course: inout Course) async throws -> Bool {
        var requests: [[PartRecord]] = []
        for attempt in attempts {
            let records = try course.closed.read(attempt.records)
            let byteCount = records.reduce(0) { $0 + $1.content.count + 1 }
            if records.count > 1, byteCount > self.rules.facts.requestByteCountMax {
                course.delivery.halve(attempt)
                return true
            }
            let old = self.tooOld(records, course.part)
            if !old.isEmpty {
                course.delivery.giveUp(RecordSet(old.map(\.number)), in: attempt)
                try self.bury(old, &course)
                try self.commit(course)
                return true
            }
            requests.append(records)
        }
        try await self.keepPace(eventCount: requests.joined().reduce(0) { $0 + $1.eventCount })
        guard try await self.stillHolds(course.part) else { return false }
        let counted = RecordSet(requests.joined().filter { self.rules.isCounted($0.content) }.map(\.number))
        course.delivery.announce(attempts, counted: counted)
        if !counted.isEmpty { try self.commit(course) }
        let answers = await self.answers(to: requests, course.template, course.part.env)
        for (index, answer) in answers.enumerated() {
            try self.settle(attempts[index], requests[index], answer, &course)
        }
        try self.commit(course)
        return true
    }

    private func settle(
        _ attempt: PartDelivery.Attempt, _ records: [PartRecord], _ answer: Answer, _ course: inout Course
    ) throws {
        let verdict = self.rules.verdict(on: answer, records: records.map(\.content))
        self.note(verdict)
        let now = self.clock.monotonicTime()
        let (accepted, givenUp) = course.delivery.answered(
            attempt, verdict, at: now, wallTime: self.clock.wallTime())
        let taken = Set(accepted.numbers)
        let eventCount = records.reduce(0) { $0 + (taken.contains($1.number) ? $1.eventCount : 0) }
        course.delivery.setSent(eventCount: eventCount)
        self.report.sentCount += eventCount
        try self.bury(givenUp, &course)
        if !accepted.isEmpty || !givenUp.isEmpty { self.patience.settled(at: now) }
        if !accepted.isEmpty {
            self.report.lastSuccess = self.clock.wallTime()
            self.report.trouble = nil
        }
        try self.show()
    }

    private func note(_ verdict: Verdict) {
        switch verdict {
        case .accepted(let unconfirmedCount): self.report.unconfirmedCount += unconfirmedCount
        case .partly, .refusedSome, .stop: break
        case .refusedWhole, .tooLarge: self.report.retryCount += 1
        case .throttled: self.failed("the provider throttles users or devices")
        case .later(_, let detail), .ambiguous(let detail, _): self.failed(detail)
        }
    }

    private func failed(_ detail: String) {
        self.report.retryCount += 1
        self.patience.failed(detail)
        self.report.trouble = detail
        self.logger.warning(.requestNotAccepted, "a request was not accepted", metadata: ["detail": "\(detail)"])
    }

    /// Writes dead letters, which the next commit makes valid.
    private func bury(_ givenUp: [GivenUpRecord], _ course: inout Course) throws {
        guard !givenUp.isEmpty else { return }
        let letter = DeliveryDeadLetter(
            provider: self.configuration.provider,
            partName: "\(course.part.name).\(Exporter.description(of: self.configuration.provider.id).fileExtension)",
            mappingVersion: course.part.manifest.mappingVersion, at: self.clock.wallTime())
        var lines: [UInt8] = []
        var eventCount = 0
        let records = try course.closed.read(RecordSet(givenUp.map(\.number)))
        for (cause, record) in zip(givenUp.sorted { $0.number < $1.number }, records) {
            lines += letter.lines(cause, record)
            eventCount += record.eventCount
            let reason = "\(self.configuration.provider.rawValue).\(cause.reason.rawValue)"
            self.report.dead[reason, default: 0] += record.eventCount
        }
        try course.log.append(lines)
        course.delivery.setDead(eventCount: eventCount, byteCount: course.log.byteCount)
    }

    /// GA4, for instance, would silently change the time of events older than its limit.
    private func tooOld(_ records: [PartRecord], _ part: PendingPart) -> [GivenUpRecord] {
        let now = self.clock.wallTime()
        let provider = self.configuration.provider.id.type
        guard let ageMax = provider.eventAgeMillisecondsMax, let notAfter = part.manifest.notAfter, notAfter < now
        else { return [] }
        let oldest = now.milliseconds - ageMax
        return records.filter { provider.oldestMilliseconds(of: $0.content).map { $0 < oldest } ?? true }.map {
            GivenUpRecord(
                number: $0.number, reason: .tooOld, detail: "it has an event older than \(ageMax / 3_600_000) hours")
        }
    }
}

/// The state of a day of which events were sent: `live 3`, the name of its content and the count of delivered parts.
struct DeliveredDay: Hashable {
    let generation: String
    let partCount: Int

    init(generation: String, partCount: Int) {
        self.generation = generation
        self.partCount = partCount
    }

    init?(text: String) {
        let fields = text.split(separator: " ")
        guard fields.count == 2, let count = Int(fields[1]), count >= 0 else { return nil }
        self.init(generation: String(fields[0]), partCount: count)
    }

    var text: String { "\(self.generation) \(self.partCount)" }
}
