import Testing
import WaybillSystem

@testable import WaybillTail

struct LeftOutFilesTests {
    private func status(byteCount: Int, modified: Int64 = 5) -> FileStatus {
        FileStatus(
            identity: FileIdentity(device: 1, inode: 7), kind: .regular, byteCount: byteCount, modified: modified,
            birth: 2)
    }

    @Test func `a file is left out until it changes, or no scan finds it`() {
        var files = LeftOutFiles()
        var answers = [files.contains(self.status(byteCount: 9), inScan: 1)]
        files.insert(self.status(byteCount: 9), inScan: 1)
        answers.append(files.contains(self.status(byteCount: 9), inScan: 2))
        answers.append(files.contains(self.status(byteCount: 10), inScan: 2))
        answers.append(files.contains(self.status(byteCount: 9, modified: 6), inScan: 2))
        #expect(answers == [false, true, false, false])
        answers = []
        for scan in [2, 3] as [UInt32] {
            files.forgetUnseen(inScan: scan)
            answers.append(files.contains(self.status(byteCount: 9), inScan: scan))
        }
        #expect(answers == [true, false])
    }
}
