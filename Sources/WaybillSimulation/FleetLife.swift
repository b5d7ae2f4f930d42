internal import WaybillCompression
internal import WaybillFleet
internal import WaybillJournal
internal import WaybillProtocol
internal import WaybillStore
internal import WaybillSystem
internal import WaybillTestSupport

/// The life of a fleet: receivers whose journals go to one bucket in pieces, and mergers that join them, over a bucket that
/// refuses, forgets to answer and answers late, through deaths, lost disks and directories put back from copies, from one
/// seed.
///
///     sources ─▶ receivers (journal, uploader) ─▶ bucket ─▶ mergers (rounds, merged journal)
///
/// A source moves between receivers at any time: the next one is told what the bucket has of it, and gets the rest.
///
/// Held at the end: each merger has every line of every source exactly once, and all mergers have the same journal.
package struct FleetLife: ~Copyable {
    /// A file that is read by an agent.
    private struct Source {
        let description: StreamDescription
        var bytes: [UInt8] = []
        /// Up to where the bucket has it, as far as its agent was told.
        var stored = 0
        /// Up to where the present receiver acknowledged it.
        var acknowledged = 0
        var receiver = 0
    }

    private struct Promise {
        let source: Int
        let end: Int
        /// Where the receiver's journal ended with it.
        let position: JournalPosition
    }

    private final class Receiver {
        let files: FaultyFiles
        var journal: Journal<FaultyFiles>
        var uploader: Uploader<FaultyFiles>
        /// What it has acknowledged and not said to be stored.
        var promises: [Promise] = []

        init(_ files: FaultyFiles, _ store: any ObjectStore, name: String, _ dice: Dice) throws {
            self.files = files
            var journal = try Journal(
                directory: "/data/journal", files: files, segmentByteCountMax: dice.pick([3_000, 1 << 20]))
            try journal.begin(
                StartSeed(id: dice.next(), incarnation: Incarnation(dice.next(), dice.next())), isLossy: false,
                at: WallTime(milliseconds: 1_796_000_000_000))
            self.uploader = try Uploader(
                receiver: name, fleet: "f", journalDirectory: "/data/journal", end: journal.end,
                statePath: "/data/state/store.state", pieceByteCount: dice.pick([1, 900, 5_000]), files: files,
                store: store, SeededGenerator(seed: dice.next()))
            self.journal = journal
        }
    }

    private final class Merging {
        let files: FaultyFiles
        var merger: Merger<FaultyFiles>

        init(_ files: FaultyFiles, _ store: any ObjectStore, name: String) throws {
            self.files = files
            var setup = Merger<FaultyFiles>.Setup(
                name: name, fleet: Incarnation(1, 2), journalDirectory: "/data/journal",
                statePath: "/data/state/merge.state")
            setup.segmentByteCountMax = 20_000
            setup.discoveryInterval = .zero
            setup.roundByteCountMax = 8_000
            self.merger = try Merger(setup, files: files, store: store)
        }
    }

    private let dice: Dice
    private let bugs: Set<PlantedBug>
    private let store = MemoryStore(pageCount: 3)
    private var sources: [Source] = []
    private var receivers: [Receiver] = []
    private var mergers: [Merging] = []
    /// Copies of receivers' disks.
    private var copies: [Int: [(path: String, bytes: [UInt8])]] = [:]
    private var lineCount = 0
    private var now: Int64 = 1_796_000_000_000
    private var deflater = Deflater(level: 1)
    private var violation: String?

    /// Lives a life.
    ///
    /// - Returns: the promise that was broken; `nil` when all were kept.
    package static func run(seed: UInt64, bugs: Set<PlantedBug> = []) -> String? {
        var life = FleetLife(seed: seed, bugs: bugs)
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
    }

    private static var receiverCount: Int { 3 }
    private static var mergerCount: Int { 2 }

    private mutating func live() throws {
        for number in 0..<self.dice.int(1...6) {
            guard let id = StreamID("stream-\(number)") else { preconditionFailure("a stream's name") }
            self.sources.append(
                Source(
                    description: StreamDescription(
                        id: id, source: "/\(number).ndjson", environment: "prod", bundle: "com.example.shop",
                        format: .waybill)))
        }
        for number in 0..<Self.receiverCount { self.receivers.append(try self.receiver(number, Self.disk())) }
        for number in 0..<Self.mergerCount { self.mergers.append(try self.merging(number, Self.disk())) }
        let (chance, bugs) = (self.dice.next(), self.bugs)
        let perMille = self.dice.pick([0, 60, 200])
        self.store.setFaults { call in
            if call.verb == .create, call.key.hasPrefix("journal/") {
                if bugs.contains(.overwritePieces) { return .overwritten }
                if bugs.contains(.trustTakenKeys) { return .claimed }
            }
            var generator = SeededGenerator(seed: chance &+ UInt64(call.number))
            guard Int.random(in: 0..<1000, using: &generator) < perMille else { return nil }
            return [.refused(.busy), .unanswered, .late].randomElement(using: &generator)
        }
        for _ in 0..<self.dice.int(20...120) { try self.act() }
        self.store.setFaults { call in
            guard call.verb == .create, call.key.hasPrefix("journal/") else { return nil }
            if bugs.contains(.overwritePieces) { return .overwritten }
            return bugs.contains(.trustTakenKeys) ? .claimed : nil
        }
        self.store.deliverLate()
        try self.settle()
        self.judge()
    }

    private static func disk() throws -> FaultyFiles {
        let files = FaultyFiles()
        try files.createDirectories("/data/journal")
        try files.createDirectories("/data/state")
        return files
    }

    private func receiver(_ number: Int, _ files: FaultyFiles) throws -> Receiver {
        try Receiver(files, self.store, name: "r\(number)", self.dice)
    }

    private func merging(_ number: Int, _ files: FaultyFiles) throws -> Merging {
        try Merging(files, self.store, name: "m\(number)")
    }

    // MARK: What happens

    private mutating func act() throws {
        switch self.dice.int(0..<100) {
        case 0..<25: self.write()
        case 25..<55: try self.ship(self.dice.int(0..<self.sources.count))
        case 55..<75: try self.upload(self.dice.int(0..<Self.receiverCount))
        case 75..<87: _ = try self.merge(self.dice.int(0..<Self.mergerCount))
        case 87..<90: self.move(self.dice.int(0..<self.sources.count), to: self.dice.int(0..<Self.receiverCount))
        case 90..<92: try self.restartReceiver(self.dice.int(0..<Self.receiverCount))
        case 92: try self.loseReceiver(self.dice.int(0..<Self.receiverCount))
        case 93..<95: self.copyReceiver(self.dice.int(0..<Self.receiverCount))
        case 95: try self.putBackReceiver(self.dice.int(0..<Self.receiverCount))
        case 96..<98: try self.restartMerger(self.dice.int(0..<Self.mergerCount))
        case 98: try self.loseMerger(self.dice.int(0..<Self.mergerCount))
        default: self.store.deliverLate()
        }
    }

    /// An app writes lines.
    private mutating func write() {
        let source = self.dice.int(0..<self.sources.count)
        for _ in 0..<self.dice.int(1...8) {
            self.lineCount += 1
            let filler = String(repeating: "x", count: self.dice.int(0...60))
            self.sources[source].bytes += Array("{\"n\":\(self.lineCount),\"f\":\"\(filler)\"}\n".utf8)
        }
    }

    /// The source's agent sends a batch to its receiver, from where that one stands.
    private mutating func ship(_ index: Int) throws {
        let source = self.sources[index]
        let receiver = self.receivers[source.receiver]
        var held = Int(receiver.journal.position(of: source.description.name).rawValue)
        let told = self.bugs.contains(.sayAcknowledged) ? max(source.stored, source.acknowledged) : source.stored
        if told > held {
            let end = StreamOffset(UInt64(told))
            let tail = Array(source.bytes[(told - StreamProof.byteCount(at: end))..<told])
            guard
                let range = SkippedRange(
                    offset: StreamOffset(UInt64(held)), byteCount: UInt64(told - held), reason: .elsewhere, tail: tail)
            else { preconditionFailure("a skip from \(held) to \(told)") }
            _ = receiver.journal.stage(.skip(range), of: source.description)
            held = told
        }
        var end = held
        for _ in 0..<self.dice.int(1...5) {
            guard let newline = source.bytes[end...].firstIndex(of: 0x0A) else { break }
            end = newline + 1
        }
        if end > held {
            _ = receiver.journal.stage(self.batch(source, held..<end), of: source.description)
        }
        guard receiver.journal.hasStaged else { return }
        self.now += 1_000
        _ = try receiver.journal.commit(at: WallTime(milliseconds: self.now))
        self.sources[index].acknowledged = end
        receiver.promises.append(Promise(source: index, end: end, position: receiver.journal.end))
    }

    private mutating func batch(_ source: Source, _ range: Range<Int>) -> JournalEntry {
        let raw = Array(source.bytes[range])
        let payload = raw.withUnsafeBytes { raw in
            SharedBytes(capacity: self.deflater.byteCountMax(of: raw.count)) { self.deflater.deflate(raw, into: $0) }
        }
        var header = BatchHeader(
            stream: StreamNumber(1), offset: StreamOffset(UInt64(range.lowerBound)), rawByteCount: raw.count,
            lineCount: raw.count { $0 == 0x0A }, wireByteCount: payload.count, checksum: 0)
        header.checksum = FrameChecksum.checksum(
            of: header.checksummedText(id: source.description.id), payload.bytes)
        return .batch(header, payload: payload, raw: raw.withUnsafeBytes { SharedBytes($0) })
    }

    /// The agent goes to another receiver.
    private mutating func move(_ source: Int, to receiver: Int) {
        self.sources[source].receiver = receiver
    }

    @discardableResult
    private mutating func upload(_ number: Int) throws -> Bool {
        let receiver = self.receivers[number]
        do throws(UploadFailure) {
            let step = try receiver.uploader.step(upTo: receiver.journal.end)
            let stored = receiver.uploader.stored
            for promise in receiver.promises where promise.position <= stored {
                let known = self.sources[promise.source].stored
                self.sources[promise.source].stored = max(known, promise.end)
            }
            receiver.promises.removeAll { $0.position <= stored }
            return step != .idle
        } catch {
            guard case .store = error else { throw error }
            return true
        }
    }

    /// - Returns: whether there was something to merge.
    private mutating func merge(_ number: Int) throws -> Bool {
        self.now += 700
        do throws(MergeFailure) {
            let now = MonotonicTime(nanoseconds: self.now * 1_000_000)
            return try self.mergers[number].merger.step(now: WallTime(milliseconds: self.now), now) != .idle
        } catch {
            guard case .store = error else { throw error }
            return true
        }
    }

    // MARK: Troubles

    private mutating func restartReceiver(_ number: Int) throws {
        let files = self.receivers[number].files
        files.crash(seed: self.dice.next())
        // What nobody was told before the power went is told nobody now.
        self.receivers[number] = try self.receiver(number, files)
    }

    private mutating func loseReceiver(_ number: Int) throws {
        self.receivers[number] = try self.receiver(number, Self.disk())
        for index in self.sources.indices where self.sources[index].receiver == number {
            self.sources[index].acknowledged = 0
        }
    }

    private mutating func copyReceiver(_ number: Int) {
        let files = self.receivers[number].files
        let names = Self.journalNames(files).map { "/data/journal/" + $0 }
        self.copies[number] = (names + ["/data/state/store.state"]).compactMap { path in
            files.bytes(of: path).map { (path, $0) }
        }
    }

    private mutating func putBackReceiver(_ number: Int) throws {
        guard let copy = self.copies[number] else { return }
        let files = try Self.disk()
        for (path, bytes) in copy { files.place(path, bytes) }
        self.receivers[number] = try self.receiver(number, files)
    }

    private mutating func restartMerger(_ number: Int) throws {
        let files = self.mergers[number].files
        files.crash(seed: self.dice.next())
        self.mergers[number] = try self.merging(number, files)
    }

    private mutating func loseMerger(_ number: Int) throws {
        self.mergers[number] = try self.merging(number, Self.disk())
    }

    // MARK: The end

    /// All that was written is shipped, uploaded and merged.
    private mutating func settle() throws {
        for index in self.sources.indices {
            while true {
                let source = self.sources[index]
                let held = Int(self.receivers[source.receiver].journal.position(of: source.description.name).rawValue)
                if held >= source.bytes.count { break }
                try self.ship(index)
            }
        }
        for number in 0..<Self.receiverCount { while try self.upload(number) {} }
        for number in 0..<Self.mergerCount { while try self.merge(number) {} }
        for number in 0..<Self.mergerCount { while try self.merge(number) {} }
    }

    private mutating func judge() {
        var first: [UInt8]?
        for (number, merging) in self.mergers.enumerated() {
            var lines: [String: [Int: [UInt8]]] = [:]
            var reader = JournalReader(directory: "/data/journal", position: JournalPosition(0), files: merging.files)
            var inflater = Inflater()
            do {
                while let record = try reader.next(upTo: merging.merger.end) {
                    var raw = [UInt8](repeating: 0, count: record.header.rawByteCount)
                    try raw.withUnsafeMutableBytes { try inflater.inflate(record.payload, into: $0) }
                    var start = 0
                    while start < raw.count, let newline = raw[start...].firstIndex(of: 0x0A) {
                        let offset = Int(record.header.offset.rawValue) + start
                        let id = record.description.id.text
                        if lines[id]?[offset] != nil { self.violate("m\(number) has line \(offset) of \(id) twice") }
                        lines[id, default: [:]][offset] = Array(raw[start...newline])
                        start = newline + 1
                    }
                }
            } catch {
                self.violate("m\(number) cannot read its journal: \(error)")
            }
            for source in self.sources {
                let id = source.description.id.text
                var bytes: [UInt8] = []
                for (offset, line) in (lines[id] ?? [:]).sorted(by: { $0.key < $1.key }) {
                    if offset != bytes.count { break }
                    bytes += line
                }
                if bytes != source.bytes {
                    self.violate("m\(number) has \(bytes.count) of \(source.bytes.count) bytes of \(id)")
                }
            }
            if merging.merger.tally.conflictLineCount + merging.merger.tally.unprovenLineCount > 0 {
                self.violate("m\(number) found conflicts where every source has one content: \(merging.merger.tally)")
            }
            let journal = Self.journal(of: merging)
            if let first, first != journal { self.violate("the mergers' journals differ") }
            first = journal
        }
    }

    private static func journalNames(_ files: FaultyFiles) -> [String] {
        do throws(FileSystemError) {
            return try files.list("/data/journal")
        } catch {
            preconditionFailure("a life's disk has a journal's folder: \(error)")
        }
    }

    private static func journal(of merging: Merging) -> [UInt8] {
        Self.journalNames(merging.files).filter { $0.hasSuffix(".journal") }.sorted().flatMap {
            Array($0.utf8) + (merging.files.bytes(of: "/data/journal/" + $0) ?? [])
        }
    }

    private mutating func violate(_ text: String) {
        self.violation = self.violation ?? text
    }
}
