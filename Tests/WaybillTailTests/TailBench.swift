import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// An agent without a network: a tail, and a receiver that keeps what it is sent, by stream.
final class TailBench<Files: FileSystem> {
    let files: Files
    let root: String
    var limits: TailLimits
    let sources: [SourceConfiguration]
    let agent = AgentName("agent") ?? { preconditionFailure("a good name") }()

    private var tail: Tail<Files>?
    private let buffer: UnsafeMutableRawBufferPointer
    private(set) var milliseconds: Int64 = 1_790_000_000_000

    /// What the receiver holds, by stream id.
    var received: [String: [UInt8]] = [:]
    var sealed: Set<String> = []
    var skipped: [String: [String]] = [:]
    /// Whether what is shipped stays on its way until ``deliver()``.
    var isSlow = false
    /// Whether seals stay unanswered.
    var holdsSeals = false
    /// Seals that were handed out and not answered.
    var heldSeals: [String] = []
    private var inFlight: [(key: StreamKey, id: String, offset: Int, bytes: [UInt8])] = []
    /// In the order in which they were first opened.
    var order: [String] = []
    var notices: [TailNotice] = []
    var finalUnterminatedCount = 0

    init(
        _ files: Files, root: String = "", sources: [SourceConfiguration]? = nil, limits: TailLimits = TailLimits()
    ) throws {
        self.files = files
        self.root = root
        self.limits = limits
        self.sources =
            sources ?? [
                SourceConfiguration(name: "app", kind: .files(patterns: [root + "/log/*.log"])),
                SourceConfiguration(name: "spool", kind: .spool(directory: root + "/spool")),
            ]
        self.buffer = .allocate(byteCount: max(limits.lineByteCountMax, 1 << 16), alignment: 16)
        for directory in ["/log", "/spool", "/state", "/state/quarantine"] {
            try files.createDirectory(root + directory)
        }
        try self.start()
    }

    deinit {
        self.buffer.deallocate()
    }

    var registryPath: String { self.root + "/state/registry" }

    var now: TailTime {
        TailTime(
            monotonic: MonotonicTime(nanoseconds: self.milliseconds * 1_000_000),
            wall: WallTime(milliseconds: self.milliseconds))
    }

    func withTail<Result>(_ body: (inout Tail<Files>) throws -> Result) rethrows -> Result {
        guard self.tail != nil else { preconditionFailure("the agent is stopped") }
        return try body(&self.tail!)  // Checked in the line above.
    }

    // MARK: The agent's life

    func start() throws {
        let registry = try StateLog(path: self.registryPath, files: self.files)
        self.tail = Tail(
            fileSystem: self.files, registry: registry, agent: self.agent, sources: self.sources,
            quarantineDirectory: self.root + "/state/quarantine", limits: self.limits)
    }

    /// Stops without a last checkpoint, as SIGKILL does.
    func kill() {
        self.tail = nil
        self.inFlight = []
    }

    func restart() throws {
        self.kill()
        try self.start()
    }

    func advance(_ milliseconds: Int64) {
        self.milliseconds += milliseconds
    }

    func scan() {
        let now = self.now
        self.withTail { $0.scan(now) }
        self.takeNotices()
    }

    func hint(_ paths: String...) {
        let now = self.now
        self.withTail { $0.pathsChanged(paths, now) }
        self.takeNotices()
    }

    func checkpoint() throws {
        let now = self.now
        try self.withTail { tail in try tail.checkpoint(now) }
    }

    func takeNotices() {
        self.notices += self.withTail { $0.takeNotices() }
    }

    // MARK: The connection

    /// Ships what is ready; returns the number of reads.
    @discardableResult
    func ship(readCountMax: Int = .max, byteCountMax: Int = 1 << 16) -> Int {
        var count = 0
        while count < readCountMax, let key = self.withTail({ $0.nextReady() }) {
            count += 1
            precondition(count < 1_000_000, "the ready queue does not run dry")
            self.step(key, byteCountMax: byteCountMax)
        }
        if !self.isSlow { self.deliver() }
        self.takeNotices()
        return count
    }

    /// Lets what is in flight arrive, and be acknowledged.
    func deliver() {
        for (key, id, offset, bytes) in self.inFlight {
            let own = self.received[id] ?? []
            #expect(offset == own.count, "a gap or a repetition in \(id)")
            #expect(!self.sealed.contains(id), "bytes behind the seal of \(id)")
            self.received[id] = own + bytes
            self.withTail { $0.acked(key, upTo: offset + bytes.count) }
        }
        self.inFlight = []
    }

