import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillProjection

/// Which revisions of sealed days are handed out, and what a process that died leaves.
@Suite struct SealedFeedTests {
    private static let day = "archive/env=prod/bundle=com.example.shop/date=2026-11-20"

    private static func manifest(_ revision: Int) -> String {
        "{\"revision\":\(revision),\"env\":\"prod\",\"bundle\":\"com.example.shop\",\"day\":\"2026-11-20\",\"zone\":\"UTC\","
            + "\"sealed_at\":\"2026-11-21T04:00:00.000Z\",\"files\":[{\"name\":\"part-00001.ndjson.gz\",\"lines\":2,"
            + "\"bytes\":32,\"gz_bytes\":38,\"sha256\":\"ab\"}]}\n"
    }

    private static func seal(_ day: String = Self.day, revision: Int, on files: FaultyFiles) throws {
        let folder = "/data/\(day)"
        try files.createDirectories(folder)
        try files.replace("\(folder)/manifest.json", with: Array(Self.manifest(revision).utf8))
        try files.replace("\(folder)/_SUCCESS", with: [])
    }

    private static func files() throws -> FaultyFiles {
        let files = FaultyFiles()
        try files.createDirectories("/cursors")
        try files.createDirectories("/data")
        return files
    }

    /// The revisions that a new process hands out.
    private static func revisions(on files: FaultyFiles) throws -> [Int] {
        var feed = try SealedFeed(data: "/data", cursor: "/cursors/a", files: files)
        #expect(try feed.rest(nil) == nil)
        var revisions: [Int] = []
        let isFinished = try feed.pass { (feed, found) throws(FileSystemError) in
            try feed.announce(found, nil)
            revisions.append(found.day.revision)
            return true
        }
        #expect(isFinished)
        return revisions
    }

    @Test func `each revision is handed out once, whatever process asks`() throws {
        let files = try Self.files()
        #expect(try Self.revisions(on: files) == [])
        try Self.seal(revision: 1, on: files)
        #expect(try Self.revisions(on: files) == [1])
        #expect(try Self.revisions(on: files) == [])
        try Self.seal(revision: 2, on: files)
        try Self.seal("archive/env=dev/bundle=a/date=2026-11-20", revision: 1, on: files)
        #expect(try Self.revisions(on: files) == [1, 2])
        #expect(try Self.revisions(on: files) == [])
    }

    @Test func `a day without _SUCCESS is not handed out`() throws {
        let files = try Self.files()
        try Self.seal(revision: 1, on: files)
        try files.unlink("/data/\(Self.day)/_SUCCESS")
        #expect(try Self.revisions(on: files) == [])
        try files.replace("/data/\(Self.day)/_SUCCESS", with: [])
        #expect(try Self.revisions(on: files) == [1])
    }

    @Test func `an unchanged day's manifest is not read again`() throws {
        let files = try Self.files()
        try Self.seal(revision: 1, on: files)
        #expect(try Self.revisions(on: files) == [1])
        files.fail(.open, of: "/data/\(Self.day)/manifest.json", .error(Errno.inputOutput))
        #expect(try Self.revisions(on: files) == [])
    }

    @Test func `a deleted day is forgotten, and handed out when it comes again`() throws {
        let files = try Self.files()
        try Self.seal(revision: 1, on: files)
        #expect(try Self.revisions(on: files) == [1])
        try files.removeTree("/data/\(Self.day)")
        #expect(try Self.revisions(on: files) == [])
        #expect(try StateStore(path: "/cursors/a", files: files).entries.isEmpty)
        try Self.seal(revision: 1, on: files)
        #expect(try Self.revisions(on: files) == [1])
    }

    /// How much of a line a file has when its process dies.
    enum Death: CaseIterable {
        case before, torn, after
    }

    @Test(arguments: Death.allCases)
    func `a file gets each line once, however much of it a dead process had written`(death: Death) throws {
        let files = try Self.files()
        try Self.seal(revision: 1, on: files)
        let identity = FileIdentity(device: 1, inode: 2)
        var line: [UInt8] = []
        var feed = try SealedFeed(data: "/data", cursor: "/cursors/a", files: files)
        _ = try feed.pass { (feed, found) throws(FileSystemError) in
            line = found.day.line
            try feed.announce(found, .init(identity: identity, byteCount: 100))
            return false
        }
        let written =
            switch death {
            case .before: 0
            case .torn: 7
            case .after: line.count + 1
            }
        var second = try SealedFeed(data: "/data", cursor: "/cursors/a", files: files)
        let rest = try second.rest(.init(identity: identity, byteCount: 100 + written))
        if death == .after {
            #expect(rest == nil)
        } else {
            #expect(rest == .bytes(Array((line + [0x0A])[written...])))
            try second.confirm()
        }
        #expect(try Self.revisions(on: files) == [])
    }

    @Test func `a pipe gets a line in doubt once more, marked`() throws {
        let files = try Self.files()
        try Self.seal(revision: 1, on: files)
        var line: [UInt8] = []
        var feed = try SealedFeed(data: "/data", cursor: "/cursors/a", files: files)
        _ = try feed.pass { (feed, found) throws(FileSystemError) in
            line = found.day.line
            try feed.announce(found, nil)
            return false
        }
        var second = try SealedFeed(data: "/data", cursor: "/cursors/a", files: files)
        #expect(try second.rest(nil) == .again(line))
        let marked = String(decoding: SealedFeed<FaultyFiles>.marked(line), as: UTF8.self)
        #expect(marked.hasSuffix(",\"again\":true}"))
        // Still in doubt until it is confirmed.
        var third = try SealedFeed(data: "/data", cursor: "/cursors/a", files: files)
        #expect(try third.rest(nil) == .again(line))
        try third.confirm()
        #expect(try Self.revisions(on: files) == [])
    }
}
