import Testing
import WaybillReceiver
import WaybillSystem
import WaybillTestSupport

@testable import WaybillDoor

/// When the list of clients is read, and what is told of it.
@Suite struct WatchedAgentsTests {
    private static func configuration(_ files: [String]) -> StreamsConfiguration {
        var configuration = StreamsConfiguration(receiver: NetworkAddress(host: "127.0.0.1", port: 1), agent: "door")
        configuration.agents = [Principal(name: "app")]
        configuration.agentsFiles = files
        return configuration
    }

    @Test func `what changed before the first look, or while the files were read, is read`() throws {
        let folder = try makeFolder()
        defer { removeFolder(folder) }
        let (path, files) = ("\(folder)/agents.yaml", POSIXFileSystem())
        try files.replace(path, with: [1])
        var watched = WatchedAgents(Self.configuration([path]))
        let both = [Principal(name: "app"), Principal(name: "web")]
        var error: (any Error)?
        let first = watched.look(on: files) {
            // The file changes after it was read.
            do { try files.replace(path, with: [1, 2]) } catch let failure { error = failure }
            return .read(both, files: [path])
        }
        #expect(error == nil)
        #expect(first == .changed(both))
        #expect(watched.look(on: files) { .read([both[1]], files: [path]) } == .changed([both[1]]))
        #expect(watched.look(on: files) { .read([], files: [path]) } == nil, "nothing has changed")
    }

    @Test func `a list that cannot be used is read again each time, and each problem told once`() throws {
        let folder = try makeFolder()
        defer { removeFolder(folder) }
        let (path, files) = ("\(folder)/agents.yaml", POSIXFileSystem())
        try files.replace(path, with: [1])
        var watched = WatchedAgents(Self.configuration([path]))
        #expect(watched.look(on: files) { .unusable(["a"]) } == .unusable(["a"]))
        #expect(watched.look(on: files) { .unusable(["a"]) } == nil)
        #expect(watched.look(on: files) { .unusable(["b"]) } == .unusable(["b"]))
        #expect(watched.look(on: files) { .read([Principal(name: "web")], files: [path]) } != nil)
        #expect(watched.look(on: files) { .unusable(["b"]) } == nil, "nothing has changed")
    }

    @Test func `a list of other files than before is read once more`() throws {
        let folder = try makeFolder()
        defer { removeFolder(folder) }
        let (path, other, files) = ("\(folder)/a.yaml", "\(folder)/b.yaml", POSIXFileSystem())
        var watched = WatchedAgents(Self.configuration([path]))
        var count = 0
        for _ in 0..<4 {
            let news = watched.look(on: files) {
                count += 1
                return .read([Principal(name: "app")], files: [path, other])
            }
            #expect(news == nil)
        }
        #expect(count == 2)
    }
}
