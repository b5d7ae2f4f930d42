package import WaybillSystem

package import WaybillExport

/// The progress of the delivery of one part: one line of the state.
///
///     sha256=ad0c… next=8 waiting=3,5-6 announced=7 held=- until=0 sent=20 dead=1 dead_bytes=410
///
/// Records below `next` that are in none of the three sets are settled: accepted, or in the dead letters.
package struct DeliveryStanding: Hashable, Sendable {
    /// The SHA-256 of the part's bytes from its manifest.
    package let sha256: String
    /// The first record that was never sent.
    package var next = 0
    /// Sent, and known not to be accepted.
    package var waiting = RecordSet()
    /// Sent or about to be sent, with an unknown outcome; they would count twice if they were sent again.
    package var announced = RecordSet()
    /// Must not be sent before ``heldUntil``.
    package var held = RecordSet()
    /// Milliseconds since 1970.
    package var heldUntil: Int64 = 0
    /// Events that were accepted.
    package var sentEventCount = 0
    /// Events that went to the dead letters.
    package var deadEventCount = 0
    /// The length of the part's dead letters.
    package var deadByteCount: Int

    package init(sha256: String, deadByteCount: Int) {
        self.sha256 = sha256
        self.deadByteCount = deadByteCount
    }

    /// Whether all remaining records of a part wait for another day.
    package func isHeld(recordCount: Int, at now: WallTime) -> Bool {
        self.next == recordCount && self.waiting.isEmpty && self.announced.isEmpty && !self.held.isEmpty
            && now.milliseconds < self.heldUntil
    }

    package var text: String {
        "sha256=\(self.sha256) next=\(self.next) waiting=\(self.waiting.text) announced=\(self.announced.text) "
            + "held=\(self.held.text) until=\(self.heldUntil) sent=\(self.sentEventCount) dead=\(self.deadEventCount) "
            + "dead_bytes=\(self.deadByteCount)"
    }

    /// Reads ``text`` of a part with this many records; `nil` for anything else.
    package init?(text: String, recordCount: Int) {
        var fields: [Substring: String] = [:]
        for field in text.split(separator: " ") {
            let pair = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2 else { return nil }
            fields[pair[0]] = String(pair[1])
        }
        func count(_ name: Substring) -> Int? {
            fields[name].flatMap { Int($0) }.flatMap { (0...(1 << 53)).contains($0) ? $0 : nil }
        }
        guard let sha256 = fields["sha256"], let next = count("next"), next <= recordCount,
            let waiting = fields["waiting"].flatMap({ RecordSet(text: $0, below: next) }),
            let announced = fields["announced"].flatMap({ RecordSet(text: $0, below: next) }),
            let held = fields["held"].flatMap({ RecordSet(text: $0, below: next) }),
            let until = count("until"), let sent = count("sent"), let dead = count("dead"),
            let deadByteCount = count("dead_bytes")
        else { return nil }
        self.sha256 = sha256
        self.next = next
        self.waiting = waiting
        self.announced = announced
        self.held = held
        self.heldUntil = Int64(until)
        self.sentEventCount = sent
        self.deadEventCount = dead
        self.deadByteCount = deadByteCount
    }
}

/// A record that will not be sent again, and the reason.
package struct GivenUpRecord: Hashable, Sendable {
    /// A dead letter's reason, after the provider's name.
    package enum Reason: String, Hashable, Sendable, CaseIterable {
        /// The provider refused it.
        case rejected
        /// It may have been accepted, and would count twice if it were sent again.
        case ambiguous
        /// The provider would change its time.
        case tooOld = "too_old"
    }

    package let number: Int
    package let reason: Reason
    package let detail: String
    package let field: String?

    package init(number: Int, reason: Reason, detail: String, field: String? = nil) {
        self.number = number
        self.reason = reason
        self.detail = detail
        self.field = field
    }
}

