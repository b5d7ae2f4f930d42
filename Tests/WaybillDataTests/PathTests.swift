import Testing
import WaybillData
import WaybillSystem
import WaybillTestSupport

@Suite struct PartitionPathTests {
    @Test(arguments: [
        ("com.example.shop", "com.example.shop"), ("A-Z_a.9", "A-Z_a.9"), ("", ""), (".", "%2E"), ("..", "%2E."),
        ("_overflow", "%5Foverflow"), ("../../etc", "%2E.%2F..%2Fetc"), ("a/b", "a%2Fb"), ("a%2Fb", "a%252Fb"),
        ("a b\n\u{0}", "a%20b%0A%00"), ("앱", "%EC%95%B1"), ("=", "%3D"),
    ])
    func `a value becomes one component that no other value becomes`(value: String, component: String) {
        #expect(PartitionPath.component(value) == component)
    }

    @Test func `no value leaves its folder, is hidden, or grows without bound`() {
        var generator = SeededGenerator(seed: 1)
        var components: [String: String] = [:]
        for _ in 0..<3000 {
            let count = Int.random(in: 0..<6, using: &generator)
            let alphabet: [Unicode.Scalar] = [".", "/", "_", "%", "a", "\u{0}", "é", "2", "F", "~"]
            var value = ""
            for _ in 0..<count {
                value.unicodeScalars.append(alphabet[Int.random(in: 0..<alphabet.count, using: &generator)])
            }
            let component = PartitionPath.component(value)
            #expect(!component.hasPrefix("."))
            #expect(component.utf8.filter { $0 == UInt8(ascii: "/") || $0 >= 0x80 } == [])
            #expect(component != PartitionPath.overflowBundle)
            let other = components.updateValue(value, forKey: component)
            #expect(other == nil || other.map { Array($0.utf8) } == Array(value.utf8))
        }
    }

    @Test func `long values are cut, and told apart by a fingerprint`() {
        let value = String(repeating: "a", count: 300)
        let component = PartitionPath.component(value)
        #expect(component.hasPrefix(String(repeating: "a", count: 100) + "%~"))
        #expect(component.utf8.count == 118)
        #expect(component != PartitionPath.component(value + "a"))
        #expect(PartitionPath.component(String(repeating: "a", count: 100)) == String(repeating: "a", count: 100))
        #expect(PartitionPath.component(String(repeating: "/", count: 300)).utf8.count <= 120)
    }

    @Test func `part names count from their number back`() {
        #expect(PartitionPath.part(7) == "part-00007")
        #expect(PartitionPath.part(123_456) == "part-123456")
        #expect(PartitionPath.partNumber(of: "part-00007.ndjson") == 7)
        #expect(PartitionPath.partNumber(of: "part-123456.manifest.json") == 123_456)
        #expect(PartitionPath.partNumber(of: "late-00001.ndjson") == nil)
        #expect(PartitionPath.partNumber(of: "part-.ndjson") == nil)
    }
}

@Suite struct DataDirectoryTests {
    @Test func `its folders are there after a crash`() throws {
        for call in 1...30 {
            for seed in 0..<4 {
                let disk = FaultyFiles()
                let data = DataDirectory(root: "/srv/waybill", files: disk)
                try disk.createDirectories("/srv/waybill")
                disk.stop(atCall: call)
                do { try data.create() } catch { #expect(disk.isStopped) }
                disk.kill()
                try data.create()
                disk.crash(seed: UInt64(seed))
                #expect(try disk.list("/srv/waybill") == ["archive", "exports", "journal", "state"])
            }
        }
    }

    @Test func `a second process is told who has it`() throws {
        let disk = FaultyFiles()
        let data = DataDirectory(root: "/data", files: disk)
        try data.create()
        let lock = try data.lock(processID: 41)
        #expect(throws: DataDirectoryError.locked(path: "/data", owner: "41")) { try data.lock(processID: 42) }
        disk.close(lock)
        _ = try data.lock(processID: 42)
        #expect(disk.bytes(of: "/data/state/lock") == Array("42\n".utf8))
        disk.kill()
        _ = try data.lock(processID: 43)
        #expect(disk.memory.openDescriptorCount == 1)
    }

    @Test func `a lock that fails leaves nothing open`() throws {
        for call in 1...4 {
            let disk = FaultyFiles()
            let data = DataDirectory(root: "/data", files: disk)
            try data.create()
            disk.fail(call: call, .error(Errno.inputOutput))
            #expect(throws: DataDirectoryError.self) { try data.lock(processID: 1) }
            #expect(disk.memory.openDescriptorCount == 0)
        }
    }
}
