import Testing
import WaybillProtocol
import WaybillSystem

/// An agent with files, a receiver with a journal, and a connection between them that damages, delays and breaks.
///
/// Everything happens in one thread in an order that the seed decides. The two session machines are the real ones; the
/// drivers around them are as small as the protocol allows, and payloads are the raw bytes.
struct SessionSimulation: ~Copyable {
    private struct Held {
        /// What was skipped is zero here.
        var bytes: [UInt8] = []
        var skipped: [Range<Int>] = []
        var tail = StreamTail()
        var isSealed = false

        var position: StreamOffset { StreamOffset(UInt64(self.bytes.count)) }

        /// Whether this is the file, but for what was skipped.
        func isPrefix(of file: [UInt8]) -> Bool {
            self.bytes.count <= file.count
                && self.bytes.indices.allSatisfy { index in
                    self.bytes[index] == file[index] || self.skipped.contains { $0.contains(index) }
                }
        }
    }

    private enum Work {
        case open(StreamNumber, StreamID)
        case batch(StreamNumber, StreamID, BatchHeader, payload: [UInt8])
        case skip(StreamNumber, StreamID, SkippedRange)
        case seal(StreamNumber, StreamID, length: StreamOffset)
    }

    /// Where the agent stands with one of its files on this connection.
    private enum Standing {
        case closed
        case opening
        case open(cursor: Int)
        case sealing
        case finished
    }

    private var random: SeededGenerator
    private let files: [[UInt8]]
    private let faultRate: Int
    private let window: Int

    // The agent.
    private var sender = SenderSession()
    private var standings: [Standing]
    private var acked: [Int]
    private(set) var finished: Set<Int> = []

    // The connection.
    private var upward: [(message: Message, payload: [UInt8])] = []
    private var downward: [[Message]] = []

    // The receiver.
    private var receiver: ReceiverSession
    private var works: [Work] = []
    private var held: [StreamID: Held] = [:]
    /// Grows with whatever becomes durable.
    private var journalEnd: UInt64 = 0
    private(set) var breakCount = 0
    private(set) var refusalCount = 0

