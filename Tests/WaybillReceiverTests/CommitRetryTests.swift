import Testing
import WaybillSystem

@testable import WaybillReceiver

struct CommitRetryTests {
    @Test func `a disk that refuses is tried again ever later, and agents hear of the third failure`() {
        var retry = CommitRetry()
        let full = FileSystemError("write", path: "/data", errno: 28)
        let broken = FileSystemError("fdatasync", path: "/data", errno: Errno.inputOutput)
        #expect(retry.time == nil && retry.text(for: full) == nil)
        var pauses: [Duration] = []
        var texts: [String?] = []
        for second in 0..<3 {
            let start = MonotonicTime(nanoseconds: Int64(second) * 1_000_000_000)
            pauses.append(retry.failed(at: start))
            texts.append(retry.text(for: full))
            #expect(retry.time == start + pauses[second])
        }
        #expect(pauses == [.seconds(1), .seconds(2), .seconds(4)])
        #expect(texts.map { $0 == nil } == [true, true, false])
        #expect(
            texts[2] == "the disk of this receiver is full: it acknowledges nothing until space is freed there")
        #expect(retry.text(for: broken)?.contains("refuses writes (\(broken.code))") == true)
        #expect(retry.failureCount == 3)
    }
}
