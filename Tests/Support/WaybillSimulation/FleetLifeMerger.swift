internal import WaybillCompression
internal import WaybillData
internal import WaybillFleet
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// A merger's host: a disk, a clock, and the shipped merger, which dies and is started again.
final class FleetMerger {
    unowned let life: FleetLife
    let bucket: FleetBucket
    let label: String
    private(set) var disk: SimulatedDisk
    let clock: SimulatedClock
    private let access: BucketAccess
    private var files: FaultyFiles?
    var merger: Merger<FaultyFiles>?
    private var pauseEnd: Int64 = 0
    private var isRetired = false
    /// For a planted bug: where the merged journal ended when each request to erase was found.
    var seen: [Int: JournalPosition] = [:]
    /// What the last steps did, since the merger's disk was empty; for one that never dies.
    private(set) var tally = MergeTally()

    init(_ life: FleetLife, _ bucket: FleetBucket, number: Int) {
        self.life = life
        self.bucket = bucket
        self.label = "m\(number)"
        self.clock = SimulatedClock(life.schedule, drift: life.dice.int(-300...300))
        self.disk = SimulatedDisk(life.dice, self.clock)
        self.access = BucketAccess(bucket, isMerger: true, self.clock)
    }

    static let journal = "/data/journal"
    static let state = "/data/state/merge.state"

    // MARK: Life and death

    func start() {
        self.open()
        self.life.repeatedly({ [life] in life.isCalm ? 100...500 : life.mergePause }, { [weak self] in self?.act() })
    }

    func open() {
        guard self.merger == nil else { return }
        let mayDie = !self.bucket.isCalm && self.life.knows(.mergerDeaths) && self.life.dice.chance(300)
        let files = self.disk.files(dyingIn: mayDie ? self.life.dice.int(1...80) : nil)
        var setup = Merger<FaultyFiles>.Setup(
            name: self.label, fleet: self.bucket.fleet, journalDirectory: Self.journal, statePath: Self.state)
        setup.segmentByteCountMax = 20_000
        setup.discoveryInterval = .seconds(2)
        setup.roundByteCountMax = 8_000
        setup.placeCountMax = self.life.has(.mergeWithoutComparing) ? 0 : self.life.placeCountMax
        if self.life.has(.sealWithoutWaiting) { setup.patience = .zero }
        // One of them reads every line as soon as it is merged, and names none that is not to be read.
        if self.label == "m0" { setup.standing = { _ in .read(upTo: JournalPosition(.max)) } }
        if self.life.has(.forgetSetAsides) { self.forgetSetAsides() }
        do {
            try files.createDirectories(Self.journal)
            try files.createDirectories(Path.parent(of: Self.state))
            self.merger = try Merger(setup, files: files, store: self.access)
            self.files = files
            if self.life.has(.forgetPendingErasures), let erasure = self.merger?.erasures.pending.first {
                try self.merger?.erased(erasure)
            }
        } catch {
            files.die()
            if self.bucket.isCalm || !error.isOfDisk {
                self.life.violate("\(self.label) cannot start: \(error)")
            }
        }
    }

    func kill() {
        self.merger = nil
        self.files?.die()
        self.files = nil
    }

    func cutPower() {
        self.kill()
        self.disk.cutPower()
    }

    func loseDisk() {
        self.kill()
        self.disk = SimulatedDisk(self.life.dice, self.clock)
        self.tally = MergeTally()
        self.life.note("\(self.label) has lost its disk")
    }

    func pause(for duration: Int64) { self.pauseEnd = self.life.schedule.now + duration }

    func settle() {
        self.disk.recover()
        self.pauseEnd = 0
    }

    /// Merges what there is, and ends: its fleet is used no more.
    func retire() {
        self.settle()
        self.finish()
        self.isRetired = true
    }

    /// Merges what there is.
    func finish() {
        for _ in 0..<10_000 {
            self.bucket.memory.deliverLate()
            self.open()
            self.clock.pass(seconds: 3)
            self.life.storeClock.pass(seconds: 3)
            guard self.life.violation == nil, self.step() || self.merger == nil else { return }
        }
        self.life.violate("\(self.label) never rests")
    }

    /// Deletes what everybody has read.
    func retireSegments() {
        guard self.merger != nil else { return }
        let end = self.merger?.end ?? JournalPosition(0)
        do throws(MergeFailure) {
            try self.merger?.retire(before: end)
        } catch {
            self.kill()
        }
    }

    // MARK: Steps

