internal import WaybillCompression
internal import WaybillData
internal import WaybillFleet
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// The life of one receiver with a bucket that loses its disk again and again, from one seed.
///
///     sources ─▶ receiver (journal, uploader) ─▶ bucket ─▶ restore, killed at any call ─▶ receiver …
///
/// The bucket refuses, forgets to answer and answers late. A source is a log, which stays, or a segment, of which nothing is
/// left once the bucket has it. In lives with logs alone the directory is also put back from copies.
///
/// Held after each restore: every stream stands at or past what its agent was told is stored. Held at the end: the
/// journal has every line of every source exactly once.
package struct RestoreLife: ~Copyable {
    private struct Source {
        let description: StreamDescription
        var bytes: [UInt8] = []
        /// Below it nothing is left of a segment.
        var stored = 0
    }

    /// What the journal had when its end was this.
    private struct Promise {
        let source: Int
        let end: Int
        let position: JournalPosition
    }

    private let dice: Dice
    private let bugs: Set<PlantedBug>
    private let store = MemoryStore(pageCount: 3)
    private var files = FaultyFiles()
    private var sources: [Source] = []
    private var promises: [Promise] = []
    private var copies: [[(path: String, bytes: [UInt8])]] = []
    private let keepsEverything: Bool
    private let segmentByteCountMax: Int
    private let pieceByteCount: Int
    /// Of a thousand of the bucket's calls so many fail.
    private var faultPerMille: Int
    private var lineCount = 0
    private var now: Int64 = 1_796_000_000_000
    private var deflater = Deflater(level: 1)
    /// Whether only an operator knows which history is continued.
    private var isUndecided = false
    private var violation: String?

    /// Lives a life.
    ///
    /// - Parameter bugs: of `sayAcknowledged`, `overwritePieces` and `trustTakenKeys`.
    /// - Returns: the promise that was broken; `nil` when all were kept.
    package static func run(seed: UInt64, bugs: Set<PlantedBug> = []) -> String? {
        var life = RestoreLife(seed: seed, bugs: bugs)
        do {
            try life.live()
        } catch {
            return "the life ends with an error: \(error)"
        }
        return life.violation
    }

    private init(seed: UInt64, bugs: Set<PlantedBug>) {
        self.dice = Dice(seed: seed)
        self.bugs = bugs
        self.keepsEverything = self.dice.chance(500)
        self.segmentByteCountMax = self.dice.pick([2_000, 9_000, 1 << 20])
        self.pieceByteCount = self.dice.pick([1, 900, 5_000])
        self.faultPerMille = self.dice.pick([0, 60, 200])
    }

    private mutating func live() throws {
        for number in 0..<self.dice.int(1...5) {
            guard let id = StreamID("stream-\(number)") else { preconditionFailure("a stream's name") }
            self.sources.append(
                Source(
                    description: StreamDescription(
                        id: id, source: "/\(number).ndjson", environment: "prod", bundle: "com.example.shop",
                        format: .waybill)))
        }
        try self.files.createDirectories("/data/journal")
        try self.files.createDirectories("/data/state")
        self.setFaults(self.faultPerMille)
        for start in 0..<self.dice.int(2...7) {
            if start > 0 { try self.end() }
            if self.isUndecided { return }
            try self.serve()
        }
        self.faultPerMille = 0
        self.setFaults(0)
        self.store.deliverLate()
        // Whatever there was: at the end the disk is lost once more.
        try self.lose()
        if !self.isUndecided { try self.judge() }
    }

    private func setFaults(_ perMille: Int) {
        let (chance, bugs) = (self.dice.next(), self.bugs)
        self.store.setFaults { call in
            if call.verb == .create {
                if bugs.contains(.overwritePieces) { return .overwritten }
                if bugs.contains(.trustTakenKeys) { return .claimed }
            }
            var generator = SeededGenerator(seed: chance &+ UInt64(call.number))
            guard Int.random(in: 0..<1000, using: &generator) < perMille else { return nil }
            return [.refused(.busy), .unanswered, .late].randomElement(using: &generator)
        }
    }

    // MARK: A start of the receiver

    private func open() throws -> Journal<FaultyFiles> {
        var journal = try Journal(
            directory: "/data/journal", files: self.files, segmentByteCountMax: self.segmentByteCountMax,
            awake: .simulated(2))
        try journal.begin(
            StartSeed(id: self.dice.next(), incarnation: Incarnation(self.dice.next(), self.dice.next())),
            isLossy: false, at: WallTime(milliseconds: self.now))
        return journal
    }

    private mutating func serve() throws {
        var journal = try self.open()
        var uploader = try Uploader(
            receiver: "r", fleet: "f", journalDirectory: "/data/journal", end: journal.end,
            statePath: UploadState.path(in: "/data"), pieceByteCount: self.pieceByteCount, files: self.files,
            store: self.store, SeededGenerator(seed: self.dice.next()))
        for _ in 0..<self.dice.int(5...40) {
            switch self.dice.int(0..<10) {
            case 0..<3: self.write()
            case 3..<6: try self.ship(self.dice.int(0..<self.sources.count), to: &journal)
            case 6..<9: try self.upload(&uploader, journal.end)
            default: self.store.deliverLate()
            }
        }
    }

    private mutating func write() {
        let source = self.dice.int(0..<self.sources.count)
        for _ in 0..<self.dice.int(1...8) {
            self.lineCount += 1
            let filler = String(repeating: "x", count: self.dice.int(0...60))
            self.sources[source].bytes += Array("{\"n\":\(self.lineCount),\"f\":\"\(filler)\"}\n".utf8)
        }
    }

    /// How many bytes of a stream the journal has, whether it is at rest or not.
    private static func held(
        of description: StreamDescription, in journal: inout Journal<FaultyFiles>
    ) throws(FileSystemError) -> Int {
        _ = try journal.wake(description)
        return Int(journal.position(of: description.name).rawValue)
    }

    private mutating func ship(_ index: Int, to journal: inout Journal<FaultyFiles>) throws {
        let source = self.sources[index]
        let held = try Self.held(of: source.description, in: &journal)
        if !self.keepsEverything, held < source.stored {
            self.violate("\(source.description.id.text) stands at \(held), and is gone below \(source.stored)")
            return
        }
        var end = held
        for _ in 0..<self.dice.int(1...5) {
            guard let newline = source.bytes[end...].firstIndex(of: 0x0A) else { break }
            end = newline + 1
        }
        guard end > held else { return }
        let raw = Array(source.bytes[held..<end])
        let payload = raw.withUnsafeBytes { raw in
            SharedBytes(capacity: self.deflater.byteCountMax(of: raw.count)) { self.deflater.deflate(raw, into: $0) }
        }
        var header = BatchHeader(
            stream: StreamNumber(1), offset: StreamOffset(UInt64(held)), rawByteCount: raw.count,
            lineCount: raw.count { $0 == 0x0A }, wireByteCount: payload.count, checksum: 0)
        header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: source.description.id), payload.bytes)
        let entry = JournalEntry.batch(header, payload: payload, raw: raw.withUnsafeBytes { SharedBytes($0) })
        _ = journal.stage(entry, of: source.description)
        self.now += 1_000
        _ = try journal.commit(at: WallTime(milliseconds: self.now))
        if self.bugs.contains(.sayAcknowledged) { self.sources[index].stored = end }
        self.promises.append(Promise(source: index, end: end, position: journal.end))
    }

    private mutating func upload(_ uploader: inout Uploader<FaultyFiles>, _ end: JournalPosition) throws {
        do throws(UploadFailure) {
            _ = try uploader.step(upTo: end)
        } catch {
            guard case .store = error else { throw error }
        }
        for promise in self.promises where promise.position <= uploader.stored {
            self.sources[promise.source].stored = max(self.sources[promise.source].stored, promise.end)
        }
        self.promises.removeAll { $0.position <= uploader.stored }
    }

    // MARK: How a start ends

    private mutating func end() throws {
        // Who was not told is told by the next start, or never.
        self.promises = []
        switch self.dice.int(0..<10) {
        case 0..<3: self.files.crash(seed: self.dice.next())
        case 3..<5 where self.keepsEverything: self.copy()
        case 5..<7 where self.keepsEverything: try self.putBack()
        default: try self.lose()
        }
    }

    private mutating func copy() {
        self.files.kill()
        let paths = Self.names(self.files).map { "/data/journal/" + $0 } + [UploadState.path(in: "/data")]
        self.copies.append(paths.compactMap { path in self.files.bytes(of: path).map { (path, $0) } })
    }

    private mutating func putBack() throws {
        guard !self.copies.isEmpty else { return self.files.kill() }
        self.files = FaultyFiles()
        try self.files.createDirectories("/data/journal")
        try self.files.createDirectories("/data/state")
        for (path, bytes) in self.dice.pick(self.copies) { self.files.place(path, bytes) }
    }

    /// The disk is lost, and the directory restored on another one, through deaths of the restore.
    private mutating func lose() throws {
        self.promises = []
        self.files = FaultyFiles()
        var isWell = false
        defer { if isWell { self.setFaults(self.faultPerMille) } }
        for attempt in 0..<200 {
            // No one reads a long segment to its end from a bucket that refuses each fifth call for ever.
            if attempt == 100 {
                isWell = true
                self.setFaults(0)
            }
            if attempt < 5, self.dice.chance(500) { self.files.stop(atCall: self.dice.int(1...300)) }
            do throws(RestoreFailure) {
                let restored = try self.restore()
                self.files.clearFaults()
                for trouble in restored.troubles { self.violate("the restore lacks \(trouble.text)") }
                return
            } catch {
                switch error {
                case .noJournal:
                    // Nothing was uploaded: an empty directory is all there is.
                    self.files.kill()
                    try self.files.createDirectories("/data/journal")
                    return try self.files.createDirectories("/data/state")
                case .notEmpty:
                    // It died after its last step.
                    return self.files.kill()
                case .disk, .store, .locked:
                    if self.dice.chance(500) { self.files.crash(seed: self.dice.next()) } else { self.files.kill() }
                case .ambiguous:
                    // Two copies had the same ends: an operator must say which it was, and none lives here.
                    self.isUndecided = true
                    return
                case .unknownChain, .notContinuous, .noSpace, .otherRestore: throw error
                }
            }
        }
        self.violate("the restore comes to no end")
    }

    private func restore() throws(RestoreFailure) -> RestoreReport {
        var restorer = Restorer(
            Restorer<FaultyFiles>.Setup(receiver: "r", fleet: "f", dataDirectory: "/data"), store: self.store,
            files: self.files,
            seed: StartSeed(id: self.dice.next(), incarnation: Incarnation(self.dice.next(), self.dice.next())))
        return try restorer.run()
    }

    // MARK: The end of the life

    private mutating func judge() throws {
        var journal = try self.open()
        for (index, source) in self.sources.enumerated() {
            let held = try Self.held(of: source.description, in: &journal)
            if !self.keepsEverything, held < source.stored {
                self.violate("\(source.description.id.text) stands at \(held), and the bucket had \(source.stored)")
                return
            }
            while try Self.held(of: source.description, in: &journal) < source.bytes.count {
                try self.ship(index, to: &journal)
            }
        }
        var found: [String: [Int: Int]] = [:]
        var reader = JournalReader(directory: "/data/journal", position: JournalPosition(0), files: self.files)
        while let record = try reader.next(upTo: journal.end) {
            found[record.description.id.text, default: [:]][Int(record.header.offset.rawValue)] =
                Int(record.header.end.rawValue)
        }
        for damage in reader.takeDamages() { self.violate("the journal is damaged: \(damage)") }
        for source in self.sources {
            var end = 0
            for (offset, next) in (found[source.description.id.text] ?? [:]).sorted(by: { $0.key < $1.key }) {
                if offset != end { self.violate("\(source.description.id.text) continues at \(offset) after \(end)") }
                end = next
            }
            if end != source.bytes.count { self.violate("\(source.description.id.text) ends at \(end)") }
        }
    }

    private static func names(_ files: FaultyFiles) -> [String] {
        do throws(FileSystemError) {
            return try files.list("/data/journal")
        } catch {
            preconditionFailure("a life's disk has a journal's folder: \(error)")
        }
    }

    private mutating func violate(_ text: String) {
        self.violation = self.violation ?? text
    }
}
