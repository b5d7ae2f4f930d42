import Testing
import WaybillSystem

@Suite struct ProcessLimitsTests {
    @Test func `open descriptors are counted`() throws {
        let files = POSIXFileSystem()
        let opened = try (0..<200).map { _ in try files.open("/", .read) }
        defer { for file in opened { files.close(file) } }
        // Other tests open and close files at the same time.
        #expect(try #require(ProcessLimits.openFileCount(on: files)) >= 200)
    }

    @Test func `the limit of open files is never lowered`() {
        let limit = ProcessLimits.raiseOpenFileCount(to: 0)
        #expect(ProcessLimits.raiseOpenFileCount(to: .max) >= limit)
        #expect(ProcessLimits.raiseOpenFileCount(to: 1) >= limit)
    }
}
