import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillDoor

/// What counts as not taken away, and how often it is measured.
@Suite struct SpoolUsageTests {
    private static let segment = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042.ndjson"

    @Test func `segments count, and what was shipped and is kept does not`() throws {
        let root = try makeFolder()
        defer { removeFolder(root) }
        let files = POSIXFileSystem()
        try files.replace(Path.join(root, "beside.ndjson"), with: [1])
        for folder in ["com.example.shop-prod", "com.example.web-dev"] {
            let spool = Path.join(root, folder)
            try files.createDirectories(spool)
            try files.replace(Path.join(spool, Self.segment), with: Array(repeating: 0x0A, count: 300))
            for suffix in [".shipped-3-1795176000", ".again", ".tmp"] {
                try files.replace(Path.join(spool, Self.segment + suffix), with: Array(repeating: 0x0A, count: 1000))
            }
        }
        let usage = SpoolUsage()
        #expect(usage.byteCount == nil)
        usage.measure(root, on: files, now: MonotonicTime(nanoseconds: 0))
        #expect(usage.byteCount == 600)
    }

    @Test func `it is measured every ten seconds`() throws {
        let root = try makeFolder()
        defer { removeFolder(root) }
        let (files, usage, spool) = (POSIXFileSystem(), SpoolUsage(), Path.join(root, "com.example.shop-prod"))
        let start = MonotonicTime(nanoseconds: 1_000_000_000)
        usage.measure(spool, on: files, now: start)
        #expect(usage.byteCount == 0, "the folder is made by the first event")
        try files.createDirectories(spool)
        try files.replace(Path.join(spool, Self.segment), with: [0x0A])
        usage.measure(root, on: files, now: start + .seconds(9))
        #expect(usage.byteCount == 0)
        usage.measure(root, on: files, now: start + .seconds(10))
        #expect(usage.byteCount == 1)
    }

    @Test func `nothing is said while the disk refuses`() throws {
        let root = try makeFolder()
        defer { removeFolder(root) }
        let (files, usage, path) = (POSIXFileSystem(), SpoolUsage(), Path.join(root, "file"))
        try files.replace(path, with: [1])
        usage.measure(path, on: files, now: MonotonicTime(nanoseconds: 0))
        #expect(usage.byteCount == nil, "a file is no folder of spools")
    }
}
