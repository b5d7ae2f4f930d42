package import WaybillSystem

/// Lets one line of a cause through in a minute, and counts the others.
///
/// A cause is an identifier and the object concerned. The first line is written at once. While its minute runs, the
/// next ones are counted, and the newest of them is kept. It is written when the minute is over, with how many there
/// were; another minute begins. At most ``causeCountMax`` causes are remembered: lines of further ones share a cause for
/// each identifier.
package struct NoticeLimiter<Line: Sendable>: Sendable {
    /// A line to write, and how many like it were left out before it.
    package struct Told: Sendable {
        package let line: Line
        package let repeatedCount: Int
    }

    private struct Cause: Hashable {
        let notice: Notice
        /// `nil`: all objects above ``causeCountMax``.
        let object: String?
    }

    private struct Minute {
        var end: MonotonicTime
        var newest: Line?
        var count = 0
    }

    package static var interval: Duration { .seconds(60) }
    package static var causeCountMax: Int { 1024 }

    private var minutes: [Cause: Minute] = [:]
    /// No minute with something to tell ends before.
    private var due: MonotonicTime?

    package init() {}

    /// How many causes are remembered, for tests.
    package var causeCount: Int { self.minutes.count }

    /// Returns the line if it is to be written now; before that, what other causes have to tell.
    package mutating func take(_ line: Line, _ notice: Notice, _ object: String, at now: MonotonicTime) -> [Told] {
        let told = self.takeDue(at: now)
        let cause = self.cause(notice, object, now)
        guard var minute = self.minutes[cause], now < minute.end else {
            self.minutes[cause] = Minute(end: now + Self.interval)
            return told + [Told(line: line, repeatedCount: 0)]
        }
        minute.newest = line
        minute.count += 1
        self.minutes[cause] = minute
        self.due = min(self.due ?? minute.end, minute.end)
        return told
    }

    /// Returns what was left out in minutes that are over.
    package mutating func takeDue(at now: MonotonicTime) -> [Told] {
        guard let due, due <= now else { return [] }
        return self.takeAll(endingBy: now, at: now)
    }

    /// Returns everything that was left out.
    package mutating func finish(at now: MonotonicTime) -> [Told] {
        self.takeAll(endingBy: nil, at: now)
    }

    private mutating func takeAll(endingBy end: MonotonicTime?, at now: MonotonicTime) -> [Told] {
        var told: [(MonotonicTime, Told)] = []
        self.due = nil
        for (cause, minute) in self.minutes {
            guard let newest = minute.newest else { continue }
            if let end, end < minute.end {
                self.due = min(self.due ?? minute.end, minute.end)
                continue
            }
            told.append((minute.end, Told(line: newest, repeatedCount: minute.count)))
            self.minutes[cause] = Minute(end: now + Self.interval)
        }
        return told.sorted { $0.0 < $1.0 }.map(\.1)
    }

    private mutating func cause(_ notice: Notice, _ object: String, _ now: MonotonicTime) -> Cause {
        let cause = Cause(notice: notice, object: object)
        if self.minutes[cause] != nil || self.minutes.count < Self.causeCountMax { return cause }
        self.minutes = self.minutes.filter { $0.value.newest != nil || now < $0.value.end }
        return self.minutes.count < Self.causeCountMax ? cause : Cause(notice: notice, object: nil)
    }
}