    private func act() {
        guard !self.isRetired, self.life.schedule.now >= self.pauseEnd else { return }
        self.open()
        guard self.merger != nil else { return }
        for _ in 0..<self.life.dice.int(1...3) where self.merger != nil { if !self.step() { return } }
    }

    /// - Returns: whether there may be more to do.
    private func step() -> Bool {
        self.plantBefore()
        guard self.merger != nil else { return true }
        let now = (self.clock.wallTime(), self.clock.monotonicTime())
        do throws(MergeFailure) {
            guard let step = try self.merger?.step(now: now.0, now.1), case .applied(let round, let tally) = step else {
                if self.files?.isStopped ?? false { self.kill() }
                return false
            }
            if self.files?.isStopped ?? false {
                self.kill()
                return true
            }
            self.tally = self.tally + tally
            let storeTime = self.life.storeClock.wallTime()
            if round.through > storeTime {
                self.life.violate("round \(round.number) has days sealed through \(round.through) at \(storeTime)")
            }
            self.life.note("\(self.label) round \(round.number): \(round.pieces.count) pieces, \(tally)")
            self.access.greatestKey = max(self.access.greatestKey, round.pieces.map(\.key).max() ?? "")
            self.plantAfter()
            return true
        } catch {
            switch error {
            case .store: return true
            case .disk:
                if self.bucket.isCalm, !(self.files?.isStopped ?? true) {
                    self.life.violate("\(self.label) has a disk without faults, and says \(error)")
                }
                self.kill()
            case .journal, .foreign, .otherFleet, .piece, .round, .behind, .noCheckpoint, .erasure, .erasureKey,
                .setAsideGone, .hasRead:
                self.life.violate("\(self.label): \(error)")
            }
            return true
        }
    }

    var round: Int { self.merger?.round ?? -1 }
    var through: WallTime { self.merger?.through ?? .unknown }
    var end: JournalPosition { self.merger?.end ?? JournalPosition(0) }
    var barriers: [SealBarrier] { self.merger?.barriers ?? [] }
    var missing: [MissingBytes] { self.merger?.missing ?? [] }

    /// The lines that nothing reads.
    var setAsides: [Int] { self.merger?.setAsides.named ?? [] }

    /// What it erases, and where; none of it is ever applied in these lives.
    var erasures: [PendingErasure] {
        (self.merger?.erasures.pending ?? []).map { erasure in
            // The planted bug: where it stood when it found the request.
            PendingErasure(
                number: erasure.number, round: erasure.round, position: self.seen[erasure.number] ?? erasure.position,
                time: erasure.time)
        }
    }

    /// Whether it has every piece that the bucket has.
    var hasMergedAll: Bool {
        guard let chains = self.merger?.chains else { return false }
        return self.bucket.allPieces.allSatisfy { key, piece in
            chains.contains {
                key == $0.key.key(of: JournalPosition(piece.start)) && $0.value.position.rawValue >= piece.end
            }
        }
    }

    // MARK: What it has

    /// The merged journal's segments by name.
    var segments: [String: [UInt8]] {
        var segments: [String: [UInt8]] = [:]
        for (path, bytes) in self.disk.memory.files(below: Self.journal) where path.hasSuffix(".journal") {
            segments[path] = bytes
        }
        return segments
    }

    /// Every batch of the merged journal, with where it begins in it.
    func records() -> [(position: Int, entry: FleetBucket.Entry)] {
        let files = FaultyFiles(self.disk.memory)
        defer { files.die() }
        var reader = JournalReader(directory: Self.journal, position: JournalPosition(0), files: files)
        var inflater = Inflater()
        var records: [(position: Int, entry: FleetBucket.Entry)] = []
        do {
            while let record = try reader.next(upTo: self.end) {
                var raw = [UInt8](repeating: 0, count: record.header.rawByteCount)
                try raw.withUnsafeMutableBytes { try inflater.inflate(record.payload, into: $0) }
                records.append(
                    (
                        record.position.rawValue,
                        FleetBucket.Entry(
                            stream: record.description.name, offset: record.header.offset.rawValue, bytes: raw,
                            receivedAt: record.receivedAt)
                    ))
            }
            if let damage = reader.takeDamages().first { self.life.violate("\(self.label)'s journal: \(damage)") }
        } catch {
            self.life.violate("\(self.label)'s journal cannot be read: \(error)")
        }
        return records
    }
}

extension Error {
    /// Whether a disk that refuses is the cause.
    fileprivate var isOfDisk: Bool {
        if self is FileSystemError { return true }
        if case .disk? = self as? MergeFailure { return true }
        return false
    }
}
