internal import WaybillSystem

/// Something that may be deleted as a whole.
struct RetainedItem: Hashable {
    let part: RetainedPart
    /// Below the data directory.
    let path: String
    /// When its age begins: the end of its day, or the last change of a file.
    let end: WallTime
    let lineCount: Int
    /// Its approximate size on disk.
    let byteCount: Int
    /// The app, for a day of the archive; as in the name of its folder.
    var bundle: String?
}

/// Decides what to delete; accesses no disk.
///
///     items, oldest first ─▶ older than its part's days?      age    ┐ and delivered, if the policy
///                            its app's, its part's size over? bytes  ┘ asks for it ─▶ deleted, else kept
///                            else ─▶ rest ─▶ one after another while too little space is free
struct RetentionPlan {
    /// What to delete because of its age or the total size, oldest first.
    private(set) var deletions: [Deletion] = []
    /// What to keep because it is not delivered, oldest first.
    private(set) var kept: [Deletion] = []
    /// The sealed days that no limit deletes, oldest first: a lack of space may.
    private(set) var rest: [RetainedItem] = []

    private let policy: RetentionPolicy
    /// The limits of apps, by the name of the app's folder.
    private let apps: [String: RetentionLimit]
    private var partByteCounts: [RetainedPart: Int] = [:]
    private var appByteCounts: [String: Int] = [:]

    /// - Parameters:
    ///   - apps: the limits of apps, by the name of the app's folder.
    ///   - isDelivered: asked only about what a limit would delete.
    init(
        _ policy: RetentionPolicy, _ items: [RetainedItem], apps: [String: RetentionLimit] = [:], now: WallTime,
        isDelivered: (RetainedItem) throws(FileSystemError) -> Bool = { (_) throws(FileSystemError) in true }
    ) throws(FileSystemError) {
        self.policy = policy
        self.apps = apps
        for item in items { self.add(item, byteCount: item.byteCount) }
        for item in items.sorted(by: { ($0.end, $0.path) < ($1.end, $1.path) }) {
            guard let reason = self.reason(for: item, now) else {
                if item.part == .archive || item.part == .exports { self.rest.append(item) }
                continue
            }
            let deletion = Self.deletion(of: item, reason)
            guard try isDelivered(item) else {
                self.kept.append(deletion)
                continue
            }
            self.deletions.append(deletion)
            self.add(item, byteCount: -item.byteCount)
        }
    }

    static func deletion(of item: RetainedItem, _ reason: Deletion.Reason) -> Deletion {
        Deletion(
            part: item.part, path: item.path, reason: reason, lineCount: item.lineCount, byteCount: item.byteCount)
    }

    private mutating func add(_ item: RetainedItem, byteCount: Int) {
        self.partByteCounts[item.part, default: 0] += byteCount
        if let bundle = item.bundle { self.appByteCounts[bundle, default: 0] += byteCount }
    }

    private func reason(for item: RetainedItem, _ now: WallTime) -> Deletion.Reason? {
        let app = item.bundle.flatMap { self.apps[$0] }
        var limit = self.limit(of: item.part)
        limit.dayCountMax = app?.dayCountMax ?? limit.dayCountMax
        let age = (now.milliseconds - item.end.milliseconds) / 86_400_000
        if let days = limit.dayCountMax, age >= days { return .age }
        if let bytes = limit.byteCountMax, self.partByteCounts[item.part, default: 0] > bytes { return .bytes }
        if let bytes = app?.byteCountMax, let bundle = item.bundle, self.appByteCounts[bundle, default: 0] > bytes {
            return .bytes
        }
        return nil
    }

    private func limit(of part: RetainedPart) -> RetentionLimit {
        switch part {
        case .archive:
            RetentionLimit(dayCountMax: self.policy.dayCountMax, byteCountMax: self.policy.byteCountMax)
        // The size is only for the archive.
        case .exports: RetentionLimit(dayCountMax: self.policy.dayCountMax)
        case .unsealed: RetentionLimit(dayCountMax: self.policy.unsealedDayCountMax)
        case .quarantine: self.policy.quarantine
        case .dead: self.policy.dead
        case .setAside: self.policy.setAside
        // Its limits are the journal's own.
        case .journal: RetentionLimit()
        }
    }
}
