internal import WaybillData
internal import WaybillProjection
internal import WaybillReceiver
internal import WaybillSystem
internal import WaybillTestSupport

/// When a projection wants to continue.
enum ProjectionTurn: Comparable {
    case now
    case at(MonotonicTime)
    case later
}

protocol ProjectionDriver: AnyObject {
    /// What its next turn was scheduled for.
    var scheduled: ProjectionTurn? { get set }
    var scheduleCount: Int { get set }
    /// How many milliseconds it takes for a batch.
    var delay: ClosedRange<Int> { get }
    func need(_ feed: JournalFeed, _ now: MonotonicTime) -> ProjectionTurn
    func act(_ feed: JournalFeed, _ now: MonotonicTime)
    func isIdle(_ feed: JournalFeed) -> Bool
    var isRecovering: Bool { get }
    var state: String { get }
    func finish(_ feed: JournalFeed)
}

final class GroupDriver<Output: Projection & ~Copyable>: ProjectionDriver {
    private var group: ProjectionGroup<FaultyFiles, Output>
    var scheduled: ProjectionTurn?
    var scheduleCount = 0
    let delay: ClosedRange<Int>

    /// The feed waits on the real clock; for it this has passed.
    private static var passed: MonotonicTime { MonotonicTime(nanoseconds: 1) }

    init(_ group: consuming ProjectionGroup<FaultyFiles, Output>, delay: ClosedRange<Int>) {
        self.group = group
        self.delay = delay
    }

    func need(_ feed: JournalFeed, _ now: MonotonicTime) -> ProjectionTurn {
        switch self.group.need {
        case .next(let position, let deadline):
            if feed.next(after: position, until: Self.passed) != nil { return .now }
            return deadline.map { .at($0) } ?? .later
        case .recover(let at): return at <= now ? .now : .at(at)
        case .finished: return .later
        }
    }

    func act(_ feed: JournalFeed, _ now: MonotonicTime) {
        switch self.group.need {
        case .next(let position, let deadline):
            let next = feed.next(after: position, until: Self.passed)
            let isDue = deadline.map { $0 <= now } ?? false
            if next != nil || isDue { self.take(next, after: position, feed) }
        case .recover(let at): if at <= now { self.group.recover(dueBy: now) }
        case .finished: break
        }
    }

    private func take(_ next: JournalFeed.Next?, after position: JournalPosition, _ feed: JournalFeed) {
        self.group.take(next, isCaughtUp: next != nil || !feed.hasMore(after: position))
    }

    var isRecovering: Bool {
        if case .recover = self.group.need { true } else { false }
    }

    var state: String { "\(self.group.need), scheduled for \(String(describing: self.scheduled))" }

    func isIdle(_ feed: JournalFeed) -> Bool {
        switch self.group.need {
        case .next(let position, _):
            return self.group.isSettled && feed.next(after: position, until: Self.passed) == nil
        case .recover: return false
        case .finished: return true
        }
    }

    func finish(_ feed: JournalFeed) {
        var isRecovered = false
        while true {
            switch self.group.need {
            case .next(let position, _):
                self.take(feed.next(after: position, until: Self.passed), after: position, feed)
            case .recover(let at):
                // Who stops does not wait for a disk to become good.
                if isRecovered { self.group.giveUp() } else { self.group.recover(dueBy: at) }
                isRecovered = true
            case .finished: return
            }
        }
    }
}
