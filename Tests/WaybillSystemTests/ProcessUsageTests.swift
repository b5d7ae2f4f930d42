import Testing
import WaybillSystem

@Suite struct ProcessUsageTests {
    #if canImport(Glibc)
        @Test func `memory that was freed goes back to the system`() throws {
            var blocks = (0..<1_000_000).map { _ in
                let block = UnsafeMutableRawPointer.allocate(byteCount: 200, alignment: 8)
                block.storeBytes(of: 1, as: UInt8.self)
                return block
            }
            // One that stays behind the others keeps the C library from giving them back by itself.
            let last = blocks.removeLast()
            for block in blocks { block.deallocate() }
            let before = try #require(ProcessUsage.residentByteCount)
            ProcessUsage.trimMemory()
            let after = try #require(ProcessUsage.residentByteCount)
            // Other tests run at the same time.
            #expect(after < before - 100_000_000)
            last.deallocate()
        }
    #endif
}
