internal import WaybillJournal
internal import WaybillSystem

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
