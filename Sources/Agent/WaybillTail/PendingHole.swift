internal import WaybillSystem

/// NULs before the next line of a file, until they are skipped, or are known to be data.
///
///     measured ─▶ a whole line follows ─▶ 5 s, a new open ─▶ measured again ─▶ the same: skipped
///        ▲  └──▶ no whole line yet: waits for more          └─▶ others: from the start
///        └─────────────────────────────────────────────────────────┘
struct PendingHole: Hashable {
    /// How long NULs must stay what they are.
    static let patience = Duration.seconds(5)
    /// The same where not every change is seen: a network's file system may show NULs in place of what it has not got yet.
    static let patienceWithoutHints = Duration.seconds(30)

    /// What the file looks like after the NULs.
    struct Found: Hashable {
        let end: Int
        /// The line that follows, or its beginning.
        let line: Fingerprint
        let at: MonotonicTime
    }

    private enum State: Hashable {
        case measuring
        case waiting
        case checking
        /// No hole: NULs that no line follows, or too few.
        case data
    }

    let offset: Int
    /// The offset up to which everything was found to be NUL.
    var scanned: Int
    private(set) var found: Found?
    private var state = State.measuring

    init(offset: Int) {
        self.offset = offset
        self.scanned = offset
    }

    /// The offset up to which everything is known to be NUL.
    var end: Int { max(self.scanned, self.found?.end ?? 0) }

    func isData(at cursor: Int) -> Bool { self.state == .data && self.offset == cursor }

    func isWaiting(at cursor: Int) -> Bool { self.state == .waiting && self.offset == cursor }

    /// How many of the bytes from an offset to another one are NULs of this hole.
    func byteCount(within offset: Int, _ end: Int) -> Int {
        guard self.state != .data else { return 0 }
        return max(0, min(self.end, end) - max(self.offset, offset))
    }

    /// A whole line follows.
    ///
    /// - Returns: whether that was so before the wait, too.
    mutating func measured(_ found: Found) -> Bool {
        if self.state == .checking, self.found?.end == found.end, self.found?.line == found.line { return true }
        self.found = found
        self.state = .waiting
        return false
    }

    /// No whole line follows yet.
    mutating func endsOpen() {
        self.found = nil
        self.state = .measuring
    }

    /// It is skipped; should the receiver not take that, it waits again.
    mutating func skipped() { self.state = .measuring }

    mutating func becomesData() { self.state = .data }

    /// Looks at everything again.
    mutating func beginCheck() {
        self.scanned = self.offset
        self.state = .checking
    }

    func isDue(_ now: MonotonicTime, _ patience: Duration) -> Bool {
        self.found.map { now - $0.at >= patience } ?? true
    }
}
