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
        var candidates: [Candidate] = []
        /// The longest one that is gone, or is another content: it may have been shorter for a moment.
        var gone: Candidate?
        /// How many of that one's first bytes are in its file still, which was cut.
        var keptBelow = 0
    }

    struct Candidate {
        let file: StreamKey
        /// Shows whether another file has all that was seen of it.
        var end: SeenEnd
    }

    private var departures: [StreamKey: Departure] = [:]
    private var byName: [PathKey: StreamKey] = [:]
    /// The departed file by the candidate that waits for it.
    private var predecessors: [StreamKey: StreamKey] = [:]
    /// The departed files that a candidate waited for and does not continue.
    private var refused: [StreamKey: Set<StreamKey>] = [:]
    /// The file about which is being decided.
    var settling: StreamKey?

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

    /// Whether another file may still continue this one.
    func isOpen(_ file: StreamKey) -> Bool { self.contains(file) || self.settling == file }

    /// The file that was at a name before.
    func departed(from name: String) -> StreamKey? { self.byName[PathKey(name)] }

    /// Makes a file wait until it is known whether it continues a departed one.
    ///
    /// - Parameter end: the end of what was seen of it.
    mutating func wait(_ candidate: StreamKey, for file: StreamKey, end: SeenEnd) {
        guard var departure = self.departures[file], self.predecessors[candidate] ?? file == file else { return }
        self.predecessors[candidate] = file
        if let index = departure.candidates.firstIndex(where: { $0.file == candidate }) {
            departure.candidates[index].end = end
        } else {
            departure.candidates.append(Candidate(file: candidate, end: end))
        }
        self.departures[file] = departure
    }

    /// The files that wait for a departed one.
    func candidates(of file: StreamKey) -> [StreamKey] { self.departures[file]?.candidates.map(\.file) ?? [] }

    /// The departed file that a candidate waits for.
    func former(of candidate: StreamKey) -> StreamKey? { self.predecessors[candidate] }

    /// Notes that a candidate, which is not identified yet, is not the one that continues a departed file.
    ///
    /// A file that is nowhere, and may be on a device that is not there, departs again at each look: of two of them, one
    /// is always away from its name, and a candidate would wait for them in turn for ever.
    mutating func refuse(_ candidate: StreamKey, for file: StreamKey) {
        self.refused[candidate, default: []].insert(file)
    }

    /// Whether a candidate may continue a departed file, as far as was decided.
    func mayContinue(_ file: StreamKey, in candidate: StreamKey) -> Bool {
        !(self.refused[candidate]?.contains(file) ?? false)
    }

    /// The end of what was seen of a candidate.
    func end(of candidate: StreamKey) -> SeenEnd? {
        self.predecessors[candidate].flatMap { self.departures[$0] }?.candidates.first { $0.file == candidate }?.end
    }

    /// Notes that a candidate is gone, or has another content.
    ///
    /// - Parameter keptBelow: how many of its first bytes its file still has.
    /// - Returns: whether it was one.
    @discardableResult
    mutating func leave(_ candidate: StreamKey, keptBelow: Int = 0) -> Bool {
        guard let file = self.predecessors.removeValue(forKey: candidate), var departure = self.departures[file],
            let index = departure.candidates.firstIndex(where: { $0.file == candidate })
        else { return false }
        departure.noteGone(departure.candidates.remove(at: index), keptBelow: keptBelow)
        self.departures[file] = departure
        return true
    }

    /// Notes that a candidate has a content of its own: nothing that was seen of it is gone.
    mutating func withdraw(_ candidate: StreamKey) {
        self.refused[candidate] = nil
        guard let file = self.predecessors.removeValue(forKey: candidate) else { return }
        self.departures[file]?.candidates.removeAll { $0.file == candidate }
    }

    /// Continues with a departure of a file that has departed again, for these candidates.
    mutating func resume(_ departure: Departure, of file: StreamKey, with candidates: ArraySlice<Candidate>) {
        for candidate in candidates { self.wait(candidate.file, for: file, end: candidate.end) }
        if let gone = departure.gone { self.departures[file]?.noteGone(gone, keptBelow: departure.keptBelow) }
    }

    /// The departed files whose time is over, in a fixed order.
    func due(_ now: MonotonicTime) -> [StreamKey] {
        self.departures.filter { now - $0.value.since >= Self.patience }.keys.sorted { $0.rawValue < $1.rawValue }
    }

    /// Ends a departure, whose candidates wait no more.
    mutating func settle(_ file: StreamKey) -> Departure? {
        guard let departure = self.departures.removeValue(forKey: file) else { return nil }
        if self.byName[departure.name] == file { self.byName[departure.name] = nil }
        for candidate in departure.candidates { self.predecessors[candidate.file] = nil }
        return departure
    }

    /// Forgets a file that waits, or that departed.
    ///
    /// - Returns: the candidates, which wait no more.
    mutating func forget(_ file: StreamKey) -> [StreamKey] {
        self.withdraw(file)
        return self.settle(file)?.candidates.map(\.file) ?? []
    }
}

extension Departures.Departure {
    fileprivate mutating func noteGone(_ candidate: Departures.Candidate, keptBelow: Int) {
        guard candidate.end.offset > self.gone?.end.offset ?? 0 else { return }
        self.gone = candidate
        self.keptBelow = keptBelow
    }
}
