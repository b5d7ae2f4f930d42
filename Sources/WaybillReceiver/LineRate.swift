internal import WaybillSystem

/// Lines a second over about the last ten seconds; it changes with each batch, and costs nothing meanwhile.
///
///        before            now
///     ├──────────────┼───────────┤- - -┤        10 s each
///            └── the last 10 s ──┘              of `before`, the share that is still in them
struct LineRate: Hashable, Sendable {
    static let windowMilliseconds: Int64 = 10_000

    private var window: Int64 = 0
    private var count = 0
    private var countBefore = 0

    mutating func add(_ count: Int, at time: WallTime) {
        let window = time.milliseconds / Self.windowMilliseconds
        if window != self.window {
            self.countBefore = window == self.window + 1 ? self.count : 0
            self.count = 0
            self.window = window
        }
        self.count += count
    }

    func perSecond(at time: WallTime) -> Int {
        let window = time.milliseconds / Self.windowMilliseconds
        let elapsed = time.milliseconds - window * Self.windowMilliseconds
        let (count, before) =
            switch window - self.window {
            case 0: (self.count, self.countBefore)
            case 1: (0, self.count)
            default: (0, 0)
            }
        let rest = Double(Self.windowMilliseconds - elapsed) / Double(Self.windowMilliseconds)
        return Int(((Double(count) + Double(before) * rest) * 1000 / Double(Self.windowMilliseconds)).rounded())
    }
}
