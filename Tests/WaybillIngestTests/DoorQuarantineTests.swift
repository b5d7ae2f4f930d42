import Testing
import WaybillDoor
import WaybillEvent
import WaybillIngest
import WaybillJSON
import WaybillSystem
import WaybillTestSupport

/// Faulty events on a disk.
@Suite struct DoorQuarantineTests {
    private static let wall = WallTime(milliseconds: 1_795_165_200_000)
    private static let nextDay = WallTime(milliseconds: 1_795_165_200_000 + 86_400_000)
    private static let folder = "/quarantine/date=2026-11-20"

    /// - Parameter byteCountMax: of a day.
    private static func source(
        _ key: String = "wk_a0000001", byteCountMax: Int = 1 << 30
    ) -> IngestSource {
        var source = IngestSource(key: key, bundle: "com.example.a", environment: .prod)
        source.quarantineByteCountMax = byteCountMax
        return source
    }

    private let files = FaultyFiles()

    private func quarantine() -> DoorQuarantine<FaultyFiles> {
        DoorQuarantine(root: "/quarantine", files: self.files)
    }

    private func add(
        _ numbers: Range<Int>, _ reason: IngestFault = .noName, _ wall: WallTime = Self.wall,
        by source: IngestSource = Self.source(), to quarantine: inout DoorQuarantine<FaultyFiles>
    ) throws {
        for number in numbers {
            try quarantine.add(Array("event \(number)".utf8)[...], reason, .segment, source, wall)
        }
    }

    private func events(_ reason: IngestFault = .noName, in folder: String = Self.folder) throws -> [String] {
        let bytes = self.files.bytes(of: "\(folder)/\(reason.rawValue).ndjson") ?? []
        #expect(bytes.isEmpty || bytes.last == 0x0A)
        return try bytes.split(separator: 0x0A).map { line in
            try #require(JSONValue(Array(line))?["event"]?.string)
        }
    }

    private func names(_ numbers: Range<Int>) -> [String] { numbers.map { "event \($0)" } }

    /// Writes and syncs that `body` makes.
    private func calls(_ body: () throws -> Void) throws -> [FileVerb: Int] {
        let counts = Lock([FileVerb: Int]())
        self.files.setFaults { call in
            counts.withLock { $0[call.verb, default: 0] += 1 }
            return nil
        }
        defer { self.files.clearFaults() }
        try body()
        return counts.withLock { $0 }
    }

    @Test func `twenty thousand events of one reason are a few writes and one sync`() throws {
        var quarantine = self.quarantine()
        try self.add(0..<1, to: &quarantine)
        try quarantine.synchronize()
        let counts = try self.calls {
            try self.add(1..<20_001, to: &quarantine)
            try quarantine.synchronize()
        }
        let byteCount = try #require(self.files.bytes(of: Self.folder + "/no-name.ndjson")).count
        #expect(counts[.write] == byteCount / DoorQuarantine<FaultyFiles>.waitingByteCountMax + 1)
        #expect(counts[.synchronize] == 1)
        #expect(try self.events() == self.names(0..<20_001))
    }

    @Test func `nothing is written before the group is whole, and each reason has its file`() throws {
        var quarantine = self.quarantine()
        try self.add(0..<3, to: &quarantine)
        try self.add(3..<5, .badTime, to: &quarantine)
        #expect(try self.events().isEmpty)
        try quarantine.synchronize()
        self.files.crash(seed: 1)
        #expect(try self.events() == self.names(0..<3))
        #expect(try self.events(.badTime) == self.names(3..<5))
    }

    @Test func `a key's day has a limit, which counts what waits and what was there before`() throws {
        var quarantine = self.quarantine()
        try self.add(0..<10, to: &quarantine)
        try quarantine.synchronize()
        let byteCount = try #require(self.files.bytes(of: Self.folder + "/no-name.ndjson")).count
        quarantine = self.quarantine()
        let source = Self.source(byteCountMax: byteCount * 2)
        try self.add(0..<25, .badTime, by: source, to: &quarantine)
        try self.add(50..<52, .noPerson, by: Self.source("wk_b0000001", byteCountMax: byteCount), to: &quarantine)
        try quarantine.synchronize()
        let dropped = quarantine.droppedCount
        #expect(dropped == 15)
        #expect(try self.events(.badTime) == self.names(0..<10))
        #expect(try self.events(.noPerson) == self.names(50..<52), "another key has its own room")
        try self.add(0..<2, .noName, Self.nextDay, by: source, to: &quarantine)
        try quarantine.synchronize()
        #expect(try self.events(in: "/quarantine/date=2026-11-21") == self.names(0..<2))
    }

    @Test func `after a write that fails the group comes again, and no line is torn`() throws {
        var quarantine = self.quarantine()
        try self.add(0..<3, to: &quarantine)
        try quarantine.synchronize()
        for fault in [FaultyFiles.Fault.error(28), .half(28), .half(5)] {
            for verb in [FileVerb.write, .synchronize] {
                self.files.setFaults { call in call.verb == verb ? fault : nil }
                #expect(throws: FileSystemError.self) {
                    try self.add(3..<6, to: &quarantine)
                    try quarantine.synchronize()
                }
                self.files.clearFaults()
                quarantine.giveUp()
            }
        }
        try self.add(3..<6, to: &quarantine)
        try quarantine.synchronize()
        let events = try self.events()
        #expect(events.prefix(3) == self.names(0..<3)[...] && events.suffix(3) == self.names(3..<6)[...])
        // Syncs failed after their writes: those lines are there once more. The limit knows all of it.
        #expect(Set(events) == Set(self.names(0..<6)))
        let byteCount = try #require(self.files.bytes(of: Self.folder + "/no-name.ndjson")).count
        quarantine = self.quarantine()
        try self.add(9..<10, by: Self.source(byteCountMax: byteCount), to: &quarantine)
        let dropped = quarantine.droppedCount
        #expect(dropped == 1)
    }

    @Test func `half a line of a process that was killed is cut off`() throws {
        var quarantine = self.quarantine()
        try self.add(0..<2, to: &quarantine)
        try quarantine.synchronize()
        let file = try self.files.open(Self.folder + "/no-name.ndjson", .append)
        try Array("{\"received\":".utf8).withUnsafeBytes { try self.files.writeAll(file, $0) }
        self.files.close(file)
        quarantine = self.quarantine()
        try self.add(2..<3, to: &quarantine)
        try quarantine.synchronize()
        #expect(try self.events() == self.names(0..<3))
    }
}
