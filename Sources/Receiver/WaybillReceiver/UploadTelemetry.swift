internal import Logging
internal import WaybillData
internal import WaybillFleet
internal import WaybillHost
internal import WaybillJSON
internal import WaybillSystem

/// What goes into the bucket.
final class UploadTelemetry: Sendable {
    /// How the uploader stands; `nil` in a receiver without a bucket.
    struct Standing: Sendable {
        var chain: String
        /// Everything before it is in the bucket.
        var stored: JournalPosition
        var outcomes: [Outcome: Int] = [:]
        var byteCount = 0
        /// Why the last attempt failed; `nil` while it works.
        var failure: String?
        /// What the bucket lacks, since when.
        var waiting = JournalAges()
    }

    /// What happened to a piece that was given to the bucket.
    enum Outcome: String, CaseIterable {
        case created
        /// The bucket had the same bytes.
        case present
        /// It had others: another chain was begun.
        case foreign
        case failed
    }

    private let upload = Lock<Standing?>(nil)
    private let times = DurationHistogram(.delivery)
    private let host: HostTelemetry
    private var logger: Logger { self.host.logger }
    private var clock: any SystemClock { self.host.clock }

    init(_ host: HostTelemetry) {
        self.host = host
    }

    /// - Parameter end: the position up to which the journal is durable.
    func started(_ chain: String, at position: JournalPosition, journalEnd end: JournalPosition) {
        let now = self.clock.monotonicTime()
        self.upload.withLock { upload in
            var standing = Standing(chain: chain, stored: position)
            if position < end { standing.waiting.reached(end, at: now) }
            upload = standing
        }
        self.logger.info(
            "the journal goes to the bucket", metadata: ["chain": "\(chain)", "position": .number(position.rawValue)])
    }

    /// The journal is durable up to here, from now on.
    func reached(_ end: JournalPosition) {
        let now = self.clock.monotonicTime()
        self.upload.withLock { $0?.waiting.reached(end, at: now) }
    }

    func uploaded(byteCount: Int, _ creation: Creation, upTo end: JournalPosition, took: Duration) {
        self.times.add(took)
        self.upload.withLock { upload in
            upload?.stored = end
            upload?.waiting.passed(end)
            upload?.byteCount += byteCount
            upload?.failure = nil
            let outcome: Outcome =
                switch creation {
                case .created: .created
                case .present: .present
                }
            upload?.outcomes[outcome, default: 0] += 1
        }
    }

    func failed(_ failure: UploadFailure, attempt: Int, retryingIn pause: Duration) {
        let code = failure.code
        self.upload.withLock { upload in
            upload?.outcomes[.failed, default: 0] += 1
            upload?.failure = code
        }
        guard RepeatedFailure.isTold(attempt) else { return }
        self.logger.error(
            .uploadFailed,
            "the bucket did not take a piece of the journal; nothing is lost, the journal keeps it, and it is tried again",
            metadata: [
                "cause": "\(failure)", "code": "\(code)", "attempt": .number(attempt), "retry_in_s": .seconds(pause),
            ])
    }

    func recovered(afterAttempts count: Int) {
        self.logger.info("the bucket takes the journal again", metadata: ["attempts": .number(count)])
    }

    func diverged(at position: JournalPosition, from former: String, to chain: String) {
        self.upload.withLock { upload in
            upload?.chain = chain
            upload?.outcomes[.foreign, default: 0] += 1
        }
        self.logger.warning(
            .chainDiverged,
            "the bucket has other bytes under this receiver's name; the journal continues there under another",
            metadata: ["former": "\(former)", "chain": "\(chain)", "position": .number(position.rawValue)])
    }

    func addMetrics(
        _ journalEnd: JournalPosition, _ requests: MeteredStore.Counts, to page: inout MetricsPage
    ) {
        guard let upload = self.upload.withLock({ $0 }) else { return }
        page.add(.puts, by: Outcome.self) { upload.outcomes[$0] ?? 0 }
        page.add(.putBytes, upload.byteCount)
        page.add(.putTime, self.times)
        page.add(.storedJournal, upload.stored.rawValue)
        page.add(.unstoredJournal, max(0, journalEnd.rawValue - upload.stored.rawValue))
        page.add(
            .unstoredTime, Double(upload.waiting.oldest(at: self.clock.monotonicTime()).nanoseconds) / 1e9)
        page.addRequests(requests)
    }

    /// Writes the bucket's part of the status.
    func write(_ journalEnd: JournalPosition, to json: inout JSONWriter) {
        guard let upload = self.upload.withLock({ $0 }) else { return }
        json.member("store") { json in
            json.member("chain", upload.chain)
            json.member("stored", upload.stored.rawValue)
            json.member("unstored_bytes", max(0, journalEnd.rawValue - upload.stored.rawValue))
            json.member(
                "unstored_seconds",
                Int(upload.waiting.oldest(at: self.clock.monotonicTime()).nanoseconds / 1_000_000_000))
            json.member("error", upload.failure)
        }
    }

    /// Why the bucket does not take the journal; `nil` while it does, or soon may.
    var problem: String? {
        guard let upload = self.upload.withLock({ $0 }), let failure = upload.failure else { return nil }
        let seconds = upload.waiting.oldest(at: self.clock.monotonicTime()).nanoseconds / 1_000_000_000
        return "the bucket does not take the journal (\(failure)), which has waited for \(seconds) s: lines are "
            + "acknowledged, and agents keep what the bucket lacks"
    }
}

/// Since when the bytes of a journal are durable, in bounded memory: for the age of the oldest one that waits.
///
///     ends of groups    |--- 12:00:01 ---|--- 12:00:02 ---|- 12:00:09 -|
///     stored                     ▲  the oldest byte that waits is durable since 12:00:01
///
/// When there are many, two neighbours become one with the earlier time: an age is never too small.
struct JournalAges: Sendable {
    private struct Group: Sendable {
        let end: JournalPosition
        let time: MonotonicTime
    }

    static let groupCountMax = 512

    private var groups: [Group] = []

    /// How many are remembered.
    var groupCount: Int { self.groups.count }

    /// The journal is durable up to `end`, since `time`.
    mutating func reached(_ end: JournalPosition, at time: MonotonicTime) {
        if let last = self.groups.last, last.end >= end { return }
        self.groups.append(Group(end: end, time: time))
        guard self.groups.count > Self.groupCountMax else { return }
        self.groups = stride(from: 0, to: self.groups.count, by: 2).map { index in
            let last = min(index + 1, self.groups.count - 1)
            return Group(end: self.groups[last].end, time: self.groups[index].time)
        }
    }

    /// Nothing before `position` waits any more.
    mutating func passed(_ position: JournalPosition) {
        self.groups.removeAll { $0.end <= position }
    }

    /// How long the oldest byte has waited; zero if none waits.
    func oldest(at now: MonotonicTime) -> Duration {
        self.groups.first.map { max(.zero, now - $0.time) } ?? .zero
    }
}
