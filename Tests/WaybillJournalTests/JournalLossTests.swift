import Testing
import WaybillJournal
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
        let fresh = try self.bench.open()
        #expect(try fresh.findLoss() == nil)
        let journal = try self.journal()
        #expect(try journal.findLoss() == nil)
    }

    @Test func `a deleted segment is a loss although its sync succeeds`() throws {
        var journal = try self.journal()
        try self.bench.disk.unlink(self.segment)
        let loss = try journal.findLoss()
        #expect(loss == JournalLoss(path: self.segment, finding: .nothing, isFolder: false, end: journal.end))
        self.bench.stageBatch(1, in: &journal)
        try self.bench.commit(&journal)
        #expect(try journal.findLoss()?.finding == .nothing)
    }

    @Test func `a segment that another file replaced is a loss`() throws {
        let journal = try self.journal()
        try self.bench.disk.replace(self.segment, with: Array("MARK".utf8))
        #expect(try journal.findLoss()?.finding == .another)
    }

    @Test func `a folder that was moved away is a loss, and one that came in its place too`() throws {
        let journal = try self.journal()
        try self.bench.disk.rename(self.bench.directory, to: "/moved")
        let loss = try journal.findLoss()
        #expect(
            loss == JournalLoss(path: self.bench.directory, finding: .nothing, isFolder: true, end: journal.end))
        try self.bench.disk.createDirectories(self.bench.directory)
        #expect(try journal.findLoss()?.finding == .another)
    }

    @Test func `a folder that was replaced before the first segment is a loss`() throws {
        let journal = try self.bench.open()
        try self.bench.disk.rename(self.bench.directory, to: "/moved")
        try self.bench.disk.createDirectories(self.bench.directory)
        #expect(try journal.findLoss()?.isFolder == true)
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
        #expect(try journal.findLoss() == nil)
    }
}
