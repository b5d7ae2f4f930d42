import Testing
import WaybillData
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@Suite struct JournalProofTests {
    /// The proof of a file with these bytes, as an agent computes it.
    private static func proof(_ stream: Int, of bytes: [UInt8]) -> StreamProof {
        StreamProof(
            of: JournalBench.description(stream).id, at: StreamOffset(UInt64(bytes.count)),
            tail: bytes.suffix(StreamProof.byteCountMax))
    }

    private static let name = JournalBench.description(1).name

    @Test func `after batches of any length the proof is that of the file's bytes, also after a start`() throws {
        let lengths = Array(1...20) + [255, 256, 257, 510, 511, 512, 513, 514, 600, 1023, 1024, 1025, 5000]
        for first in lengths {
            for second in [1, 511, 512, 513] {
                let bench = try JournalBench()
                var journal = try bench.open()
                for length in [first, second] {
                    bench.stageBatch(1, rawByteCount: length, in: &journal)
                    let end = journal.position(of: Self.name).rawValue
                    // The same while it is staged, once it is durable, and for the next process.
                    let proof = Self.proof(1, of: JournalBench.content(1, 0..<end))
                    #expect(journal.proof(of: Self.name) == proof)
                    try bench.commit(&journal)
                    #expect(journal.proof(of: Self.name) == proof)
                    #expect(try bench.open().proof(of: Self.name) == proof)
                }
            }
        }
    }

    @Test func `small batches without number leave the last 512 bytes, read again from the last of them`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        var generator = SeededGenerator(seed: 1)
        for round in 0..<300 {
            bench.stageBatch(1, rawByteCount: Int.random(in: 1...40, using: &generator), in: &journal)
            if round % 3 == 0 { try bench.commit(&journal) }
            if round % 20 == 0 { journal = try bench.recover() }
        }
        try bench.commit(&journal)
        let end = journal.position(of: Self.name).rawValue
        #expect(try bench.open().proof(of: Self.name) == Self.proof(1, of: JournalBench.content(1, 0..<end)))
    }

    @Test(arguments: SkipReason.allCases, [3, 511, 512, 2000] as [UInt64])
    func `a skip replaces what is proved by its own tail, and by nothing when the source lost the bytes`(
        reason: SkipReason, byteCount: UInt64
    ) throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        bench.stageBatch(1, rawByteCount: 700, in: &journal)
        bench.stage(
            try JournalBench.skip(1, at: StreamOffset(700), byteCount: byteCount, reason), of: 1, in: &journal)
        let end = 700 + byteCount
        let count = reason == .elsewhere ? 0 : byteCount
        let known = reason == .truncated ? .empty : Self.proof(1, of: JournalBench.content(1, 0..<end))
        let skipped = known.skipping(count)
        #expect(journal.proof(of: Self.name) == skipped)
        try bench.commit(&journal)
        #expect(try bench.open().proof(of: Self.name) == skipped)
        journal = try bench.open()
        try journal.begin(JournalBench.seed(1), isLossy: false, at: bench.groupTime)
        #expect(try bench.open().proof(of: Self.name) == skipped)
        // The bytes after a truncation are proved from there on.
        bench.stageBatch(1, rawByteCount: 100, in: &journal)
        let start = reason == .truncated ? end : end + 100 - 512
        let later = StreamProof(
            of: Self.name.id, at: StreamOffset(end + 100), tail: JournalBench.content(1, start..<(end + 100))
        ).skipping(count)
        #expect(journal.proof(of: Self.name) == later)
        try bench.commit(&journal)
        #expect(try bench.open().proof(of: Self.name) == later)
    }

    @Test func `heads pass on proofs and tails, from segment to segment`() throws {
        let bench = try JournalBench(segmentByteCountMax: 1)
        var journal = try bench.open()
        bench.stageBatch(1, rawByteCount: 100, in: &journal)
        bench.stageBatch(2, rawByteCount: 900, in: &journal)
        bench.stage(.seal(length: StreamOffset(900)), of: 2, in: &journal)
        bench.stage(.seal(length: StreamOffset(0)), of: 3, in: &journal)
        try bench.commit(&journal)
        for _ in 0..<5 {
            bench.stageBatch(1, rawByteCount: 100, in: &journal)
            try bench.commit(&journal)
            journal = try bench.recover()
        }
        #expect(journal.segments.count == 6)
        #expect(journal.proof(of: Self.name) == Self.proof(1, of: JournalBench.content(1, 0..<600)))
        let sealed = journal.streams[JournalBench.description(2).name]
        #expect(sealed?.proof == Self.proof(2, of: JournalBench.content(2, 0..<900)))
        #expect(sealed?.isSealed == true && sealed?.tail == nil)
        let empty = journal.streams[JournalBench.description(3).name]
        #expect(empty?.isSealed == true && empty?.proof == .empty)
    }

    @Test func `a start that dies at any call leaves proofs and starts whole`() throws {
        var isOver = false
        for call in 1...200 where !isOver {
            let bench = try JournalBench()
            var journal = try bench.open()
            try journal.begin(JournalBench.seed(1), isLossy: false, at: bench.groupTime)
            bench.stageBatch(1, rawByteCount: 300, in: &journal)
            bench.stageBatch(2, rawByteCount: 600, in: &journal)
            try bench.commit(&journal)
            let before = journal.identity(name: "r")
            bench.disk.stop(atCall: call)
            do {
                var next = try bench.open()
                try next.begin(JournalBench.seed(2), isLossy: false, at: bench.groupTime)
                bench.stageBatch(1, rawByteCount: 400, in: &next)
                try bench.commit(&next)
                isOver = true
            } catch {
                #expect(bench.disk.isStopped)
            }
            bench.disk.crash(seed: UInt64(call))
            journal = try bench.recover()
            try journal.begin(JournalBench.seed(3), isLossy: false, at: bench.groupTime)
            let identity = journal.identity(name: "r")
            #expect(identity.holds(start: before.start, end: before.end))
            #expect(identity.incarnation == before.incarnation)
            #expect([[1, 3], [1, 2, 3]].contains(identity.starts.map(\.id)))
        }
        #expect(isOver)
    }

    @Test func `damage between two batches leaves a stream without a proof, until 512 bytes have followed`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        var positions: [Int] = []
        for _ in 0..<3 {
            positions.append(journal.end.rawValue)
            bench.stageBatch(1, rawByteCount: 300, in: &journal)
            try bench.commit(&journal)
        }
        let path = JournalPath.segment(JournalPosition(0), in: "/journal")
        var bytes = try #require(bench.disk.bytes(of: path))
        bytes[positions[2] - 5] ^= 1
        bench.disk.place(path, bytes)
        journal = try bench.open()
        #expect(journal.position(of: Self.name) == StreamOffset(900))
        let known = StreamProof(
            of: Self.name.id, at: StreamOffset(900), tail: JournalBench.content(1, 600..<900))
        #expect(journal.proof(of: Self.name) == known)
        bench.staged = []
        bench.stageBatch(1, rawByteCount: 212, in: &journal)
        #expect(journal.proof(of: Self.name) == Self.proof(1, of: JournalBench.content(1, 0..<1112)))
    }

    @Test func `two principals use one id without touching each other`() throws {
        let bench = try JournalBench()
        var journal = try bench.open()
        var (one, two) = (JournalBench.description(1), JournalBench.description(1))
        one.owner = StreamOwner(principal: "shop", bundles: ["com.example.*"])
        two.owner = StreamOwner(principal: "bank", environments: ["prod"])
        #expect(journal.stage(JournalBench.batch(1, at: 0, rawByteCount: 10), of: one) == .staged)
        #expect(journal.stage(JournalBench.batch(1, at: 0, rawByteCount: 20), of: two) == .staged)
        #expect(journal.stage(.seal(length: StreamOffset(20)), of: two) == .staged)
        _ = try journal.commit(at: bench.groupTime)
        #expect(journal.stage(JournalBench.batch(1, at: 10, rawByteCount: 5), of: one) == .staged)
        _ = try journal.commit(at: bench.groupTime)
        for _ in 0..<2 {
            #expect(journal.streams[one.name]?.description == one)
            #expect(journal.streams[two.name]?.description == two)
            #expect(journal.position(of: one.name) == StreamOffset(15))
            #expect(journal.position(of: two.name) == StreamOffset(20))
            #expect(journal.isSealed(two.name) && !journal.isSealed(one.name))
            #expect(journal.position(of: JournalBench.description(1).name) == StreamOffset(0))
            #expect(journal.proof(of: one.name) == Self.proof(1, of: JournalBench.content(1, 0..<15)))
            #expect(journal.proof(of: two.name) == Self.proof(1, of: JournalBench.content(1, 0..<20)))
            journal = try bench.open()
            try journal.begin(JournalBench.seed(1), isLossy: false, at: bench.groupTime)
        }
        var reader = JournalReader(directory: bench.directory, position: JournalPosition(0), files: bench.disk)
        var names: [String] = []
        while let record = try reader.next(upTo: journal.end) { names.append(record.description.name.description) }
        #expect(names == ["shop/stream-1", "bank/stream-1", "shop/stream-1"])
    }
}