    /// - Parameter faultRate: how many batches in 200 are damaged, and how many steps in 2000 break the connection.
    init(seed: UInt64, fileCount: Int, faultRate: Int) {
        var random = SeededGenerator(seed: seed)
        self.files = (0..<fileCount).map { _ in
            (0..<Int.random(in: 0...1500, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
        }
        self.window = Int.random(in: 1...300, using: &random)
        self.faultRate = faultRate
        self.standings = Array(repeating: .closed, count: fileCount)
        self.acked = Array(repeating: 0, count: fileCount)
        self.receiver = ReceiverSession(limits: Sample.limits(window: self.window, raw: 1000, wire: 1000, streams: 8))
        self.random = random
        self.connect()
    }

    private func id(_ file: Int) -> StreamID {
        Sample.id("file-\(file)")
    }

    private func number(_ file: Int) -> StreamNumber {
        StreamNumber(UInt64(file + 1))
    }

    private func file(_ number: StreamNumber) -> Int {
        Int(number.rawValue) - 1
    }

    private mutating func chance(_ share: Int, in total: Int) -> Bool {
        Int.random(in: 0..<total, using: &self.random) < share
    }

    var isDone: Bool {
        self.finished.count == self.files.count
    }

    /// Every file is held as it is, and no more.
    var isFaithful: Bool {
        self.files.indices.allSatisfy { file in
            self.held[self.id(file)].map {
                $0.isPrefix(of: self.files[file]) && $0.bytes.count == self.files[file].count && $0.isSealed
            } ?? false
        }
    }

    mutating func step() throws {
        if self.chance(self.faultRate, in: 2000) { self.connect() }
        switch Int.random(in: 0...3, using: &self.random) {
        case 0: self.agentSends()
        case 1: try self.receiverReads()
        case 2: self.committerWorks()
        default: self.agentReads()
        }
    }

    // MARK: The connection

    /// Breaks the connection, wherever everything is, and makes a new one.
    private mutating func connect() {
        self.breakCount += 1
        // What has reached the committer may or may not be written.
        for _ in 0..<Int.random(in: 0...self.works.count, using: &self.random) { self.committerWorks() }
        self.works = []
        self.upward = []
        self.downward = []
        self.sender = SenderSession()
        self.receiver = ReceiverSession(limits: Sample.limits(window: self.window, raw: 1000, wire: 1000, streams: 8))
        for file in self.files.indices where !self.finished.contains(file) { self.standings[file] = .closed }
        self.perform(self.sender.start(Sample.hello))
    }

    private mutating func answer(_ messages: [Message]) {
        if !messages.isEmpty { self.downward.append(messages) }
    }

    // MARK: The agent

    private mutating func agentSends() {
        guard self.sender.limits != nil, let file = self.files.indices.randomElement(using: &self.random) else {
            return
        }
        switch self.standings[file] {
        case .closed:
            self.standings[file] = .opening
            self.perform(self.sender.open(self.number(file), Sample.description(self.id(file).text)))
        case .open(let cursor) where cursor < self.files[file].count && self.chance(1, in: 20):
            self.agentSkips(file, at: cursor)
        case .opening, .sealing, .finished:
            return
        case .open(let cursor) where cursor == self.files[file].count:
            self.standings[file] = .sealing
            self.perform(self.sender.seal(self.number(file), length: StreamOffset(UInt64(cursor))))
        case .open(let cursor):
            let raw = Int.random(in: 1...min(120, self.files[file].count - cursor), using: &self.random)
            guard self.sender.admits(rawByteCount: raw) else { return }
            let header = Sample.header(self.number(file), at: UInt64(cursor), raw: raw, wire: raw)
            self.sender.batchSent(header)
            let inFlight = self.sender.inFlightByteCount
            let bound = max(self.window, raw)
            #expect(inFlight <= bound)
            self.standings[file] = .open(cursor: cursor + raw)
            self.upward.append((.batch(header), Array(self.files[file][cursor..<(cursor + raw)])))
        }
    }

    private mutating func agentSkips(_ file: Int, at cursor: Int) {
        let end = Int.random(in: (cursor + 1)...min(cursor + 200, self.files[file].count), using: &self.random)
        let tail = Array(self.files[file][..<end].suffix(StreamProof.byteCountMax))
        guard
            let range = SkippedRange(
                offset: StreamOffset(UInt64(cursor)), byteCount: UInt64(end - cursor), reason: .tooLong, tail: tail)
        else { preconditionFailure("the tail has as many bytes as its offset demands") }
        self.standings[file] = .open(cursor: end)
        self.perform(self.sender.skip(self.number(file), range))
    }

    /// The proof that the agent's own file gives.
    private func proof(_ file: Int, at offset: StreamOffset) -> StreamProof {
        let tail = self.files[file].prefix(Int(offset.rawValue)).suffix(StreamProof.byteCountMax)
        return StreamProof(of: self.id(file), at: offset, tail: tail)
    }

    private mutating func agentReads() {
        guard !self.downward.isEmpty else { return }
        for message in self.downward.removeFirst() {
            if let action = self.sender.receive(message) { self.perform(action) }
        }
    }

    private mutating func perform(_ action: SenderSession.Action) {
        switch action {
        case .send(let message):
            self.upward.append((message, []))
        case .seek(let number, let offset, let proof, _):
            let file = self.file(number)
            let expected = self.proof(file, at: offset)
            #expect(proof.coversSame(as: expected), "the proof is of the file's bytes, however they came")
            let acked = self.acked[file]
            #expect(Int(offset.rawValue) >= acked, "what was acknowledged is held")
            self.standings[file] = .open(cursor: Int(offset.rawValue))
            self.acked[file] = Int(offset.rawValue)
        case .advance(let number, let offset, let end):
            let file = self.file(number)
            let durable = self.held[self.id(file)]?.bytes.count ?? 0
            #expect(Int(offset.rawValue) <= durable, "what is acknowledged is durable")
            let journalEnd = self.journalEnd
            #expect(end <= journalEnd)
            self.acked[file] = Int(offset.rawValue)
        case .finish(let number, let proof, _):
            let file = self.file(number)
            let held = self.held[self.id(file)] ?? Held()
            let expected = self.files[file]
            #expect(held.isSealed)
            #expect(
                held.isPrefix(of: expected) && held.bytes.count == expected.count, "nothing is deleted that is not held"
            )
            let wholeProof = self.proof(file, at: StreamOffset(UInt64(expected.count)))
            #expect(proof == wholeProof.skipping(held.tail.skippedByteCount))
            self.standings[file] = .finished
            self.finished.insert(file)
        case .reopen(let number, _, _, _):
            self.standings[self.file(number)] = .closed
        case .start, .pause:
            break
        case .stored, .note:
            Issue.record("this receiver has no fleet and no quarantine")
        case .close(let failure):
            Issue.record("the agent gave up: \(failure)")
        case .move:
            Issue.record("no one asked the agent to move")
        }
    }

    // MARK: The receiver

    private mutating func receiverReads() throws {
        guard !self.upward.isEmpty else { return }
        let (sent, payload) = self.upward.removeFirst()
        let message = try #require(try sent.encoded.withUnsafeBytes { try Message.decode(prefixOf: $0) }).message
        guard let action = self.receiver.receive(message) else { return }
        switch action {
        case .reply(let reply): self.answer([reply])
        case .admit: self.answer([self.receiver.admit(Sample.ready(window: self.window))])
        case .open(let number, let description, _): self.works.append(.open(number, description.id))
        case .readBatch(let header, let id):
            if self.chance(self.faultRate, in: 200) {
                self.refusalCount += 1
                self.answer(self.receiver.refused(header.stream, at: header.offset, .corrupt, text: "damaged"))
            } else {
                self.works.append(.batch(header.stream, id, header, payload: payload))
            }
        case .discardBatch: break
        case .refuseBatch: Issue.record("this receiver has no fleet: no SEALED waits")
        case .skip(let number, let id, let range): self.works.append(.skip(number, id, range))
        case .seal(let number, let id, let length): self.works.append(.seal(number, id, length: length))
        case .close(let message): Issue.record("the receiver gave up: \(message)")
        }
    }

    private mutating func committerWorks() {
        guard !self.works.isEmpty else { return }
        switch self.works.removeFirst() {
        case .open(let number, let id):
            let held = self.held[id] ?? Held()
            self.answer(
                self.receiver.opened(
                    number, at: held.position, held.tail.proof(of: id), isSealed: held.isSealed, end: self.journalEnd))
        case .batch(let number, let id, let header, let payload):
            self.store(number, id, at: header.offset, end: header.end) { held in
                held.bytes += payload
                payload.withUnsafeBytes { held.tail.append($0) }
            }
        case .skip(let number, let id, let range):
            self.store(number, id, at: range.offset, end: range.end) { held in
                held.skipped.append(held.bytes.count..<Int(range.end.rawValue))
                held.bytes += Array(repeating: 0, count: Int(range.byteCount))
                held.tail.skip(range)
            }
        case .seal(let number, let id, let length):
            let held = self.held[id] ?? Held()
            if length == held.position {
                self.held[id, default: Held()].isSealed = true
                self.journalEnd += 1
                self.answer(self.receiver.sealed(number, held.tail.proof(of: id), end: self.journalEnd))
            } else {
                self.answer(self.receiver.refused(number, at: held.position, .gap, text: "the stream ends elsewhere"))
            }
        }
    }

    private mutating func store(
        _ number: StreamNumber, _ id: StreamID, at offset: StreamOffset, end: StreamOffset, _ take: (inout Held) -> Void
    ) {
        let position = self.held[id]?.position ?? StreamOffset(0)
        if end <= position {
            self.answer(self.receiver.durable(number, upTo: position, end: self.journalEnd))
        } else if offset == position {
            take(&self.held[id, default: Held()])
            self.journalEnd += 1
            self.answer(self.receiver.durable(number, upTo: end, end: self.journalEnd))
        } else {
            self.answer(self.receiver.refused(number, at: position, .gap, text: "gap"))
        }
    }
}

@Suite struct SessionPropertyTests {
    @Test(arguments: 0..<UInt64(300))
    func `every file arrives once and whole over connections that damage and break`(seed: UInt64) throws {
        let faults = Int(seed % 4) * 10
        var simulation = SessionSimulation(seed: seed, fileCount: 1 + Int(seed % 5), faultRate: faults)
        for _ in 0..<60_000 where !simulation.isDone { try simulation.step() }
        #expect(simulation.isDone == true, "the machines stand still")
        #expect(simulation.isFaithful == true)
    }

