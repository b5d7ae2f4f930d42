package import WaybillSystem

/// Parts that this merger does not send because of what the bucket says of them, and when to look at each again.
///
/// A value without clock and bucket: the first look at a part comes at once, the next after 5 s, 10 s … 5 minutes.
package struct ElsewhereParts: Sendable {
    package struct Entry: Hashable, Sendable {
        /// Who sends it; `nil` for a claim that cannot be read.
        package var holder: ClaimHolder?
        package var link: Int
        /// When this holder was found first.
        package let since: MonotonicTime
        fileprivate var wait: Duration
        fileprivate var nextLook: MonotonicTime
    }

    /// One that is held for long, with nothing finished.
    package struct Overdue: Hashable, Sendable {
        package let merger: String
        package let partCount: Int
        package let seconds: Int
    }

    private var entries: [String: Entry] = [:]

    private static let waitShortest = Duration.seconds(5)
    private static let waitLongest = Duration.seconds(300)
    /// A part that takes longer is reported.
    package static let patience = Duration.seconds(1800)

    package init() {}

    /// Parts that others hold, and parts of which that is unknown.
    package var count: Int { self.entries.count }
    package var damagedCount: Int { self.entries.values.count { $0.holder == nil } }

    package subscript(part: String) -> Entry? { self.entries[part] }

    /// Whether the bucket has to be asked about a part.
    package func isDue(_ part: String, at now: MonotonicTime) -> Bool {
        self.entries[part].map { $0.nextLook <= now } ?? true
    }

    /// Another one holds the part, or it is unknown who does.
    ///
    /// - Returns: whether that is new.
    @discardableResult
    package mutating func note(
        _ part: String, _ holder: ClaimHolder?, link: Int, at now: MonotonicTime
    ) -> Bool {
        if var entry = self.entries[part], entry.holder == holder, entry.link == link {
            entry.wait = min(Self.waitLongest, entry.wait * 2)
            entry.nextLook = now + entry.wait
            self.entries[part] = entry
            return false
        }
        self.entries[part] = Entry(
            holder: holder, link: link, since: now, wait: Self.waitShortest, nextLook: now + Self.waitShortest)
        return true
    }

    package mutating func remove(_ part: String) {
        self.entries[part] = nil
    }

    /// Forgets parts that are not pending any more.
    package mutating func keep(only parts: Set<String>) {
        guard !self.entries.isEmpty else { return }
        self.entries = self.entries.filter { parts.contains($0.key) }
    }

    /// Who has held parts for longer than ``patience``, the one with the oldest first.
    package func overdue(at now: MonotonicTime) -> [Overdue] {
        var found: [String: (count: Int, since: MonotonicTime)] = [:]
        for entry in self.entries.values where now - entry.since >= Self.patience {
            let merger = entry.holder?.merger ?? PartClaim.damagedName
            let former = found[merger] ?? (0, entry.since)
            found[merger] = (former.count + 1, min(former.since, entry.since))
        }
        return found.sorted { ($0.value.since, $0.key) < ($1.value.since, $1.key) }.map { merger, value in
            Overdue(
                merger: merger, partCount: value.count,
                seconds: Int((now - value.since).components.seconds))
        }
    }
}