/// Decides what happens to the records of one part, without a clock, file or socket.
///
/// Records are sent in order. While a record waits for another attempt, only records of the same request are sent.
package struct PartDelivery: Sendable {
    /// Records that are sent in one request.
    package struct Attempt: Hashable, Sendable {
        package let records: RecordSet
        /// Not before this time.
        let notBefore: MonotonicTime?
    }

    /// What the caller must do next.
    package enum Step: Hashable, Sendable {
        /// Pass to ``take(_:)`` how many records from the cursor on fit into one request.
        case cut(from: Int)
        /// Send each of them, then call ``answered(_:_:eventCount:at:)`` for each.
        case send([Attempt])
        /// Nothing to do before this time.
        case wait(until: MonotonicTime)
        /// The remaining records are held until another day.
        case held(until: WallTime)
        /// Every record is settled.
        case finished
        case stop(DeliveryStop)
    }

    private let rules: DeliveryRules
    private let policy: AmbiguityPolicy
    private let recordCount: Int
    private var backoff: Backoff
    private var progress: DeliveryStanding
    /// Attempts not in flight, in order.
    private var queue: [Attempt] = []
    private var inFlight: [Attempt] = []
    /// The records in flight that would count twice if they were sent again.
    private var countedInFlight = RecordSet()
    private var pausedUntil: MonotonicTime?
    private var stopReason: DeliveryStop?
    /// Records refused one by one, without a reason specific to them, since the last accepted record.
    private var unexplainedRefusalCount = 0

    /// This many refusals without a reason, and without a success in between, are not a coincidence.
    private static let unexplainedRefusalCountMax = 50

    /// Continues from `standing`.
    ///
    /// - Parameter now: held records that may be sent by now go first.
    package init(
        _ standing: DeliveryStanding, recordCount: Int, rules: DeliveryRules, policy: AmbiguityPolicy,
        backoff: Backoff, now: WallTime
    ) {
        self.rules = rules
        self.policy = policy
        self.recordCount = recordCount
        self.backoff = backoff
        self.progress = standing
        var again = standing.waiting
        let mayRepeat = rules.facts.repetition == .harmless || policy == .resend
        if mayRepeat { again = again.union(standing.announced) }
        if standing.heldUntil <= now.milliseconds {
            again = again.union(standing.held)
            self.progress.held = RecordSet()
        }
        self.progress.waiting = RecordSet()
        if mayRepeat { self.progress.announced = RecordSet() }
        self.enqueue(again)
    }

    /// The state to commit.
    package var standing: DeliveryStanding {
        var standing = self.progress
        let inFlight = RecordSet(self.inFlight.flatMap(\.records.numbers))
        standing.waiting = RecordSet(self.queue.flatMap(\.records.numbers))
            .union(inFlight.subtracting(self.countedInFlight))
        standing.announced = self.progress.announced.union(self.countedInFlight)
        return standing
    }

    /// Gives up records that a process announced before it died and may have sent; none if they can be sent again.
    ///
    /// - Returns: the records for the dead letters; ``setDead(eventCount:byteCount:)`` follows.
    package mutating func giveUpAnnounced() -> [GivenUpRecord] {
        let lost = self.progress.announced
        self.progress.announced = RecordSet()
        return lost.numbers.map {
            GivenUpRecord(
                number: $0, reason: .ambiguous, detail: "delivery was interrupted while the request was on its way")
        }
    }

    package mutating func next(at now: MonotonicTime) -> Step {
        if let stopReason { return .stop(stopReason) }
        if let pausedUntil {
            if now < pausedUntil { return .wait(until: pausedUntil) }
            self.pausedUntil = nil
        }
        let ready = self.queue.filter { $0.notBefore.map { $0 <= now } ?? true }
        if ready.count == self.queue.count, ready.count < self.rules.facts.inFlightMax,
            self.progress.next < self.recordCount
        {
            return .cut(from: self.progress.next)
        }
        if !ready.isEmpty { return .send(Array(ready.prefix(self.rules.facts.inFlightMax))) }
        if let first = self.queue.compactMap(\.notBefore).min() { return .wait(until: first) }
        if !self.progress.held.isEmpty { return .held(until: WallTime(milliseconds: self.progress.heldUntil)) }
        return .finished
    }

    /// Puts the next `count` records from the cursor on into one request.
    package mutating func take(_ count: Int) {
        precondition(
            count > 0 && self.progress.next + count <= self.recordCount,
            "a request holds records of its part, got \(count) from \(self.progress.next) on")
        self.enqueue(RecordSet(self.progress.next..<self.progress.next + count))
        self.progress.next += count
    }

    /// What waits to be sent, without what was never taken from the cursor on.
    package var queued: [Attempt] { self.queue }

    /// Puts at most `count` records from the cursor on into requests.
    ///
    /// - Returns: these requests; none at the end of the part.
    package mutating func takeQueued(upTo count: Int) -> [Attempt] {
        let next = self.progress.next
        guard next < self.recordCount else { return [] }
        self.take(min(count, self.recordCount - next))
        return self.queue.filter { ($0.records.numbers.first ?? 0) >= next }
    }

    /// Records that these attempts are about to be sent.
    ///
    /// - Parameter counted: those of their records that would count twice if they were sent again.
    package mutating func announce(_ attempts: [Attempt], counted: RecordSet) {
        self.queue.removeAll { attempts.contains($0) }
        self.inFlight += attempts
        self.countedInFlight = self.countedInFlight.union(counted)
    }

    /// Splits an attempt with more records than a request can have into two.
    package mutating func halve(_ attempt: Attempt) {
        self.queue.removeAll { $0 == attempt }
        self.requeueHalves(attempt.records)
    }

    /// Gives up records that may no longer be sent; ``setDead(eventCount:byteCount:)`` follows.
    package mutating func giveUp(_ records: RecordSet, in attempt: Attempt) {
        self.queue.removeAll { $0 == attempt }
        self.requeue(attempt.records.subtracting(records))
    }

    /// Records that `eventCount` more events are in the dead letters, which are now `byteCount` long.
    package mutating func setDead(eventCount: Int, byteCount: Int) {
        self.progress.deadEventCount += eventCount
        self.progress.deadByteCount = byteCount
    }

    /// Records that `eventCount` more events were accepted.
    package mutating func setSent(eventCount: Int) {
        self.progress.sentEventCount += eventCount
    }

    /// Applies the outcome of one attempt.
    ///
    /// - Returns: the accepted records, and those that are given up.
    package mutating func answered(
        _ attempt: Attempt, _ verdict: Verdict, at now: MonotonicTime, wallTime: WallTime
    ) -> (accepted: RecordSet, givenUp: [GivenUpRecord]) {
        self.inFlight.removeAll { $0 == attempt }
        let records = attempt.records
        let repeatable = records.subtracting(self.countedInFlight)
        self.countedInFlight = self.countedInFlight.subtracting(records)
        switch verdict {
        case .accepted:
            self.succeed()
            return (records, [])
        case .partly(let refusals):
            self.succeed()
            let givenUp = self.rejected(refusals, in: records)
            return (records.subtracting(RecordSet(givenUp.map(\.number))), givenUp)
        case .refusedSome(let refusals):
            self.backoff.succeed()
            var givenUp = self.rejected(refusals, in: records)
            let rest = records.subtracting(RecordSet(givenUp.map(\.number)))
            // No provider says whether it took the others.
            givenUp += self.lost(rest.subtracting(repeatable), "the provider refused other records of the request")
            self.requeue(rest.subtracting(RecordSet(givenUp.map(\.number))))
            return (RecordSet(), givenUp)
        case .refusedWhole(let detail):
            self.backoff.succeed()
            guard records.count == 1 else {
                self.requeueHalves(records)
                return (RecordSet(), [])
            }
            self.unexplainedRefusalCount += 1
            if self.unexplainedRefusalCount >= Self.unexplainedRefusalCountMax {
                self.stopReason = self.stopReason ?? .everythingRefused(detail: detail)
            }
            return (RecordSet(), self.rejected([RecordRefusal(position: 0, detail: detail)], in: records))
        case .tooLarge(let detail):
            self.backoff.succeed()
            guard records.count == 1 else {
                self.requeueHalves(records)
                return (RecordSet(), [])
            }
            return (RecordSet(), self.rejected([RecordRefusal(position: 0, detail: detail)], in: records))
        case .throttled(let positions, let exhausted, let pause):
            self.throttle(records, positions, exhausted, pause: pause, at: now, wallTime)
        case .later(let after, _):
            self.sendLater(records, after, at: now)
        case .ambiguous(let detail, let after):
            let lost = self.lost(records.subtracting(repeatable), detail)
            let rest = records.subtracting(RecordSet(lost.map(\.number)))
            if !rest.isEmpty { self.sendLater(rest, after, at: now) }
            return (RecordSet(), lost)
        case .stop(let reason):
            self.requeue(records)
            self.stopReason = self.stopReason ?? reason
        }
        return (RecordSet(), [])
    }

    private mutating func succeed() {
        self.backoff.succeed()
        self.unexplainedRefusalCount = 0
    }

    private func rejected(_ refusals: [RecordRefusal], in records: RecordSet) -> [GivenUpRecord] {
        refusals.map {
            GivenUpRecord(
                number: records.numbers[$0.position], reason: .rejected, detail: $0.detail, field: $0.field)
        }
    }

    /// The records to give up because they may have been accepted; none if the operator wants them again.
    private func lost(_ records: RecordSet, _ detail: String) -> [GivenUpRecord] {
        guard self.policy == .skip else { return [] }
        return records.numbers.map { GivenUpRecord(number: $0, reason: .ambiguous, detail: detail) }
    }

    private mutating func sendLater(_ records: RecordSet, _ after: Duration?, at now: MonotonicTime) {
        let pause = max(after ?? .zero, self.backoff.fail())
        self.pausedUntil = max(self.pausedUntil ?? now, now + pause)
        self.requeue(records)
    }

    private mutating func throttle(
        _ records: RecordSet, _ positions: [Int], _ exhausted: [Int], pause: Duration, at now: MonotonicTime,
        _ wallTime: WallTime
    ) {
        let throttled = records.members(at: positions)
        let held = records.members(at: exhausted)
        if !held.isEmpty {
            self.progress.held = self.progress.held.union(held)
            let day: Int64 = 86_400_000
            self.progress.heldUntil = max(self.progress.heldUntil, (wallTime.milliseconds / day + 1) * day)
        }
        let free = records.subtracting(throttled).subtracting(held)
        if !throttled.isEmpty {
            self.queue.insert(Attempt(records: throttled, notBefore: now + pause), at: 0)
        }
        self.requeue(free)
    }

    // MARK: The queue

    private mutating func enqueue(_ records: RecordSet) {
        self.queue += records.chunks(of: self.rules.facts.recordsPerRequestMax).map {
            Attempt(records: $0, notBefore: nil)
        }
    }

    /// Puts records before all others, so that they keep their order.
    private mutating func requeue(_ records: RecordSet) {
        guard let first = records.numbers.first else { return }
        let place = self.queue.firstIndex { ($0.records.numbers.first ?? 0) > first } ?? self.queue.endIndex
        self.queue.insert(Attempt(records: records, notBefore: nil), at: place)
    }

    private mutating func requeueHalves(_ records: RecordSet) {
        let (first, second) = records.halves
        self.requeue(first)
        self.requeue(second)
    }
}
