import Logging
import Testing
import Waybill
import WaybillAgent
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem

@testable import WaybillDispatch

/// The name that an install's key gives it, read from its file.
private func name(of place: Place) throws -> String {
    let bytes = try #require(try POSIXFileSystem().contents(of: place.keyPath))
    let key = try #require(DeviceKey(text: bytes.prefix { $0 != UInt8(ascii: " ") }))
    return key.agentName
}

extension Place {
    fileprivate var stateDirectory: String { self.spool + "/dispatch" }
    fileprivate var keyPath: String { Path.join(self.stateDirectory, "device.key") }

    /// The agent of a dispatcher, but one that stays connected.
    fileprivate func agent(port: Int) throws -> Agent {
        var configuration = try Dispatcher.Configuration(
            spool: self.spool, receivers: ["127.0.0.1:\(port)"], mode: .manual, security: .plain
        ).agent()
        configuration.run.mode = .continuous
        return Agent(configuration: configuration, logger: Logger(label: "agent") { _ in SwiftLogNoOpLogHandler() })
    }
}

@Test func `two installs are connected to one receiver at once`() async throws {
    let receiver = try Place()
    let places = [try Place(), try Place()]
    let waybills = try places.map { try $0.waybill() }
    try await receiver.receiving {
        var tasks: [Task<Void, any Error>] = []
        for (index, place) in places.enumerated() {
            waybills[index].track("e\(index)")
            let agent = try place.agent(port: receiver.port)
            tasks.append(Task { try await agent.run() })
            // The agents before this one stay connected meanwhile.
            while try receiver.archivedNames().count <= index { await Task.yield() }
        }
        for task in tasks { task.cancel() }
        for task in tasks { try await task.value }
    }
    #expect(try receiver.archivedNames().sorted() == ["e0", "e1"])
    #expect(try name(of: places[0]) != name(of: places[1]))
}

@Test func `an install keeps its key`() async throws {
    let place = try Place()
    let waybill = try place.waybill()
    var names: Set<String> = []
    try await place.receiving {
        for number in 0..<3 {
            waybill.track("e\(number)")
            #expect(await (try place.dispatcher()).flush() == .delivered(1, remaining: 0))
            names.insert(try name(of: place))
        }
    }
    #expect(names.count == 1)
}

@Test(arguments: ["", "\n", "AAAAAAAAAAAAAAAAAAAAAA== 0000000000000000\n", "not a key"])
func `a damaged key is set aside, and the install gets another`(damage: String) throws {
    let place = try Place()
    let files = POSIXFileSystem()
    try files.createDirectories(place.stateDirectory)
    let file = DeviceKeyFile(in: place.stateDirectory, on: files)
    let first = try file.open()
    #expect(first.damagedPath == nil)
    try files.replace(place.keyPath, with: Array(damage.utf8))
    let second = try file.open()
    #expect(second.key != first.key)
    let damagedPath = try #require(second.damagedPath)
    #expect(try files.contents(of: damagedPath) == Array(damage.utf8))
    let third = try file.open()
    #expect(third.key == second.key)
    #expect(third.damagedPath == nil)
}

@Test func `the name of an install is the hash of its key, and the key never prints`() throws {
    let key = try #require(DeviceKey(Array(0..<16)))
    #expect(key.text == "AAECAwQFBgcICQoLDA0ODw")
    // printf '\000\001\002…\017' | sha256sum
    #expect(key.agentName == "be45cb2605bf36bebde684841a28f0fd")
    #expect(DeviceKey(text: key.text.utf8) == key)
    #expect(DeviceKey(Array(0..<15)) == nil)
    #expect(DeviceKey(text: "AAECAwQFBgcICQoLDA0ODx".utf8) == nil)
    var text = "\(key) \(String(reflecting: key))"
    dump(key, to: &text)
    #expect(!text.contains(key.text))
}
