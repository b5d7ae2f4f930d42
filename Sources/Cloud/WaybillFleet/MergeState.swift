internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// The entries of a merger's state.
///
///     fleet                     32 hexadecimal digits
///     round, end, through       numbers
///     chain/<chain>             <position> <milliseconds of its last mark>
///     barrier/<round>           <position> <milliseconds> <milliseconds>
///     erasures, erasure/<n>, erased     `MergedErasures`
///     aside/<n>                 `MergedSetAsides`
///     stream/…, whole/…         `MergedStreams`
struct MergeState {
    private(set) var fleet: Incarnation?
    private(set) var round = 0
    private(set) var end = JournalPosition(0)
    private(set) var through = WallTime.unknown
    private(set) var chains: [ChainName: MergedChain] = [:]
    private(set) var barriers: [SealBarrier] = []
    private(set) var streams = MergedStreams()
    var erasures = MergedErasures()
    var setAsides = MergedSetAsides()

    /// Makes all of it durable in place of what is there.
    ///
    /// - Returns: how many bytes it has.
    func write(
        to state: inout StateLog<some FileSystem>, fleet: Incarnation
    ) throws(FileSystemError) -> Int {
        var lines = StateLines()
        Self.set(fleet: fleet, round: self.round, end: self.end, through: self.through, &lines)
        for (name, chain) in self.chains.sorted(by: { $0.key < $1.key }) { Self.set(name, chain, &lines) }
        for barrier in self.barriers { Self.set(barrier, &lines) }
        self.erasures.write(&lines)
        self.setAsides.write(&lines)
        var rewrite = try state.beginRewrite()
        var byteCount = lines.bytes.count
        try state.write(lines, to: &rewrite)
        try self.streams.forEachPart { (part) throws(FileSystemError) in
            byteCount += part.bytes.count
            try state.write(part, to: &rewrite)
        }
        try state.finish(rewrite)
        return byteCount
    }

    mutating func restore(_ entries: [String: String]) {
        for (key, value) in entries {
            switch key {
            case "fleet": self.fleet = Incarnation(value.utf8)
            case "round": self.round = Int(value) ?? 0
            case "end": self.end = JournalPosition(Int(value) ?? 0)
            case "through": self.through = WallTime(milliseconds: Int64(value) ?? 0)
            case _ where key.hasPrefix("chain/"): self.restoreChain(key.dropFirst(6), value)
            case _ where key.hasPrefix("barrier/"): self.restoreBarrier(key.dropFirst(8), value)
            case _ where key.hasPrefix("eras"): self.erasures.restore(key, value)
            case _ where key.hasPrefix("aside/"): self.setAsides.restore(key, value)
            default: _ = self.streams.restore(key, value)
            }
        }
        self.barriers.sort { $0.round < $1.round }
    }

    private mutating func restoreChain(_ key: Substring, _ value: String) {
        let numbers = value.split(separator: " ").compactMap { Int64($0) }
        guard let name = ChainName(key), numbers.count == 2 else { return }
        var chain = MergedChain(position: JournalPosition(Int(numbers[0])))
        chain.lastMark = WallTime(milliseconds: numbers[1])
        self.chains[name] = chain
    }

    private mutating func restoreBarrier(_ key: Substring, _ value: String) {
        let numbers = value.split(separator: " ").compactMap { Int64($0) }
        guard let round = Int(key), numbers.count == 3 else { return }
        self.barriers.append(
            SealBarrier(
                round: round, position: JournalPosition(Int(numbers[0])), through: WallTime(milliseconds: numbers[1]),
                now: WallTime(milliseconds: numbers[2])))
    }

    static func set(
        fleet: Incarnation, round: Int, end: JournalPosition, through: WallTime, _ lines: inout StateLines
    ) {
        lines.set("fleet", fleet.text)
        lines.set("round", String(round))
        lines.set("end", String(end.rawValue))
        lines.set("through", String(through.milliseconds))
    }

    static func set(_ name: ChainName, _ chain: MergedChain, _ lines: inout StateLines) {
        lines.set("chain/\(name)", "\(chain.position.rawValue) \(chain.lastMark.milliseconds)")
    }

    static func set(_ barrier: SealBarrier, _ lines: inout StateLines) {
        lines.set(
            "barrier/\(barrier.round)",
            "\(barrier.position.rawValue) \(barrier.through.milliseconds) \(barrier.now.milliseconds)")
    }

    static func remove(_ barrier: SealBarrier, _ lines: inout StateLines) {
        lines.remove("barrier/\(barrier.round)")
    }
}
