package import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// Which lines the log has named not to be read, in a merger's state.
///
///     aside/<number>            "named", or "done" once this merger's readers do not read it
package struct MergedSetAsides: Hashable, Sendable {
    /// By number, whether it is done.
    private var known: [Int: Bool] = [:]

    package init() {}

    /// Every number that the log has named.
    package var named: [Int] { self.known.keys.sorted() }
    /// Those that this merger's readers may not know yet.
    package var pending: [Int] { self.known.filter { !$0.value }.keys.sorted() }

    func has(_ number: Int) -> Bool { self.known[number] != nil }
    func isDone(_ number: Int) -> Bool { self.known[number] ?? false }

    mutating func restore(_ key: String, _ value: String) {
        guard key.hasPrefix("aside/"), let number = Int(key.dropFirst(6)), number > 0 else { return }
        self.known[number] = value == "done"
    }

    func write(_ lines: inout StateLines) {
        for (number, isDone) in self.known.sorted(by: { $0.key < $1.key }) { Self.set(number, isDone, &lines) }
    }

    private static func set(_ number: Int, _ isDone: Bool, _ lines: inout StateLines) {
        lines.set("aside/\(number)", isDone ? "done" : "named")
    }

    mutating func name(_ numbers: some Sequence<Int>, _ lines: inout StateLines) {
        for number in numbers where !self.has(number) {
            self.known[number] = false
            Self.set(number, false, &lines)
        }
    }

    mutating func done(_ number: Int, _ lines: inout StateLines) {
        self.known[number] = true
        Self.set(number, true, &lines)
    }
}

/// How far a reader of a merged journal has read.
package enum ReaderStanding: Hashable, Sendable {
    /// There is none of this name.
    case none
    /// It has not started yet.
    case unknown
    case read(upTo: JournalPosition)
}

/// Requests that no round has named, as far as this process knows them.
struct SetAsideLook: Sendable {
    /// When they are looked for again.
    var next: MonotonicTime?
    /// Whether the rounds behind this merger's last one were looked at.
    var isAhead = false
    /// Whether the bucket had a request at the start that may still be named.
    var isOpen = false
    /// Those of them whose lines are merged and not read, until they are named.
    var awaited: Set<Int> = []
    /// Whether one waits until its reader has started.
    var waitsForReader = false
    /// Numbers that this merger never names: its reader has read the line, or they cannot be read.
    var left: Set<Int> = []
}

/// Lines that are not read.
extension Merger {
    /// Looks for requests that no round has named, as often as for chains.
    ///
    /// One whose line this merger has read is not named by it: a request for a line that ends no program stops no merger.
    /// One that cannot be read is not named, and holds up no other. One whose reader has not started yet waits.
    ///
    /// - Returns: the numbers that apply with the next round.
    mutating func newSetAsides(_ now: MonotonicTime) throws(MergeFailure) -> [Int] {
        if let next = self.setAsideLook.next, now < next { return [] }
        self.setAsideLook.next = now + self.setup.discoveryInterval
        let requests = try self.unnamedRequests()
        // Someone may have deleted one.
        self.setAsideLook.awaited.formIntersection(requests.map(\.number))
        let ready = requests.filter { self.setup.standing($0.reader) != .unknown }
        self.setAsideLook.waitsForReader = ready.count < requests.count
        if self.waitsForReader { self.setAsideLook.next = nil }
        return ready.map(\.number)
    }

    /// Whether a request waits until its reader has started.
    package var waitsForReader: Bool { self.setAsideLook.waitsForReader }

    /// The first requests that no round has named, and whose lines this merger's reader has not read.
    private mutating func unnamedRequests() throws(MergeFailure) -> [SetAsideRequest] {
        var requests: [SetAsideRequest] = []
        for number in 1...SetAsideRequest.countMax where requests.count < MergeRound.setAsideCountMax {
            guard !self.setAsides.has(number), !self.setAsideLook.left.contains(number) else { continue }
            switch try MergeFailure.inStore(SetAsideRequest.read(number, from: self.store)) {
            case .absent: return requests
            case .unreadable: self.setAsideLook.left.insert(number)
            case .request(let request):
                if case .read(let position) = self.setup.standing(request.reader),
                    try self.hasRead(request, upTo: position)
                {
                    self.setAsideLook.left.insert(number)
                } else {
                    requests.append(request)
                }
            }
        }
        return requests
    }

