import Testing
import WaybillData
import WaybillSystem
import WaybillTestSupport

@Suite struct JournalLossTests {
    private let bench: JournalBench

    init() throws {
        self.bench = try JournalBench()
    }

    /// The path of the only segment.
    private var segment: String { JournalPath.segment(JournalPosition(0), in: self.bench.directory) }

    /// A journal with one committed batch.
    private func journal() throws -> Journal<FaultyFiles> {
        var journal = try self.bench.open()
        self.bench.stageBatch(1, in: &journal)
        try self.bench.commit(&journal)
        return journal
    }

    @Test func `a journal whose files are in their place has lost nothing`() throws {
        var fresh = try self.bench.open()
        #expect(try fresh.findLoss(unreadFrom: nil) == nil)
        var journal = try self.journal()
        #expect(try journal.findLoss(unreadFrom: nil) == nil)
    }

    @Test func `a deleted segment is a loss although its sync succeeds`() throws {
        var journal = try self.journal()
        try self.bench.disk.unlink(self.segment)
        let loss = try journal.findLoss(unreadFrom: nil)
        #expect(loss == JournalLoss(path: self.segment, finding: .nothing, part: .lastSegment, end: journal.end))
        self.bench.stageBatch(1, in: &journal)
        try self.bench.commit(&journal)
        #expect(try journal.findLoss(unreadFrom: nil)?.finding == .nothing)
    }

    @Test func `a segment that another file replaced is a loss`() throws {
        var journal = try self.journal()
        try self.bench.disk.replace(self.segment, with: Array("MARK".utf8))
        #expect(try journal.findLoss(unreadFrom: nil)?.finding == .another)
    }

    @Test func `a folder that was moved away is a loss, and one that came in its place too`() throws {
        var journal = try self.journal()
        try self.bench.disk.rename(self.bench.directory, to: "/moved")
        let loss = try journal.findLoss(unreadFrom: nil)
        #expect(
            loss == JournalLoss(path: self.bench.directory, finding: .nothing, part: .folder, end: journal.end))
        try self.bench.disk.createDirectories(self.bench.directory)
        #expect(try journal.findLoss(unreadFrom: nil)?.finding == .another)
    }

    @Test func `a folder that was replaced before the first segment is a loss`() throws {
        var journal = try self.bench.open()
        try self.bench.disk.rename(self.bench.directory, to: "/moved")
        try self.bench.disk.createDirectories(self.bench.directory)
        #expect(try journal.findLoss(unreadFrom: nil)?.isFolder == true)
    }

    @Test func `a segment that retention deleted is not a loss`() throws {
        let bench = try JournalBench(segmentByteCountMax: 100)
        var journal = try bench.open()
        for _ in 0..<3 {
            bench.stageBatch(1, rawByteCount: 200, in: &journal)
            try bench.commit(&journal)
        }
        let count = try journal.retire(before: journal.end, writtenBefore: WallTime(milliseconds: .max))
        #expect(count == 2)
        #expect(try journal.findLoss(unreadFrom: JournalPosition(0)) == nil)
    }

    @Test func `what is deleted while no segment is open is a loss`() throws {
        var journal = try self.journal()
        journal = try self.bench.open()
        try self.bench.disk.unlink(self.segment)
        #expect(try journal.findLoss(unreadFrom: nil)?.part == .lastSegment)

        let bench = try JournalBench()
        journal = try bench.open()
        bench.stageBatch(1, in: &journal)
        try bench.commit(&journal)
        bench.stageBatch(1, in: &journal)
        bench.disk.fail(call: 2, .error(Errno.inputOutput))
        #expect(throws: FileSystemError.self) { _ = try journal.commit(at: bench.groupTime) }
        bench.disk.clearFaults()
        #expect(try journal.findLoss(unreadFrom: nil) == nil)
        try bench.disk.unlink(self.segment)
        #expect(try journal.findLoss(unreadFrom: nil)?.part == .lastSegment)
    }

    @Test func `an older segment that was not read is a loss, and one that was read is none`() throws {
        let bench = try JournalBench(segmentByteCountMax: 100)
        var journal = try bench.open()
        for _ in 0..<40 {
            bench.stageBatch(1, rawByteCount: 200, in: &journal)
            try bench.commit(&journal)
        }
        let segments = journal.segments
        for _ in 0..<5 { #expect(try journal.findLoss(unreadFrom: JournalPosition(0)) == nil) }
        // Each call compares sixteen.
        for number in [0, 20, 38] {
            let path = JournalPath.segment(segments[number], in: bench.directory)
            let bytes = try #require(bench.disk.bytes(of: path))
            try bench.disk.unlink(path)
            let read = segments[number + 1]
            for _ in 0..<3 { #expect(try journal.findLoss(unreadFrom: read) == nil) }
            #expect(try journal.findLoss(unreadFrom: nil) == nil)
            let unread = JournalPosition(read.rawValue - 1)
            let losses = try (0..<3).compactMap { _ in try journal.findLoss(unreadFrom: unread) }
            #expect(
                losses.first
                    == JournalLoss(path: path, finding: .nothing, part: .unreadSegment, end: journal.end))
            // What comes back is another file.
            bench.disk.place(path, bytes)
            let again = try (0..<3).compactMap { _ in try journal.findLoss(unreadFrom: unread) }
            #expect(again.first?.finding == .another)
            journal = try bench.open()
        }
    }
}
