import Testing

@testable import WaybillLive

@Suite struct PageFileTests {
    @Test func `the page is in the program, and within 100 kB`() {
        #expect(PageFile.all.map(\.path) == ["/", "/live.js", "/live.css"])
        #expect(PageFile.all.allSatisfy { !$0.bytes.isEmpty })
        #expect(PageFile.all.reduce(0) { $0 + $1.bytes.count } <= 100_000)
        #expect(Set(PageFile.all.map(\.tag)).count == 3)
    }
}
