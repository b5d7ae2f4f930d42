import Logging
import Testing
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillFleet
import WaybillProjection
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

@testable import WaybillDelivery

/// Several mergers' deliveries in one process, one step of one of them at a time, in an order that a seed decides.
///
/// A delivery stops at each call of the bucket and at each pause, until it is its turn. A request to the provider happens
/// in the step in which it is made.
actor FleetTurns {
    private var parked: [Int: CheckedContinuation<Bool, Never>] = [:]
    private var runningCount = 0
    private var director: CheckedContinuation<Void, Never>?

    /// Deliveries that wait for their turn, in order.
    var waiting: [Int] { self.parked.keys.sorted() }

    func begin() {
        self.runningCount += 1
    }

    func end() {
        self.runningCount -= 1
        self.wake()
    }

    /// - Returns: `false` if the process dies here.
    func turn(_ number: Int) async -> Bool {
        await withCheckedContinuation { continuation in
            self.parked[number] = continuation
            self.runningCount -= 1
            self.wake()
        }
    }

    private func wake() {
        guard self.runningCount == 0, let director else { return }
        self.director = nil
        director.resume()
    }

    /// Lets one continue, or die, until it stops again.
    func step(_ number: Int, isAlive: Bool = true) async {
        guard let continuation = self.parked.removeValue(forKey: number) else {
            preconditionFailure("\(number) does not wait")
        }
        self.runningCount += 1
        continuation.resume(returning: isAlive)
        await self.settle()
    }

    /// Returns when all wait or have ended.
    func settle() async {
        guard self.runningCount > 0 else { return }
        await withCheckedContinuation { self.director = $0 }
    }
}

/// The bucket, as one process reaches it.
private struct StagedBucket: ClaimBucket {
    let store: MemoryStore
    let gate: @Sendable () async throws(StoreError) -> Void

    func fleet() async throws(StoreError) -> String? {
        try await self.gate()
        return FleetStage.fleet
    }

    func create(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Creation {
        try await self.gate()
        return try self.store.create(key, ObjectBody(bytes))
    }

    func read(_ key: String) async throws(StoreError) -> [UInt8]? {
        try await self.gate()
        return try self.store.read(key, 0..<ClaimObject.byteCountMax)
    }
}

/// The bucket, as the command `--take-over` reaches it: between two steps, without faults.
private struct DirectBucket: ClaimBucket {
    let store: MemoryStore

    func fleet() async throws(StoreError) -> String? { FleetStage.fleet }
    func create(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Creation {
        try self.store.create(key, ObjectBody(bytes))
    }
    func read(_ key: String) async throws(StoreError) -> [UInt8]? { try self.store.read(key, nil) }
}

/// A provider that remembers who sent what.
final class StagedProvider: Sendable {
    struct Receipt: Hashable {
        let merger: Int
        let life: Int
        let record: Int
    }

    private let taken = Lock<[Receipt]>([])
    /// What a request is answered that begins with this record.
    private let answer: @Sendable (_ record: Int, _ attempt: Int) -> Answer
    private let attempts = Lock<[Int: Int]>([:])

    init(answer: @escaping @Sendable (_ record: Int, _ attempt: Int) -> Answer) {
        self.answer = answer
    }

    var receipts: [Receipt] { self.taken.withLock { $0 } }

    func send(_ request: DeliveryRequest, by merger: Int, life: Int) -> Answer {
        let records = Self.numbers(in: request.body)
        let attempt = self.attempts.withLock { attempts -> Int in
            attempts[records.first ?? 0, default: 0] += 1
            return attempts[records.first ?? 0] ?? 0
        }
        let answer = self.answer(records.first ?? 0, attempt)
        guard case .notSent = answer else {
            self.taken.withLock { $0 += records.map { Receipt(merger: merger, life: life, record: $0) } }
            return answer
        }
        return answer
    }

    /// The numbers behind each `"n":`.
    private static func numbers(in body: [UInt8]) -> [Int] {
        String(decoding: body, as: UTF8.self).split(separator: "\"n\":").dropFirst().compactMap {
            Int($0.prefix { $0.isNumber })
        }
    }
}

private struct StagedTransport: DeliveryTransport {
    let provider: StagedProvider
    let merger: Int
    let life: Int
    let isDead: @Sendable () -> Bool

