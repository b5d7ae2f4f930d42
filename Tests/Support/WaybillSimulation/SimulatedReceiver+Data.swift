internal import WaybillCompression
internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// What happened to a data directory.
struct DataLoss {
    /// A copy of it, by path.
    var copy: [String: [UInt8]] = [:]
    /// How often it became another one; a copy in progress of the one before is of no use.
    var count = 0
    /// Whether its next start looks for what is left.
    var isUncounted = false
    /// Whether its journal may be reported damaged.
    var mayDamage = false
    /// Whether its journal has lost records that a projection had read.
    ///
    /// The archive names the streams then, but it may
    /// have no proof for them (a batch of several days, a sealed day): files are sent again under another id, and
    /// segments wait for their owner. One projection may have read further than another.
    var isDamage = false
    /// Whether the end of its journal may be gone, and whether its archive may not remember that it had it.
    var (isCut, isArchiveUnsure) = (false, false)
    /// Whether lines may be stored several times: of a day that was sealed meanwhile, the archive's checkpoint alone
    /// tells that it has what the journal has lost.
    var mayRepeat: Bool { self.isDamage || self.isCut && self.isArchiveUnsure }
    /// The journal's files, which were deleted while the process runs; it must not answer any more.
    var unlinked: [String] = []
}

/// Data that is copied, lost and put back.
extension SimulatedReceiver {
    private static let root = "/data"

    /// Copies the data: all of it at one moment, or while the receiver works, the state first and the journal last.
    func copyData() {
        let state = self.files(below: "/state")
        let rest = ["/archive", "/quarantine", "/exports"]
        guard self.life.rules.copiesSlowly, self.life.dice.chance(500) else {
            self.loss.copy = (rest + ["/journal"]).reduce(into: state) { $0.merge(self.files(below: $1)) { $1 } }
            return self.life.note("\(self.label)'s data is copied")
        }
        let count = self.loss.count
        self.life.schedule.after(self.life.dice.milliseconds(0...2_000)) { [weak self] in
            guard let self, self.loss.count == count else { return }
            self.loss.copy = rest.reduce(into: state) { $0.merge(self.files(below: $1)) { $1 } }
            self.loss.copy.merge(self.files(below: "/journal")) { $1 }
            self.life.note("\(self.label)'s data is copied while it works")
        }
    }

    /// Puts the copy in the place of the data.
    func restoreData() {
        guard !self.loss.copy.isEmpty else { return self.copyData() }
        self.kill()
        self.removeData()
        for (path, bytes) in self.loss.copy.sorted(by: { $0.key < $1.key }) { self.disk.memory.place(path, bytes) }
        self.life.note("\(self.label)'s data is the copy again")
    }

    func loseData() {
        self.kill()
        self.removeData()
        self.loss.copy = [:]
        self.life.note("\(self.label)'s data is gone")
    }

    /// Cuts the end of the journal off.
    ///
    /// An empty last segment has none: its group is next to it while a start rewrites it, and what is in the segments
    /// before it is no end.
    func loseJournalTail() {
        guard
            let (path, bytes) = self.disk.memory.files(below: Self.root + "/journal").last(where: {
                $0.path.hasSuffix(".journal")
            }), !bytes.isEmpty
        else { return }
        self.kill()
        let count = self.life.dice.int(1...min(bytes.count, 4_000))
        self.disk.memory.place(path, Array(bytes.dropLast(count)))
        self.changed()
        self.loss.mayDamage = true
        self.loss.isCut = true
        self.life.note("\(path) has lost its last \(count) bytes")
    }

    /// Deletes the journal's files while the process runs.
    func unlinkJournal() {
        guard self.process != nil, self.loss.unlinked.isEmpty else { return }
        self.loss.unlinked = self.disk.memory.files(below: Self.root + "/journal").map(\.path)
        self.life.note("\(self.label)'s journal is deleted while it runs")
        // The planted bug: the process sees the same file at its path until it ends.
        if !self.life.has(.trustUnlinkedJournal) { self.removeUnlinked() }
    }

    /// The process has ended, and with it what only its open files held.
    func forgetUnlinked() {
        guard !self.loss.unlinked.isEmpty else { return }
        if self.life.has(.trustUnlinkedJournal) { self.removeUnlinked() }
        self.loss.unlinked = []
        self.loss.mayDamage = true
        self.changed()
    }

    private func removeUnlinked() {
        do throws(FileSystemError) {
            for path in self.loss.unlinked where self.disk.memory.node(at: path) != nil {
                try self.disk.memory.unlink(path)
            }
        } catch {
            preconditionFailure("a file that is there can be unlinked: \(error)")
        }
        self.disk.memory.node(at: Self.root + "/journal")?.settle()
    }

