package import WaybillSystem

/// The files that were found, or found changed, within the last minutes.
///
/// They are looked at every second, whatever hints say: one that is missed costs a second and not a rotation. Those that
/// changed last come first; above a count, the others wait for the look at everything.
package struct FreshFiles: Sendable {
    /// How long a file counts as written to lately.
    package static let age = Duration.seconds(300)
    /// How many files one look takes: on a local disk some 40 ms.
    package static let countMax = 10_000

    private var changes: [StreamKey: MonotonicTime] = [:]

    package init() {}

    package var isEmpty: Bool { self.changes.isEmpty }
    /// Whether one look takes them all.
    package var isWhole: Bool { self.changes.count <= Self.countMax }

    /// The file was found changed.
    package mutating func note(_ file: StreamKey, _ now: MonotonicTime) {
        self.changes[file] = now
        guard self.changes.count > 2 * Self.countMax else { return }
        // One more than a look takes, so that it is known not to take all. Those that are left out are older.
        let kept = self.newestFirst.prefix(Self.countMax + 1)
        self.changes = Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) })
    }

    private var newestFirst: [(key: StreamKey, value: MonotonicTime)] {
        self.changes.sorted { ($1.value, $0.key.rawValue) < ($0.value, $1.key.rawValue) }
    }

    /// Those to look at now, the ones that changed last first.
    ///
    /// - Parameter isFollowed: whether a file is still of interest; others are dropped, as are those that rest.
    package mutating func due(_ now: MonotonicTime, _ isFollowed: (StreamKey) -> Bool) -> [StreamKey] {
        self.changes = self.changes.filter { now - $0.value < Self.age && isFollowed($0.key) }
        return self.newestFirst.prefix(Self.countMax).map(\.key)
    }
}

/// What a tail knows of its looks at files.
struct Looks {
    /// When the present or the last one began.
    var time = TailTime(monotonic: MonotonicTime(nanoseconds: 0), wall: .unknown)
    /// The folders in which new files can appear.
    var folders: Set<PathKey> = []
    var fresh = FreshFiles()
    /// The folder whose real path was asked for last in this look.
    var realFolder: (path: String, real: String?)?
    /// Links to files that were looked at, until they are taken.
    var links: [String] = []
}