    func send(_ request: DeliveryRequest) async -> Answer {
        if self.isDead() { return .notSent(detail: "the process is dead") }
        return self.provider.send(request, by: self.merger, life: self.life)
    }
}

private struct ProcessIsDead: Error {}

/// Mergers with the same parts, their bucket and their provider.
final class FleetStage {
    static let fleet = String(repeating: "f", count: 32)
    static let recordsPerPart = 9

    private final class Process: Sendable {
        let isDead = Lock(false)
        /// Whether it dies in one of its next calls of the disk.
        let isDoomed = Lock(false)
        let outcome = Lock<Result<DeliveryReport, DeliveryError>?>(nil)
    }

    let destination: DeliverableProvider
    let partCount: Int
    let store = MemoryStore()
    let turns = FleetTurns()
    let provider: StagedProvider
    private(set) var disks: [FaultyFiles] = []
    private var clocks: [ManualClock] = []
    private var processes: [Int: Process] = [:]
    private var lives: [Int]

    init(_ destination: DeliverableProvider, mergers: Int, parts: Int, provider: StagedProvider) throws {
        self.destination = destination
        self.partCount = parts
        self.provider = provider
        self.lives = Array(repeating: 0, count: mergers)
        for _ in 0..<mergers {
            self.disks.append(FaultyFiles())
            self.clocks.append(ManualClock())
        }
        for number in 0..<mergers { try self.fill(number) }
    }

    // MARK: Disks

    private var day: String { "/data/exports/\(self.destination.rawValue)/env=prod/date=2026-11-20" }

    private static func stem(_ part: Int) -> String { "part-0000\(part)" }

    /// The content of a part, the same for all.
    func content(_ part: Int) -> [UInt8] {
        let first = part * Self.recordsPerPart
        return Array((first..<(first + Self.recordsPerPart)).flatMap { Array("{\"n\":\($0)}\n".utf8) })
    }

    func sha256(_ part: Int) -> String {
        var digest = SHA256Digest()
        self.content(part).withUnsafeBytes { digest.update($0) }
        return digest.finish()
    }

    private func fill(_ number: Int) throws {
        let files = self.disks[number]
        try files.createDirectories(self.day)
        for part in 0..<self.partCount {
            let count = Self.recordsPerPart
            let stem = "\(self.day)/\(Self.stem(part))"
            files.place(stem + ".ndjson", self.content(part))
            files.place(stem + ".ids", Array((0..<count).flatMap { Array("id-\(part)-\($0)\n".utf8) }))
            let manifest =
                "{\"provider\":\"\(self.destination.rawValue)\",\"env\":\"prod\",\"day\":\"2026-11-20\",\"zone\":\"UTC\","
                + "\"mapping\":0,\"records\":\(count),\"events\":\(count),\"fix\":{},\"dead\":{},\"held\":0,"
                + "\"first_id\":\"a\",\"last_id\":\"b\",\"sha256\":\"\(self.sha256(part))\"}"
            files.place(stem + ".manifest.json", Array(manifest.utf8))
        }
    }

    /// Whether a merger knows that a part is delivered.
    func isDelivered(_ part: Int, by number: Int) -> Bool {
        self.disks[number].bytes(of: "\(self.day)/\(Self.stem(part)).delivered")?
            .starts(with: self.sha256(part).utf8) ?? false
    }

    func isAllDelivered() -> Bool {
        self.disks.indices.allSatisfy { number in
            (0..<self.partCount).allSatisfy { self.isDelivered($0, by: number) }
        }
    }

    /// Records in the dead letters of any merger.
    func deadRecords(of lost: [FaultyFiles] = []) -> Set<Int> {
        var records: Set<Int> = []
        for disk in self.disks + lost {
            for (path, bytes) in disk.files(below: self.day + "/dead") where !path.hasSuffix(".manifest.json") {
                let text =
                    path.hasSuffix(".gz") ? Self.inflated(path, disk) : String(decoding: bytes, as: UTF8.self)
                for line in text.split(separator: "\n") {
                    guard let number = line.split(separator: "\"n\":").dropFirst().first else { continue }
                    Int(number.prefix { $0.isNumber }).map { _ = records.insert($0) }
                }
            }
        }
        return records
    }