    /// Whether a line that was asked for before the start is merged, not read, and in no round yet: reading it may end
    /// the program before it is named.
    package mutating func awaitsSetAside() throws(MergeFailure) -> Bool {
        guard self.setAsideLook.isOpen else { return false }
        // Nothing is read meanwhile, so they are not looked for again.
        let awaited = self.setAsideLook.awaited.subtracting(self.setAsides.named).subtracting(self.setAsideLook.left)
        self.setAsideLook.awaited = awaited
        guard awaited.isEmpty else { return true }
        let requests = try self.unnamedRequests()
        self.setAsideLook.isOpen = !requests.isEmpty
        let merged = requests.filter { !self.streams.lacks($0.offset..<($0.offset + 1), of: $0.stream) }
        self.setAsideLook.awaited = Set(
            merged.filter { self.setup.standing($0.reader) != .unknown }.map(\.number))
        return !merged.isEmpty
    }

    /// Takes over what later rounds name, before anything reads a line that they concern.
    ///
    /// Done once for each start. Rounds are read only if the bucket has a request that the state does not know.
    package mutating func lookAheadForSetAsides() throws(MergeFailure) {
        guard !self.setAsideLook.isAhead else { return }
        var number = 1
        while self.setAsides.has(number) { number += 1 }
        let first = try MergeFailure.inStore(SetAsideRequest.read(number, from: self.store))
        guard first != .absent else { return self.setAsideLook.isAhead = true }
        let named = try MergeRound.setAsides(behind: self.round, self.store)
        var lines = StateLines()
        self.setAsides.name(named, &lines)
        try self.commit(lines)
        self.setAsideLook.isAhead = true
        self.setAsideLook.isOpen = true
    }

    /// The request that a round named.
    package func setAsideRequest(_ number: Int) throws(MergeFailure) -> SetAsideRequest {
        let found = try MergeFailure.inStore(SetAsideRequest.read(number, from: self.store))
        guard case .request(let request) = found else { throw .setAsideGone(number) }
        return request
    }

    /// Whether a reader that has read the merged journal up to a position has read the line.
    package func hasRead(_ request: SetAsideRequest, upTo position: JournalPosition) throws(MergeFailure) -> Bool {
        try MergeFailure.onDisk(
            self.streams.hasRead(
                request, upTo: position, in: self.setup.journalDirectory, end: self.end, files: self.files))
    }

    /// Records that no reader of this merger reads the line.
    package mutating func setAside(_ number: Int) throws(MergeFailure) {
        var lines = StateLines()
        self.setAsides.done(number, &lines)
        try self.commit(lines)
    }
}

extension MergeRound {
    /// The numbers of lines not to be read that the rounds behind one name.
    static func setAsides(behind round: Int, _ store: any ObjectStore) throws(MergeFailure) -> [Int] {
        var numbers: [Int] = []
        var next = round + 1
        while let object = try MergeFailure.inStore(store.read(Self.key(of: next), nil)) {
            numbers += MergeRound(object, number: next)?.setAsides ?? []
            next += 1
        }
        return numbers
    }
}

extension MergedStreams {
    /// Whether a line is in the merged journal, and before a position of it.
    func hasRead<Files: FileSystem>(
        _ request: SetAsideRequest, upTo position: JournalPosition, in journal: String, end: JournalPosition,
        files: Files
    ) throws(FileSystemError) -> Bool {
        guard !self.lacks(request.offset..<(request.offset + 1), of: request.stream) else { return false }
        var reader = JournalReader(directory: journal, position: position, files: files)
        while let record = try reader.next(upTo: end) {
            let range = record.header.offset.rawValue..<record.header.end.rawValue
            if record.description.name == request.stream, range.contains(request.offset) { return false }
        }
        return true
    }
}