    /// Scans and ships until nothing is left to do now.
    func run() {
        self.isSlow = false
        for _ in 0..<3 {
            self.scan()
            self.ship()
        }
    }

    /// Runs, and lets files that are gone or renamed away be sealed.
    func settle() {
        self.run()
        self.advance(601_000)
        self.run()
        self.advance(601_000)
        self.run()
    }

    /// What is in flight is lost.
    func loseConnection() {
        self.inFlight = []
        self.withTail { $0.connectionLost() }
    }

    private func step(_ key: StreamKey, byteCountMax: Int) {
        let now = self.now
        let id = self.withTail { $0.id(of: key) }.description
        let read = self.withTail { [buffer] in
            $0.nextBatch(for: key, byteCountMax: byteCountMax, into: buffer, now)
        }
        switch read {
        case .nothing: break
        case .unpositioned:
            if self.received.updateValue(self.received[id] ?? [], forKey: id) == nil { self.order.append(id) }
            let offset = self.received[id]?.count ?? 0
            self.withTail { tail in
                tail.positionLearned(key, at: offset)
                if self.sealed.contains(id) { tail.sealedByReceiver(key) }
            }
        case .batch(let offset, let count, let lineCount, let isFinal):
            let bytes = Array(self.buffer[..<count])
            let lineFeeds = bytes.count { $0 == 0x0A }
            #expect(lineFeeds == (isFinal ? 0 : lineCount))
            #expect((bytes.last == 0x0A) == !isFinal)
            if isFinal { self.finalUnterminatedCount += 1 }
            self.inFlight.append((key, id, offset, bytes))
        case .skip(let offset, let length, let reason):
            self.skipped[id, default: []].append("\(offset)+\(length) \(reason.rawValue)")
            self.inFlight.append((key, id, offset, [UInt8](repeating: 0, count: length)))
        case .sealed(let length):
            self.deliver()
            #expect(length == self.received[id]?.count, "\(id)")
            guard !self.holdsSeals else { return self.heldSeals.append(id) }
            self.sealed.insert(id)
            self.withTail { $0.sealedByReceiver(key) }
        }
    }

    /// What was said to be lost: how, of which file, from which byte on, and how many.
    var losses: [String] {
        self.notices.compactMap { notice in
            switch notice {
            case .cut(_, let path, let offset, let count): "cut \(path) \(offset)+\(count)"
            case .vanished(_, let path, let offset, let count): "vanished \(path) \(offset)+\(count)"
            default: nil
            }
        }
    }

    /// From which byte on each stream was said to be lost.
    var lostFrom: [String: [Int]] {
        var offsets: [String: [Int]] = [:]
        for notice in self.notices {
            switch notice {
            case .cut(let id?, _, let offset, _), .vanished(let id?, _, let offset, _):
                offsets[id.description, default: []].append(offset)
            default: break
            }
        }
        return offsets
    }

    // MARK: What arrived

    /// What the receiver holds, stream by stream, in the order in which they were opened.
    var texts: [String] {
        self.order.compactMap { self.received[$0] }.map { String(decoding: $0, as: UTF8.self) }
    }
}

/// What other programs do to files.
extension FaultyFiles {
    func exists(_ path: String) -> Bool { self.inode(of: path) != nil }

    func inode(of path: String) -> UInt64? { self.memory.node(at: path)?.number }

    /// Appends, creating the file; the kernel has written back by then, so that the inode may be a used one.
    func append(_ path: String, _ bytes: some Sequence<UInt8>) {
        if !self.exists(path) { self.memory.writeBack() }
        self.place(path, (self.bytes(of: path) ?? []) + bytes)
    }

    func append(_ path: String, _ text: String) { self.append(path, text.utf8) }

    /// Replaces a file's bytes in place.
    func rewrite(_ path: String, _ text: String) { self.place(path, Array(text.utf8)) }

    func remove(_ path: String) { self.change { disk throws(FileSystemError) in try disk.unlink(path) } }

    func move(_ path: String, _ newPath: String) {
        self.change { disk throws(FileSystemError) in try disk.rename(path, to: newPath) }
    }

    func makeDirectory(_ path: String) {
        self.change { disk throws(FileSystemError) in try disk.createDirectories(path) }
    }

    /// Does nothing where nothing is.
    private func change(_ body: (MemoryDisk) throws(FileSystemError) -> Void) {
        do throws(FileSystemError) { try body(self.memory) } catch {}
    }
}
