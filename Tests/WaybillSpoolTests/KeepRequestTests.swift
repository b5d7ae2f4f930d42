import Testing
import WaybillSpool
import WaybillSystem
import WaybillTestSupport

@Suite struct KeepRequestTests {
    private let files = FaultyFiles()
    private let path = "/spool/\(KeepRequest.name)"

    @Test(arguments: [(0, 0), (600, 600), (86_400, 86_400), (90_000, 86_400), (-5, 0)])
    func `a request reads itself, within its bounds`(seconds: Int, expected: Int) {
        let keepRequest = KeepRequest(.seconds(seconds))
        #expect(keepRequest.duration == .seconds(expected))
        #expect(KeepRequest(parsing: keepRequest.bytes) == keepRequest)
    }

    @Test func `a request is written once, and replaced by another one`() throws {
        try files.createDirectories("/spool")
        try KeepRequest(.seconds(600)).write(to: "/spool", on: files)
        let node = try #require(files.memory.node(at: path)).number
        try KeepRequest(.seconds(600)).write(to: "/spool", on: files)
        #expect(files.memory.node(at: path)?.number == node)
        #expect(files.bytes(of: path) == Array("{\"seconds\":600}\n".utf8))
        try KeepRequest(.seconds(1200)).write(to: "/spool", on: files)
        #expect(files.bytes(of: path) == Array("{\"seconds\":1200}\n".utf8))
        files.crash(seed: 1)
        #expect(files.bytes(of: path) == Array("{\"seconds\":1200}\n".utf8))
    }

    @Test func `a link in its place is replaced, and what it leads to stays`() throws {
        try files.createDirectories("/spool")
        files.place("/elsewhere", Array("precious\n".utf8))
        files.memory.link(path, to: "/elsewhere")
        try KeepRequest(.seconds(600)).write(to: "/spool", on: files)
        #expect(try files.status(ofEntry: path)?.kind == .regular)
        #expect(files.bytes(of: "/elsewhere") == Array("precious\n".utf8))
    }
}
