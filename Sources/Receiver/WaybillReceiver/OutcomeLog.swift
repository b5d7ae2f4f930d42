internal import WaybillExport
internal import WaybillSystem

/// Decides when to log what happened to the lines of one projection: the first at once, then each outcome once in a while.
///
/// What an operator must look at is told once a minute, what was asked for once an hour.
struct OutcomeLog {
    /// The outcomes of one kind.
    private struct Window {
        let interval: Duration
        let isUsual: Bool
        var census = OutcomeCensus()
        var next = MonotonicTime(nanoseconds: 0)

        /// When there is something to tell, and it may be told.
        var deadline: MonotonicTime? { self.reports.isEmpty ? nil : self.next }

        private var reports: [OutcomeReport] {
            self.census.reports.filter { $0.outcome.isUsual == self.isUsual }
        }

        mutating func take(_ now: MonotonicTime) -> [OutcomeReport] {
            guard self.next <= now else { return [] }
            let reports = self.reports
            // Shares are of the lines since the last time there was something to tell, or since the last checkpoint.
            self.census = OutcomeCensus()
            if !reports.isEmpty { self.next = now + self.interval }
            return reports
        }
    }

    private var windows = [
        Window(interval: .seconds(60), isUsual: false), Window(interval: .seconds(3600), isUsual: true),
    ]
    /// When ``take(_:)`` returns something if nothing else happens.
    private(set) var deadline: MonotonicTime?

    mutating func add(_ census: OutcomeCensus) {
        guard !census.isEmpty else { return }
        for index in self.windows.indices { self.windows[index].census.add(census) }
        self.plan()
    }

    /// Returns what is to be logged now.
    mutating func take(_ now: MonotonicTime) -> [OutcomeReport] {
        var reports: [OutcomeReport] = []
        for index in self.windows.indices { reports += self.windows[index].take(now) }
        self.plan()
        return reports
    }

    /// Returns what was not logged yet.
    mutating func finish() -> [OutcomeReport] {
        for index in self.windows.indices { self.windows[index].next = MonotonicTime(nanoseconds: 0) }
        return self.take(MonotonicTime(nanoseconds: 0))
    }

    private mutating func plan() {
        self.deadline = self.windows.compactMap(\.deadline).min()
    }
}
