import Testing
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillProjection
import WaybillSystem
import WaybillTestSupport

@testable import WaybillDelivery

/// Which parts wait to be sent.
@Suite struct ClosedPartsTests {
    private static let root = "/data/exports/mixpanel"
    private static let day = "env=prod/date=2026-11-20"
    /// Later than any change of the disk.
    private static let now = WallTime(milliseconds: 1 << 50)

    private static func manifest(_ records: Int) -> String {
        "{\"provider\":\"mixpanel\",\"env\":\"prod\",\"day\":\"2026-11-20\",\"zone\":\"UTC\",\"mapping\":0,"
            + "\"records\":\(records),\"events\":\(records),\"fix\":{},\"dead\":{},\"held\":0,\"first_id\":\"a\","
            + "\"last_id\":\"b\",\"sha256\":\"\(String(repeating: "0a", count: 32))\"}"
    }

    /// A day with one part.
    private static func files() throws -> FaultyFiles {
        let files = FaultyFiles()
        try files.createDirectories("\(Self.root)/\(Self.day)")
        try files.replace("\(Self.root)/\(Self.day)/part-00000.manifest.json", with: Array(Self.manifest(3).utf8))
        return files
    }

    @Test func `a day that is wholly delivered is not read again before its folder changes`() throws {
        let files = try Self.files()
        var parts = ClosedParts(root: Self.root, files: files)
        #expect(try parts.pending(only: nil, now: Self.now).parts.map(\.name) == ["part-00000"])
        let digest = String(repeating: "0a", count: 32) + "\n"
        try files.replace("\(Self.root)/\(Self.day)/part-00000.delivered", with: Array(digest.utf8))
        #expect(try parts.pending(only: nil, now: Self.now).parts == [])

        files.fail(.list, of: "\(Self.root)/\(Self.day)", .error(Errno.inputOutput))
        #expect(try parts.pending(only: nil, now: Self.now).parts == [])
        #expect(parts.deliveredCount(of: Self.day) == 1)
        files.clearFaults()
        // A replay exchanges the folder.
        let other = Self.root + "/.other"
        try files.createDirectories(other)
        try files.replace(other + "/part-00001.manifest.json", with: Array(Self.manifest(4).utf8))
        try files.exchange(other, with: "\(Self.root)/\(Self.day)")
        #expect(try parts.pending(only: nil, now: Self.now).parts.map(\.name) == ["part-00001"])
    }

    @Test func `a part without its file is damaged`() throws {
        let files = try Self.files()
        var parts = ClosedParts(root: Self.root, files: files)
        let part = try #require(try parts.pending(only: nil, now: Self.now).parts.first)
        do throws(PartError) {
            _ = try parts.open(part, of: .mixpanel)
            Issue.record("it has no file")
        } catch {
            guard case .damaged(let detail) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(detail.contains("part-00000.ndjson"))
        }
    }

    @Test func `records of closed parts that are not compressed yet are counted apart`() throws {
        let files = FaultyFiles()
        let data = DataDirectory(root: "/data", files: files)
        try data.create()
        var state = try StateStore(path: data.statePath("export-mixpanel"), files: files)
        let folder = "exports/mixpanel/\(Self.day)"
        try state.commit([
            "closed:\(folder)/part-00000": Self.manifest(3), "closed:\(folder)/part-00001": Self.manifest(4),
            "closed:\(folder)/dead/part-00000": "{}",
        ])
        let open = try OpenParts(of: .mixpanel, only: nil, in: data, at: Self.now)
        #expect(open.closingRecordCount == 7)
        #expect(open.recordCount == 0)
        #expect(try OpenParts(of: .mixpanel, only: .dev, in: data, at: Self.now).closingRecordCount == 0)
        var report = DeliveryReport()
        report.open = open
        #expect(report.json(.mixpanel).contains("\"closing_records\":7,"))
    }

    @Test func `what is open is as old as its first record when it is read`() throws {
        let files = FaultyFiles()
        let data = DataDirectory(root: "/data", files: files)
        try data.create()
        var state = try StateStore(path: data.statePath("export-mixpanel"), files: files)
        let received = Self.now.milliseconds - 90_500
        try state.commit([
            "part:exports/mixpanel/\(Self.day)":
                "number=0 records=2 events=2 bytes=9 held=0 late24=0 late48=0 received=\(received) first=a last=b"
        ])
        let open = try OpenParts(of: .mixpanel, only: nil, in: data, at: Self.now)
        #expect(open.recordCount == 2 && open.oldestSeconds == 90)
        var report = DeliveryReport()
        report.open = open
        #expect(report.json(.mixpanel).contains("\"open_records\":2,\"oldest_open_s\":90,\"closing_records\":0,"))
    }
}
