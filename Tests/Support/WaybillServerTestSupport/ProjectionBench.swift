internal import Testing
internal import WaybillCompression
package import WaybillData
package import WaybillProjection
package import WaybillProtocol
internal import WaybillSystem
package import WaybillTestSupport

/// A data directory whose journal holds batches of known lines, on a disk that can be crashed.
///
/// `@unchecked Sendable` without a lock: it is written by the test that made it, and only copied after that.
package final class ProjectionBench: @unchecked Sendable {
    /// A batch as it was put into the journal.
    package struct Batch {
        package let description: StreamDescription
        package let offset: UInt64
        package let receivedAt: Int64
        package let raw: [UInt8]
    }

    package let disk: FaultyFiles
    package let data: DataDirectory<FaultyFiles>
    package private(set) var batches: [Batch] = []
    package private(set) var end = JournalPosition(0)
    private var offsets: [StreamName: UInt64] = [:]

    /// 2026-11-20T12:00:00Z.
    package static let noon: Int64 = 1_795_176_000_000

    package init(disk: FaultyFiles = FaultyFiles()) throws {
        self.disk = disk
        self.data = DataDirectory(root: "/data", files: disk)
        try self.data.create()
    }

    /// The same bench again, on a copy of its disk as it is durable now.
    package func copy() throws -> ProjectionBench {
        let copy = try ProjectionBench(disk: FaultyFiles(self.disk.memory.copy()))
        copy.batches = self.batches
        copy.end = self.end
        copy.offsets = self.offsets
        return copy
    }

    /// Runs `work` on copies of this bench, for every `stride`th call at which the disk can stop, until it gets to its end.
    package func crash(
        stride: Int, _ work: (ProjectionBench) throws -> Void,
        check: (_ bench: ProjectionBench, _ call: Int) throws -> Void
    ) throws {
        var call = 1
        var isDone = false
        while !isDone {
            for isKilled in [false, true] {
                let bench = try self.copy()
                bench.disk.stop(atCall: call)
                do {
                    try work(bench)
                    isDone = true
                } catch {
                    #expect(bench.disk.isStopped)
                }
                if isKilled { bench.disk.kill() } else { bench.disk.crash(seed: UInt64(call)) }
                bench.disk.clearFaults()
                try check(bench, call)
            }
            call += stride
            try #require(call < 3000)
        }
    }

    package static func description(_ number: Int, format: StreamFormat = .waybill) -> StreamDescription {
        guard let id = StreamID("stream-\(number)") else { preconditionFailure("a stream id") }
        return StreamDescription(
            id: id, source: "/var/log/\(number).ndjson", environment: "internal", bundle: "com.example.log\(number)",
            format: format)
    }

    /// Puts batches into the journal, so many a group.
    ///
    /// - Parameter start: when the first group was received; each group comes a second later.
    package func write(
        _ contents: [(description: StreamDescription, raw: [UInt8])], perGroup: Int = 3, at start: Int64? = nil
    ) throws {
        var journal = try Journal(directory: self.data.journal, files: self.disk, segmentByteCountMax: 3_000)
        var time = start ?? Self.noon + Int64(self.batches.count)
        for (index, content) in contents.enumerated() {
            let offset = self.offsets[content.description.name] ?? 0
            #expect(
                journal.stage(Self.entry(content.description, offset, content.raw), of: content.description) == .staged)
            self.offsets[content.description.name] = offset + UInt64(content.raw.count)
            self.batches.append(
                Batch(description: content.description, offset: offset, receivedAt: time, raw: content.raw))
            if index % perGroup == perGroup - 1 || index == contents.count - 1 {
                _ = try journal.commit(at: WallTime(milliseconds: time))
                time += 1000
            }
        }
        self.end = journal.end
    }

    /// Puts a time alone into the journal.
    package func mark(at time: Int64) throws {
        var journal = try Journal(directory: self.data.journal, files: self.disk, segmentByteCountMax: 3_000)
        _ = try journal.commit(at: WallTime(milliseconds: time))
        self.end = journal.end
    }

    private static func entry(_ description: StreamDescription, _ offset: UInt64, _ raw: [UInt8]) -> JournalEntry {
        let payload = self.deflate(raw)
        var header = BatchHeader(
            stream: StreamNumber(1), offset: StreamOffset(offset), rawByteCount: raw.count,
            lineCount: raw.count { $0 == 0x0A } + (raw.last == 0x0A ? 0 : 1), wireByteCount: payload.count, checksum: 0)
        header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: description.id), payload.bytes)
        return .batch(header, payload: payload, raw: raw.withUnsafeBytes { SharedBytes($0) })
    }

    private static func deflate(_ raw: [UInt8]) -> SharedBytes {
        var deflater = Deflater(level: 1)
        return raw.withUnsafeBytes { raw in
            SharedBytes(capacity: deflater.byteCountMax(of: raw.count)) { deflater.deflate(raw, into: $0) }
        }
    }

    /// Every file below `folders` of the data directory; compressed files of exports as they were before.
    package func tree(_ folders: String...) -> [String: String] {
        var result: [String: String] = [:]
        for folder in folders {
            for (path, bytes) in self.disk.tree("/data/" + folder) {
                var name = String(path.dropFirst(6))
                var content = bytes
                if name.hasSuffix(".gz"), name.contains("exports/") {
                    name.removeLast(3)
                    content = Self.inflate(bytes) ?? Array("\(path) is not a whole gzip file".utf8)
                }
                #expect(result[name] == nil, "both \(name) and its compressed file are there")
                result[name] = String(decoding: content, as: UTF8.self)
            }
        }
        return result
    }

    /// The content of a gzip file; `nil` if it is not whole.
    package static func inflate(_ bytes: [UInt8]) -> [UInt8]? {
        var inflater = GzipInflater()
        var output: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        var start = 0
        while start < bytes.count {
            do {
                let (taken, filled) = try bytes[start...].withUnsafeBytes { input in
                    try piece.withUnsafeMutableBytes { try inflater.inflate(input, into: $0) }
                }
                start += taken
                output += piece[..<filled]
                if taken == 0, filled == 0 { return nil }
            } catch {
                return nil
            }
        }
        return inflater.isBetweenMembers ? output : nil
    }
}

