import Testing
import WaybillData
import WaybillSystem
import WaybillTestSupport

@Suite struct JournalTimeTests {
    /// Commits one batch at each time in turn, with a restart after each.
    private func journal(_ times: [Int64], _ bench: JournalBench) throws -> [WallTime] {
        var marks: [WallTime] = []
        for time in times {
            var journal = try bench.open()
            bench.stageBatch(1, in: &journal)
            bench.staged = []
            _ = try journal.commit(at: WallTime(milliseconds: time))
            marks.append(journal.lastMark)
        }
        return marks
    }

    @Test(
        arguments: [
            ([5_000, 7_000], 7_000), ([5_000, 0], 5_000), ([5_000, 0, 0, 0], 5_000), ([0, 0], 0),
            ([9_000, 0, 4_000], 4_000),
        ] as [([Int64], Int64)])
    func `the last known time outlasts restarts, and groups that were received at an unknown one`(
        times: [Int64], last: Int64
    ) throws {
        let bench = try JournalBench()
        let marks = try self.journal(times, bench)
        #expect(marks.last == WallTime(milliseconds: last))
        let reopened = try bench.open()
        #expect(reopened.lastMark == marks.last)
        let read = try JournalTime.last(in: bench.directory, files: bench.disk)
        #expect(read ?? .unknown == marks.last)
    }

    @Test func `a reader gets the unknown time of a batch as 0, although its segment's head has one`() throws {
        let bench = try JournalBench()
        _ = try self.journal([5_000, 0], bench)
        var reader = JournalReader(directory: bench.directory, position: JournalPosition(0), files: bench.disk)
        let journal = try bench.open()
        var times: [Int64] = []
        while let record = try reader.next(upTo: journal.end) { times.append(record.receivedAt.milliseconds) }
        #expect(times == [5_000, 0])
    }

    @Test func `there is no time in a folder without segments`() throws {
        let bench = try JournalBench()
        #expect(try JournalTime.last(in: bench.directory, files: bench.disk) == nil)
        #expect(try JournalTime.last(in: "/elsewhere", files: bench.disk) == nil)
    }
}