    private func files(below folder: String) -> [String: [UInt8]] {
        self.disk.memory.tree(Self.root + folder)
    }

    private func removeData() {
        do throws(FileSystemError) {
            for (path, _) in self.disk.memory.files(below: Self.root) { try self.disk.memory.unlink(path) }
        } catch {
            preconditionFailure("a file that is there can be unlinked: \(error)")
        }
        self.places = ReadingPlaces()
        for folder in self.folders(below: Self.root) { self.disk.memory.node(at: folder)?.settle() }
        self.changed()
    }

    private func folders(below path: String) -> [String] {
        let below = self.disk.memory.names(in: path).map { Path.join(path, $0) }
        return [path]
            + below.filter { self.disk.memory.node(at: $0)?.kind == .directory }.flatMap { self.folders(below: $0) }
    }

    private func changed() {
        self.loss.count += 1
        self.loss.isUncounted = true
        self.promised = [:]
        self.unacknowledged = [:]
    }

    /// What a start finds after a loss is what the receiver holds, once its projections stand; the rest must come again.
    func recountIfLost() {
        guard self.loss.isUncounted else { return }
        self.loss.isUncounted = false
        let held = Set(self.storedLines().keys).union(self.journalLines())
        self.life.recount(held, by: self)
    }

    private func journalLines() -> Set<ArraySlice<UInt8>> {
        let files = FaultyFiles(self.disk.memory)
        defer { files.die() }
        let folder = Self.root + "/journal"
        let segments = self.disk.memory.names(in: folder).compactMap(JournalPath.position(ofSegment:))
        guard let first = segments.min() else { return [] }
        var lines: Set<ArraySlice<UInt8>> = []
        var reader = JournalReader(directory: folder, position: first, files: files)
        var inflater = Inflater()
        do {
            while let record = try reader.next(upTo: JournalPosition(Int(LineProtocol.integerMax))) {
                var raw = [UInt8](repeating: 0, count: record.header.rawByteCount)
                try raw.withUnsafeMutableBytes { try inflater.inflate(record.payload, into: $0) }
                lines.formUnion(raw.split(separator: 0x0A))
            }
        } catch {
            self.life.violate("\(self.label)'s journal cannot be read: \(error)")
        }
        return lines
    }

    // MARK: What it says

    /// The receiver said to an agent that it holds the stream durably up to `offset`.
    func stands(_ name: StreamName, at offset: StreamOffset, isAnswer: Bool) {
        if !self.loss.unlinked.isEmpty {
            self.life.violate("\(self.label) answers for \(name), and its journal was deleted")
        }
        let before = self.promised[name] ?? StreamOffset(0)
        if isAnswer, offset < before, !self.life.mayForget {
            self.life.violate(
                "\(self.label) had acknowledged \(name) to \(before.rawValue), now it says \(offset.rawValue)")
        }
        self.promised[name] = isAnswer ? offset : max(before, offset)
        if isAnswer, before == StreamOffset(0), offset > before { self.settleFormer(name) }
        if isAnswer, self.unconfirmed.remove(name) != nil {
            self.unacknowledged[name]?.removeAll { $0.end > offset }
        }
        guard var batches = self.unacknowledged[name] else { return }
        for batch in batches where batch.end <= offset {
            batch.raw.bytes.forEachLine { self.life.ledger.acknowledge(Array($0)[...], by: self.number) }
        }
        batches.removeAll { $0.end <= offset }
        self.unacknowledged[name] = batches
    }

    /// A stream has got an owner: what was shipped before is held.
    private func settleFormer(_ name: StreamName) {
        guard !name.principal.isEmpty,
            let batches = self.unacknowledged.removeValue(forKey: StreamName(principal: "", id: name.id))
        else { return }
        let own = self.unacknowledged[name] ?? []
        let start = own.map { $0.end.rawValue - UInt64($0.raw.count) }.min() ?? .max
        self.unacknowledged[name] = batches.filter { $0.end.rawValue <= start } + own
    }

    func took(_ name: StreamName, end: StreamOffset, raw: SharedBytes) {
        // Of two batches for one place only one can have been taken.
        let offset = end.rawValue - UInt64(raw.count)
        self.unacknowledged[name, default: []].removeAll { $0.end.rawValue > offset }
        self.unacknowledged[name, default: []].append((end, raw))
    }
}

extension UnsafeRawBufferPointer {
    /// Each line without its LF; empty ones are left out.
    func forEachLine(_ body: (Slice<UnsafeRawBufferPointer>) -> Void) {
        for line in self.split(separator: 0x0A) { body(line) }
    }
}