    private static func inflated(_ path: String, _ disk: FaultyFiles) -> String {
        var bytes: [UInt8] = []
        do {
            try StoredBytes.visit(String(path.dropLast(3)), isCompressed: true, files: disk) { bytes += $0 }
        } catch {
            Issue.record("\(path): \(error)")
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The merger's disk is replaced by one that has the parts, and no state.
    func loseDisk(_ number: Int) throws -> FaultyFiles {
        let old = self.disks[number]
        self.disks[number] = FaultyFiles()
        try self.fill(number)
        return old
    }

    // MARK: Processes

    func isRunning(_ number: Int) -> Bool { self.processes[number] != nil }

    private var configuration: DeliveryConfiguration {
        var configuration = DeliveryConfiguration(dataDirectory: "/data", provider: self.destination)
        configuration.isFollowing = true
        // A pause, and so a turn, before each round of requests.
        configuration.eventsPerSecond = 1
        return configuration
    }

    private func claims(_ number: Int, _ process: Process) -> DeliveryClaims {
        let turns = self.turns
        let bucket = StagedBucket(store: self.store) { () async throws(StoreError) in
            let dead = StoreError(.stopped, detail: "the process is dead")
            if process.isDead.withLock({ $0 }) { throw dead }
            if await turns.turn(number) { return }
            process.isDead.withLock { $0 = true }
            throw dead
        }
        return DeliveryClaims(bucket, merger: "m\(number)")
    }

    /// Starts a merger's delivery, which runs until it dies.
    func start(_ number: Int) async throws {
        let process = Process()
        self.processes[number] = process
        self.lives[number] += 1
        let (turns, clock, files) = (self.turns, self.clocks[number], self.disks[number])
        let transport = StagedTransport(provider: self.provider, merger: number, life: self.lives[number]) {
            process.isDead.withLock { $0 }
        }
        let credentials = CredentialSource([
            "WAYBILL_GA4_API_SECRET_PROD": "secret", "WAYBILL_GA4_FIREBASE_APP_ID_PROD": "app",
            "WAYBILL_SEGMENT_WRITE_KEY_PROD": "key",
        ])
        let (configuration, claims) = (self.configuration, self.claims(number, process))
        await turns.begin()
        Task {
            do throws(DeliveryError) {
                let deliverer = try Deliverer(
                    configuration, credentials: credentials, files: files, clock: clock, transport: transport,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, claims: claims,
                    pause: { duration in
                        if process.isDead.withLock({ $0 }) { throw ProcessIsDead() }
                        guard await turns.turn(number) else {
                            process.isDead.withLock { $0 = true }
                            throw ProcessIsDead()
                        }
                        clock.advance(milliseconds: max(1, duration.nanoseconds / 1_000_000))
                    })
                let report = try await deliverer.run()
                process.outcome.withLock { $0 = .success(report) }
            } catch {
                process.outcome.withLock { $0 = .failure(error) }
            }
            await turns.end()
        }
        await turns.settle()
        try self.checkAlive(number)
    }

    func step(_ number: Int) async throws {
        await self.turns.step(number)
        try self.checkAlive(number)
    }

    /// The process dies in one of its next calls of the disk, maybe between a request and its record.
    func doom(_ number: Int, inCalls count: Int) {
        self.processes[number]?.isDoomed.withLock { $0 = true }
        self.disks[number].stop(atCall: count)
    }

    /// A delivery that follows ends only when it dies.
    private func checkAlive(_ number: Int) throws {
        guard let process = self.processes[number], let result = process.outcome.withLock({ $0 }) else { return }
        if process.isDoomed.withLock({ $0 }) {
            self.processes[number] = nil
            self.disks[number].kill()
            return
        }
        Issue.record("m\(number) ended: \(result)")
        throw ProcessIsDead()
    }

    /// The process dies where it waits; its power fails, too, if there is a seed.
    func kill(_ number: Int, powerCut seed: UInt64?) async {
        self.disks[number].die()
        await self.turns.step(number, isAlive: false)
        self.processes[number] = nil
        if let seed { self.disks[number].crash(seed: seed) } else { self.disks[number].kill() }
    }

    /// The command `--take-over`; `false` if the delivery has not begun there.
    @discardableResult
    func takeOver(from name: String, to number: Int) async throws -> Bool {
        let takeOver = TakeOver(
            self.configuration, claims: DeliveryClaims(DirectBucket(store: self.store), merger: "m\(number)"),
            from: name, files: self.disks[number], clock: self.clocks[number])
        do throws(TakeOver<FaultyFiles, ManualClock>.Failure) {
            _ = try await takeOver.run { _ in }
        } catch {
            // The bucket or the disk failed in the middle, as they do: an operator runs it again.
            if case .notBegun = error { return false }
        }
        return true
    }
}