/// Runs a projection to the end of the journal, through whatever the disk does to it.
package struct ProjectionDriver {
    package let bench: ProjectionBench
    /// Of a thousand calls; 0 for a disk that works.
    package var failuresPerMille = 0
    /// How often the power goes, one in so many steps; 0 for never.
    package var stepsPerCrash = 0
    /// Whether a checkpoint is due, one in so many steps.
    package var stepsPerCheckpoint = 3
    /// Whether a checkpoint seals every open day, one in so many; 0 for never.
    package var checkpointsPerSeal = 0
    /// Batches projected in one step, at most.
    package var batchCountMax = 3

    package init(
        bench: ProjectionBench, failuresPerMille: Int = 0, stepsPerCrash: Int = 0, stepsPerCheckpoint: Int = 3,
        checkpointsPerSeal: Int = 0, batchCountMax: Int = 3
    ) {
        self.bench = bench
        self.failuresPerMille = failuresPerMille
        self.stepsPerCrash = stepsPerCrash
        self.stepsPerCheckpoint = stepsPerCheckpoint
        self.checkpointsPerSeal = checkpointsPerSeal
        self.batchCountMax = batchCountMax
    }

    /// - Returns: how often it recovered.
    @discardableResult
    package func run<P: Projection & ~Copyable>(seed: UInt64, _ make: () throws -> P) throws -> Int {
        var generator = SeededGenerator(seed: seed)
        let disk = self.bench.disk
        var projection = try make()
        var recoveryCount = 0
        var run = ProjectionRun(journalDirectory: self.bench.data.journal, files: disk)
        var position: JournalPosition?
        var checkpointed = JournalPosition(-1)
        var stepCount = 0
        while checkpointed < self.bench.end || projection.isSealing {
            stepCount += 1
            try #require(stepCount < 2000, "it makes no progress")
            disk.failAtRandom(seed: generator.next(), perMille: recoveryCount < 25 ? self.failuresPerMille : 0)
            if self.stepsPerCrash > 0, recoveryCount < 25,
                Int.random(in: 0..<self.stepsPerCrash, using: &generator) == 0
            {
                disk.stop(atCall: Int.random(in: 1...60, using: &generator))
            }
            do {
                guard let start = position else {
                    recoveryCount += 1
                    position = try projection.recover().position
                    continue
                }
                if start < self.bench.end {
                    let count = Int.random(in: 1...self.batchCountMax, using: &generator)
                    position = try run.advance(&projection, from: start, upTo: self.bench.end, batchCountMax: count)
                    #expect(run.takeDamages() == [])
                }
                if let next = position,
                    next == self.bench.end || Int.random(in: 0..<self.stepsPerCheckpoint, using: &generator) == 0
                {
                    let isSealing =
                        self.checkpointsPerSeal > 0
                        && Int.random(in: 0..<self.checkpointsPerSeal, using: &generator) == 0
                    let now = WallTime(milliseconds: ProjectionBench.noon + Int64(stepCount))
                    try projection.checkpoint(at: next, sealing: isSealing ? .everything(now: now) : nil)
                    checkpointed = next
                }
                if projection.isSealing, Bool.random(using: &generator) {
                    try projection.continueSealing()
                    if let failure = projection.takeFailures().first { throw failure }
                }
            } catch {
                position = nil
                checkpointed = JournalPosition(-1)
                guard disk.isStopped else { continue }
                if Bool.random(using: &generator), !disk.memory.hasDroppedPages {
                    disk.kill()
                } else {
                    disk.crash(seed: generator.next())
                }
                projection = try make()
                run = ProjectionRun(journalDirectory: self.bench.data.journal, files: disk)
            }
        }
        disk.clearFaults()
        return recoveryCount
    }
}
