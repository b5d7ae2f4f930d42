internal import WaybillEvent
package import WaybillExport
internal import WaybillHost
package import WaybillSystem

/// How one of a process's deliveries is doing: what it sent since the start, what waits, and what hinders it.
///
///     started ─▶ up ◀──▶ backing off        the provider throttles, fails or does not answer
///                │ ▲
///                ▼ │ tried again later, or after a reload
///          refused, failed                   credentials, endpoint, quota; files and options
///
/// A value without clock and file: ``DeliveryService`` tells it what happened and when.
package struct DeliveryProgress: Hashable, Sendable {
    /// What a delivery does now.
    package enum Condition: Hashable, Sendable {
        case up
        /// The provider cannot be reached or accepts nothing for the moment; nothing is lost.
        case backingOff(detail: String)
        /// The provider refuses; an operator must act.
        case refused(detail: String)
        /// It cannot start or continue for another reason; an operator must act.
        case failed(detail: String)

        /// Its name in metrics and in the status.
        package var name: Name {
            switch self {
            case .up: .up
            case .backingOff: .backingOff
            case .refused: .refused
            case .failed: .failed
            }
        }

        package enum Name: String, Hashable, Sendable, CaseIterable {
            case up
            case backingOff = "backing-off"
            case refused, failed
        }
    }

    /// What an operator must look at.
    package struct Problem: Hashable, Sendable {
        /// One of a closed set.
        package enum Code: String, Hashable, Sendable, CaseIterable {
            /// Something is not sent until an operator acts; the provider has no part in it.
            case nothingSent = "nothing-sent"
            /// The provider refuses credentials, address, quota or every record.
            case providerRefused = "provider-refused"
            /// The provider cannot be reached or asks to wait.
            case providerWaiting = "provider-waiting"
            /// The bucket does not say which merger sends what.
            case bucketWaiting = "bucket-waiting"
            /// Another merger holds parts and does not finish them.
            case heldElsewhere = "held-elsewhere"
        }

        package let code: Code
        package let delivery: String
        package let text: String

        /// As `/readyz` has it.
        package var line: String { "\(self.code.rawValue): \(self.delivery): \(self.text)" }
    }

    package let name: String
    package let provider: DeliverableProvider
    package private(set) var condition = Condition.up
    /// The sums of runs that have ended.
    private var ended = DeliveryReport()
    private var current = DeliveryReport()
    private var backoff: Backoff

    /// The first wait before a delivery that ended is started again.
    private static let retryShortest = Duration.seconds(5)

    package init(_ name: String, _ provider: DeliverableProvider, retryLongest: Duration, seed: UInt64) {
        self.name = name
        self.provider = provider
        self.backoff = Backoff(
            from: min(Self.retryShortest, retryLongest), to: retryLongest, SeededGenerator(seed: seed))
    }

    package static func == (left: Self, right: Self) -> Bool {
        left.name == right.name && left.provider == right.provider && left.condition == right.condition
            && left.ended == right.ended && left.current == right.current
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(self.name)
        hasher.combine(self.current)
    }

    // MARK: What happens

    /// The delivery reports what it has done since it started.
    package mutating func observed(_ report: DeliveryReport) {
        self.current = report
        if let trouble = report.trouble {
            self.condition = .backingOff(detail: trouble)
        } else if report.lastSuccess != nil || self.waitingEventCount == 0 || !self.needsOperator {
            self.condition = .up
            if report.lastSuccess != nil { self.backoff.succeed() }
        }
    }

    /// The delivery has ended by itself.
    ///
    /// - Returns: how long to wait before it starts again; `nil` to wait for a changed configuration.
    package mutating func stopped(_ stop: DeliveryStop, _ report: DeliveryReport) -> Duration? {
        self.add(report)
        switch stop {
        case .credentials(let detail):
            self.condition = .refused(detail: "the provider refuses the credentials (\(detail)); correct them")
        case .endpoint(let detail):
            self.condition = .refused(
                detail: "the endpoint is not the provider's (\(detail)); correct endpoint or region")
        case .quota(let detail):
            self.condition = .refused(
                detail: "the account's quota is used up (\(detail)); it is tried again from time to time")
        case .everythingRefused(let detail):
            // Each further attempt would cost as many records as it takes to find that out.
            self.condition = .refused(
                detail: "the provider refuses one record after the other (\(detail)); they are in the dead letters. "
                    + "Find out why, then reload the configuration")
            return nil
        }
        return self.backoff.failForLong()
    }

    /// The delivery could not start or continue.
    ///
    /// - Returns: how long to wait before it starts again.
    package mutating func failed(_ detail: String) -> Duration {
        self.add(self.current)
        self.condition = .failed(detail: detail)
        return self.backoff.fail()
    }

    /// Adds a run that ended; what waits stays as it was counted last.
    private mutating func add(_ report: DeliveryReport) {
        self.ended.requestCount += report.requestCount
        self.ended.retryCount += report.retryCount
        self.ended.sentCount += report.sentCount
        self.ended.dead.merge(report.dead, uniquingKeysWith: +)
        self.ended.lastSuccess = report.lastSuccess ?? self.ended.lastSuccess
        self.current = report
        self.current.requestCount = 0
        self.current.retryCount = 0
        self.current.sentCount = 0
        self.current.dead = [:]
        self.current.trouble = nil
    }

    /// Continues the counts of a delivery of the same name that ended before this one started.
    package mutating func inherit(_ former: DeliveryProgress) {
        self.ended = former.ended
        self.current = former.current
        self.add(former.current)
    }

    // MARK: What is known

    /// Whether it was refused or failed, and nothing has succeeded since.
    private var needsOperator: Bool {
        switch self.condition {
        case .refused, .failed: true
        case .up, .backingOff: false
        }
    }

    package var sentEventCount: Int { self.ended.sentCount + self.current.sentCount }
    package var requestCount: Int { self.ended.requestCount + self.current.requestCount }
    package var retriedRequestCount: Int { self.ended.retryCount + self.current.retryCount }
    /// Events of closed parts that are neither sent nor given up, including those that wait for another day.
    package var waitingEventCount: Int { self.current.remainingCount + self.current.heldCount }
    package var openRecordCount: Int { self.current.open.recordCount + self.current.open.closingRecordCount }
    /// Who sends the parts that are not delivered; `nil` outside a fleet.
    package var claims: ClaimCounts? { self.current.claims }
    package var lastSuccess: WallTime? { self.current.lastSuccess ?? self.ended.lastSuccess }

    /// Events that were given up, by reason.
    package func refusedEventCount(_ reason: GivenUpRecord.Reason) -> Int {
        let key = "\(self.provider.rawValue).\(reason.rawValue)"
        return self.ended.dead[key, default: 0] + self.current.dead[key, default: 0]
    }

    /// The age of the oldest event that was not sent, in whole seconds; `nil` if none is known.
    ///
    /// In closed parts it is the event's own time; in open ones, which do not say it, the time of receipt.
    package func oldestUnsentSeconds(at now: WallTime) -> Int? {
        let times = [self.current.oldestClosed, self.current.open.oldest].compactMap(\.self)
        return times.min().map { Int(max(0, now.milliseconds - $0.milliseconds) / 1000) }
    }

    package var problems: [Problem] {
        var problems: [Problem] = []
        func add(_ code: Problem.Code, _ text: String) {
            problems.append(Problem(code: code, delivery: self.name, text: text))
        }
        switch self.condition {
        case .up: break
        case .backingOff(let detail): add(.providerWaiting, "\(detail); it is tried again, and nothing is lost")
        case .refused(let detail): add(.providerRefused, detail)
        case .failed(let detail): add(.nothingSent, detail)
        }
        for env in self.current.envsWithoutCredentials {
            let names = self.provider.facts.credentials.map { $0.variable(env) }.joined(separator: ", ")
            add(.nothingSent, "\(env.rawValue) has no credentials and is left out: set \(names)")
        }
        if let part = self.current.damagedParts.first {
            add(
                .nothingSent,
                "\(self.current.damagedParts.count) parts are damaged and not sent, \(part) first; waybill replay "
                    + "regenerates them")
        }
        if let detail = self.current.claimTrouble {
            add(.bucketWaiting, "\(detail); parts wait until the bucket says who sends them, and nothing is lost")
        }
        if let claims = self.current.claims {
            if claims.damaged > 0 {
                add(
                    .nothingSent,
                    "the claims of \(claims.damaged) parts cannot be read (\(Notice.claimDamaged.id)); find out who changed "
                        + "the bucket, then run waybill deliver --config FILE --take-over \(PartClaim.damagedName)")
            }
            for held in claims.overdue {
                add(
                    .heldElsewhere,
                    "the merger \(held.merger) holds \(held.partCount) parts for \(held.seconds / 60) min and does not finish "
                        + "them; start it, or if it is gone for good: waybill deliver --config FILE --take-over "
                        + held.merger)
            }
        }
        if let day = self.current.doubtfulDays.first {
            add(
                .nothingSent,
                "\(self.current.doubtfulDays.count) days may have been sent before the directory was restored, \(day) "
                    + "first; waybill deliver --sent-before decides")
        }
        if let day = self.current.remadeDays.first {
            add(
                .nothingSent,
                "\(self.current.remadeDays.count) days were regenerated after some of their events were sent, \(day) "
                    + "first; force: true sends them again")
        }
        return problems
    }
}