    @Test func `the faults happen`() throws {
        var (breakCount, refusalCount) = (0, 0)
        for seed in 0..<UInt64(20) {
            var simulation = SessionSimulation(seed: seed, fileCount: 4, faultRate: 30)
            for _ in 0..<60_000 where !simulation.isDone { try simulation.step() }
            breakCount += simulation.breakCount
            refusalCount += simulation.refusalCount
        }
        #expect(breakCount > 60)
        #expect(refusalCount > 60)
    }

    @Test(arguments: 0..<UInt64(100))
    func `no order of messages breaks a machine, and closed is closed`(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var receiver = ReceiverSession(limits: Sample.limits())
        var sender = SenderSession()
        _ = sender.start(Sample.hello)
        var isSenderClosed = false
        for _ in 0..<300 {
            let message = Sample.messages.randomElement(using: &generator) ?? .bye
            let wasClosed = receiver.isClosed
            let action = receiver.receive(message)
            if case .admit = action { _ = receiver.admit(Sample.ready()) }
            if case .open(let stream, _, _) = action {
                _ = receiver.opened(
                    stream, at: StreamOffset(0), .empty, isSealed: Bool.random(using: &generator), end: 0)
            }
            let isClosed = receiver.isClosed
            #expect(!wasClosed || (action == nil && isClosed))
            let answer = sender.receive(message)
            #expect(!isSenderClosed || answer == nil)
            if case .close = answer { isSenderClosed = true }
            if sender.limits == nil, case .move = answer { isSenderClosed = true }
            #expect(sender.inFlightByteCount == 0)
        }
    }
}
