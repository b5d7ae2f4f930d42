internal import WaybillSystem

/// Files that are no longer at their name, until it is known whether they are anywhere, and which file follows each.
///
///     away from its name ─▶ 2 s ─▶ is at another path: what has the name is a file of its own
///                            │  ─▶ is at none, and a file with its content has the name: that one continues it
///                            └────▶ is at none: gone
struct Departures {
    /// How long a file may be on its way from one name to another.
    static let patience = Duration.seconds(2)

    struct Departure {
        let name: PathKey
        let since: MonotonicTime
        /// Files that were found at the name since, in this order, and have the content as far as was seen.
        var candidates: [StreamKey] = []
    }

    private var departures: [StreamKey: Departure] = [:]
    private var byName: [PathKey: StreamKey] = [:]
    /// The departed file by the candidate that waits for it.
    private var predecessors: [StreamKey: StreamKey] = [:]

    var isEmpty: Bool { self.departures.isEmpty }

    /// Notes that a file is not at its name; the first name counts until ``settle(_:)``.
    mutating func note(_ file: StreamKey, from name: String, _ now: MonotonicTime) {
        guard self.departures[file] == nil else { return }
        let name = PathKey(name)
        // Of two files that left one name, the later one is what a third follows.
        if let other = self.byName[name], self.departures[other]?.candidates.isEmpty == false { return }
        self.departures[file] = Departure(name: name, since: now)
        self.byName[name] = file
    }

    func contains(_ file: StreamKey) -> Bool { self.departures[file] != nil }

    /// The file that was at a name before.
    func departed(from name: String) -> StreamKey? { self.byName[PathKey(name)] }

    /// Makes a file wait until it is known whether it continues a departed one.
    mutating func wait(_ candidate: StreamKey, for file: StreamKey) {
        guard self.predecessors[candidate] == nil, self.departures[file] != nil else { return }
        self.predecessors[candidate] = file
        self.departures[file]?.candidates.append(candidate)
    }

    /// The departed file that a candidate waits for.
    func former(of candidate: StreamKey) -> StreamKey? { self.predecessors[candidate] }

    /// The departed files whose time is over, in a fixed order.
    func due(_ now: MonotonicTime) -> [StreamKey] {
        self.departures.filter { now - $0.value.since >= Self.patience }.keys.sorted { $0.rawValue < $1.rawValue }
    }

    /// Ends a departure.
    ///
    /// - Returns: the candidates, which wait no more.
    mutating func settle(_ file: StreamKey) -> [StreamKey] {
        guard let departure = self.departures.removeValue(forKey: file) else { return [] }
        if self.byName[departure.name] == file { self.byName[departure.name] = nil }
        for candidate in departure.candidates { self.predecessors[candidate] = nil }
        return departure.candidates
    }

    /// Forgets a file that waits, or that departed.
    ///
    /// - Returns: the candidates, which wait no more.
    mutating func forget(_ file: StreamKey) -> [StreamKey] {
        if let predecessor = self.predecessors.removeValue(forKey: file) {
            self.departures[predecessor]?.candidates.removeAll { $0 == file }
        }
        return self.settle(file)
    }
}
