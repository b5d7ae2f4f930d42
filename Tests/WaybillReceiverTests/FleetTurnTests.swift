import Testing
import WaybillData
import WaybillExport
import WaybillFleet
import WaybillSystem
import WaybillTestSupport

@testable import WaybillReceiver

/// A data directory with states, and a journal of empty segments.
private final class TurnBench {
    let root: String
    private let files = POSIXFileSystem()
    private let data: DataDirectory<POSIXFileSystem>
    static let fleet = String(repeating: "f", count: 32)

    init(segments: [Int]) throws {
        self.root = try makeFolder()
        self.data = DataDirectory(root: self.root, files: self.files, openFileCountMax: 10)
        try self.data.create()
        try self.files.createDirectories(self.data.journal)
        for position in segments {
            let path = JournalPath.segment(JournalPosition(position), in: self.data.journal)
            self.files.close(try self.files.open(path, .appendNew))
        }
    }

    deinit {
        removeFolder(self.root)
    }

    func set(_ name: String, _ entries: [String: String]) throws {
        var state = try StateStore(path: self.data.statePath(name), files: self.files)
        try state.commit(entries)
    }

    func entries(_ name: String) throws -> [String: String] {
        try StateImage.read(self.data.statePath(name), files: self.files)?.entries ?? [:]
    }

    func position(_ name: String) throws -> String? { try self.entries(name)["position"] }

    enum Role {
        case alone
        /// `projections: none`
        case merged
        /// `projections: all`
        case both
    }

    /// Starts a receiver.
    func start(_ role: Role, fleet: String = TurnBench.fleet, end: Int) throws -> String? {
        var configuration = ReceiverConfiguration(dataDirectory: self.root)
        configuration.name = "a"
        configuration.projections = role == .merged ? ReceiverProjections.none : .all
        configuration.exports = [ExportOptions(provider: .csv)]
        return try FleetTurn(
            data: self.data, configuration: configuration, fleet: role == .alone ? nil : fleet,
            end: JournalPosition(end)
        ).take()
    }
}

@Suite struct FleetTurnTests {
    @Test func `the bucket begins where the own archive ends, and the archive continues where the bucket ends`() throws
    {
        let bench = try TurnBench(segments: [0, 1000])
        try bench.set("archive", ["position": "1000", "file:x": "7"])
        try bench.set("export-csv", ["position": "900"])
        #expect(try bench.start(.alone, end: 1000) == nil)
        #expect(try bench.entries("store") == [:])
        #expect(try bench.start(.merged, end: 1000) == nil)
        let joined = try bench.entries("store")
        #expect(joined["position"] == "1000" && joined["fleet"] == TurnBench.fleet && joined["projections"] == "none")
        #expect(joined["chain"].flatMap(ChainName.init)?.receiver == "a")
        // Another start changes nothing, and the uploader moves on.
        try bench.set("store", ["position": "1800"])
        #expect(try bench.start(.merged, end: 2000) == nil)
        #expect(try bench.entries("store")["chain"] == joined["chain"])
        // Alone again: what the bucket lacks is the archive's.
        #expect(try bench.start(.alone, end: 2000) == nil)
        #expect(try bench.position("archive") == "1800" && bench.position("export-csv") == "1800")
        #expect(try bench.entries("archive")["file:x"] == "7")
        let handed = try UploadState.handed(in: bench.root, files: POSIXFileSystem())
        #expect(handed == [JournalPosition(1000)..<JournalPosition(1800)])
        // A second start alone moves nothing back.
        try bench.set("archive", ["position": "2500"])
        #expect(try bench.start(.alone, end: 2500) == nil)
        #expect(try bench.position("archive") == "2500")
        // In the fleet again: another chain.
        #expect(try bench.start(.merged, end: 2500) == nil)
        let again = try bench.entries("store")
        #expect(again["position"] == "2500" && again["chain"] != joined["chain"])
    }

    @Test func `an archive in the middle of what was received must read it first`() throws {
        let bench = try TurnBench(segments: [0, 1000])
        try bench.set("archive", ["position": "1200"])
        let problem = try #require(try bench.start(.merged, end: 1500))
        #expect(problem.contains("position 1200") && problem.contains("start the receiver once more"))
        #expect(try bench.entries("store") == [:])
        // At a segment's beginning all that it lacks is the mergers'.
        try bench.set("archive", ["position": "1000"])
        #expect(try bench.start(.merged, end: 1500) == nil)
        #expect(try bench.position("store") == "1000")
    }

    @Test func `with both the bucket has everything, and a fleet afterwards, too`() throws {
        let bench = try TurnBench(segments: [0, 1000])
        try bench.set("archive", ["position": "1000"])
        #expect(try bench.start(.both, end: 1000) == nil)
        #expect(try bench.entries("store") == ["projections": "all"])
        try bench.set("store", ["fleet": TurnBench.fleet, "chain": "a~0000000000000001", "position": "600"])
        #expect(try bench.start(.merged, end: 1000) == nil)
        #expect(try bench.position("store") == "600")
        // From then on only the mergers have it.
        try bench.set("store", ["position": "1700"])
        #expect(try bench.start(.both, end: 1700) == nil)
        #expect(try bench.position("archive") == "1700")
    }

    @Test func `a receiver without an archive gives everything, and another fleet gets what the journal has`() throws {
        let bench = try TurnBench(segments: [500])
        #expect(try bench.start(.merged, end: 900) == nil)
        #expect(try bench.entries("store") == ["projections": "none", "since": "0"])
        try bench.set("store", ["fleet": TurnBench.fleet, "chain": "a~0000000000000001", "position": "900"])
        #expect(try bench.start(.merged, fleet: String(repeating: "e", count: 32), end: 900) == nil)
        #expect(try bench.position("store") == "900")
        #expect(try bench.start(.alone, end: 950) == nil)
        #expect(try bench.position("archive") == "900" && bench.position("export-csv") == "900")
    }
}
