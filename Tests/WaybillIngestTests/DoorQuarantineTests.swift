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

    /// - Parameter address: whose events they are; `nil`: each has another sender.
    private func add(
        _ numbers: Range<Int>, _ reason: IngestFault = .noName, _ wall: WallTime = Self.wall,
        by source: IngestSource = Self.source(), from address: String? = nil,
        to quarantine: inout DoorQuarantine<FaultyFiles>
    ) throws {
        for number in numbers {
            let address = AddressGroup(address ?? "10.0.\(number / 256).\(number % 256)")
            _ = try quarantine.add(Array("event \(number)".utf8)[...], reason, .segment, source, address, wall)
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

    @Test(arguments: [[0x22, 0xE9, 0x22], [0xFF], [0xED, 0xA0, 0x80], [0xC3]] as [[UInt8]])
    func `an event that is no text is kept byte for byte in a line that is`(event: [UInt8]) throws {
        var quarantine = self.quarantine()
        for event in [event, Array("caf\u{E9}".utf8)] {
            let isKept = try quarantine.add(event[...], .notJSON, .native, Self.source(), .unknown, Self.wall)
            #expect(isKept)
        }
        try quarantine.synchronize()
        let bytes = try #require(self.files.bytes(of: Self.folder + "/not-json.ndjson"))
        #expect(bytes.withUnsafeBytes { UTF8Text.firstInvalidOffset(in: $0) } == nil)
        let lines = try bytes.split(separator: 0x0A).map { try #require(JSONValue(Array($0))) }
        let kept = try #require(lines[0]["event_base64"]?.string)
        #expect(Base64Text.decode(Array(kept.utf8)) == event)
        #expect(lines[0]["event"] == nil)
        #expect(lines[1]["event"]?.string == "caf\u{E9}")
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
        // A sender has a quarter of what is left, so the room of the last four lines stays free.
        #expect(dropped == 19)
        #expect(try self.events(.badTime) == self.names(0..<6))
        #expect(try self.events(.noPerson) == self.names(50..<52), "another key has its own room")
        try self.add(0..<2, .noName, Self.nextDay, by: source, to: &quarantine)
        try quarantine.synchronize()
        #expect(try self.events(in: "/quarantine/date=2026-11-21") == self.names(0..<2))
    }

    @Test func `an address and a reason leave room to others`() throws {
        var quarantine = self.quarantine()
        let source = Self.source(byteCountMax: 1 << 20)
        try self.add(0..<10_000, by: source, from: "192.0.2.1", to: &quarantine)
        try quarantine.synchronize()
        let stranger = try self.events().count
        #expect(stranger > 1_000)
        try self.add(10_000..<10_010, by: source, from: "192.0.2.2", to: &quarantine)
        try quarantine.synchronize()
        #expect(try self.events().suffix(10) == self.names(10_000..<10_010)[...])
        let byteCount = try #require(self.files.bytes(of: Self.folder + "/no-name.ndjson")).count
        #expect(byteCount < 1 << 18)
        // A crowd with one kind of fault fills half of the room, also if it is known only by its file.
        for first in [20_000, 40_000] {
            try self.add(first..<first + 10_000, by: source, to: &quarantine)
            try quarantine.synchronize()
            quarantine = self.quarantine()
        }
        let full = try #require(self.files.bytes(of: Self.folder + "/no-name.ndjson")).count
        #expect(full > 1 << 18 && full <= 1 << 19)
        try self.add(0..<10, .tooLong, by: source, from: "192.0.2.3", to: &quarantine)
        try quarantine.synchronize()
        #expect(try self.events(.tooLong) == self.names(0..<10))
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

    // MARK: Old days

    /// A quarantine that keeps days for 30 days, of a program of 2026-11-01.
    private func keeping(_ dayCountMax: Int = 30) throws -> DoorQuarantine<FaultyFiles> {
        var quarantine = self.quarantine()
        let programDate = try #require(WallTime(text: "2026-11-01T00:00:00.000Z"))
        quarantine.keep(dayCountMax: dayCountMax, since: programDate)
        return quarantine
    }

    /// Deletes what is too old, one step after the other.
    private func retire(
        _ quarantine: inout DoorQuarantine<FaultyFiles>, _ wall: WallTime = Self.wall
    ) -> [QuarantineRetirement] {
        var steps: [QuarantineRetirement] = []
        while true {
            let step = quarantine.retire(wall)
            if step == .done { return steps }
            steps.append(step)
        }
    }

    private func place(_ days: String...) {
        for day in days { self.files.place("/quarantine/date=\(day)/no-name.ndjson", Array("{}\n".utf8)) }
    }

    private func deletion(of day: String) throws -> QuarantineRetirement {
        .deleted(try #require(CalendarDay(day)))
    }

    @Test func `days that are over for longer than the limit are deleted, the oldest first`() throws {
        self.place("2026-11-20", "2026-11-19", "2026-10-21", "2026-10-20", "2026-10-19", "2024-02-29")
        var quarantine = try self.keeping()
        let steps = self.retire(&quarantine)
        #expect(
            steps == [
                try self.deletion(of: "2024-02-29"), try self.deletion(of: "2026-10-19"),
                try self.deletion(of: "2026-10-20"),
            ])
        #expect(
            self.files.names(in: "/quarantine") == ["date=2026-10-21", "date=2026-11-19", "date=2026-11-20"])
        let later = self.retire(&quarantine, Self.nextDay)
        #expect(later == [try self.deletion(of: "2026-10-21")], "at the turn of the day")
        quarantine.keep(dayCountMax: 1, since: .unknown)
        let shorter = self.retire(&quarantine, Self.nextDay)
        #expect(shorter == [try self.deletion(of: "2026-11-19")], "another limit applies at once")
    }

    @Test func `without a limit, and without a folder, nothing is deleted`() throws {
        var empty = try self.keeping()
        let nothing = self.retire(&empty)
        #expect(nothing.isEmpty)
        self.place("2020-01-01")
        var unbounded = self.quarantine()
        let kept = self.retire(&unbounded)
        #expect(kept.isEmpty)
        #expect(self.files.names(in: "/quarantine") == ["date=2020-01-01"])
    }

    @Test func `what has another name or is no folder stays, and no link is followed`() throws {
        let others = [
            "2020-01-01", "date=2020-01-01.old", "date=2020-1-1", "date=2020-02-30", "date=20200101", "date=", "date=x",
            "Date=2020-01-01", "xdate=2020-01-01",
        ]
        for name in others { self.files.place("/quarantine/\(name)/no-name.ndjson", [0x0A]) }
        self.files.place("/quarantine/date=2020-01-02", [0x0A])
        self.files.place("/elsewhere/no-name.ndjson", [0x0A])
        self.files.memory.link("/quarantine/date=2020-01-03", to: "/elsewhere")
        // A link to a day to come is no day, either.
        self.files.memory.link("/quarantine/date=2030-01-01", to: "/elsewhere")
        self.place("2020-01-04")
        self.files.memory.link("/quarantine/date=2020-01-04/linked", to: "/elsewhere")
        var quarantine = try self.keeping()
        let steps = self.retire(&quarantine)
        #expect(steps == [try self.deletion(of: "2020-01-04")])
        let links = ["date=2020-01-02", "date=2020-01-03", "date=2030-01-01"]
        #expect(Set(self.files.names(in: "/quarantine")) == Set(others + links))
        #expect(self.files.names(in: "/elsewhere") == ["no-name.ndjson"])
    }

    @Test func `a clock before the youngest day, or before the program, deletes nothing`() throws {
        self.place("2020-01-01", "2026-11-21")
        var quarantine = try self.keeping()
        let youngest = try #require(CalendarDay("2026-11-21"))
        let before = self.retire(&quarantine)
        #expect(before == [.clockDoubted(Self.wall, youngest: youngest)], "it is told once")
        let right = self.retire(&quarantine, Self.nextDay)
        #expect(right == [try self.deletion(of: "2020-01-01")])

        self.files.memory.place("/quarantine/date=2020-01-01/no-name.ndjson", [0x0A])
        try self.files.removeTree("/quarantine/date=2026-11-21")
        quarantine = try self.keeping()
        let early = try #require(WallTime(text: "2026-10-31T23:59:59.999Z"))
        let old = self.retire(&quarantine, early)
        #expect(old == [.clockDoubted(early, youngest: try #require(CalendarDay("2020-01-01")))])
        #expect(self.files.names(in: "/quarantine") == ["date=2020-01-01"])
    }

    @Test func `what cannot be deleted is told once and tried again on the next day`() throws {
        self.place("2020-01-01", "2020-01-02", "2020-01-03", "2026-11-20")
        for day in ["2020-01-01", "2020-01-03"] {
            self.files.fail(.unlink, of: "/quarantine/date=\(day)/no-name.ndjson", .error(Errno.inputOutput))
        }
        var quarantine = try self.keeping()
        let steps = self.retire(&quarantine)
        #expect(steps.first == (try self.deletion(of: "2020-01-02")), "the others are deleted")
        guard case .failed(let error, dayCount: 2)? = steps.last, steps.count == 2 else {
            Issue.record("\(steps)")
            return
        }
        #expect(error.path == "/quarantine/date=2020-01-01/no-name.ndjson")
        self.files.clearFaults()
        let sameDay = self.retire(&quarantine)
        #expect(sameDay.isEmpty)
        let nextDay = self.retire(&quarantine, Self.nextDay)
        #expect(nextDay == [try self.deletion(of: "2020-01-01"), try self.deletion(of: "2020-01-03")])

        self.place("2020-01-01")
        self.files.fail(.list, of: "/quarantine", .error(Errno.inputOutput))
        quarantine = try self.keeping()
        let unlisted = self.retire(&quarantine)
        guard case .failed(_, dayCount: 0)? = unlisted.first, unlisted.count == 1 else {
            Issue.record("\(unlisted)")
            return
        }
    }

    @Test func `a day is looked up once`() throws {
        self.place("2020-01-01", "2026-11-20")
        var quarantine = try self.keeping()
        let counts = try self.calls {
            for _ in 0..<10 { _ = quarantine.retire(Self.wall) }
        }
        // The root, and the folder that is deleted.
        #expect(counts[.list] == 2)
    }

    @Test func `a clock that was ahead and comes back finds its day again`() throws {
        var quarantine = try self.keeping()
        try self.add(0..<2, to: &quarantine)
        try quarantine.synchronize()
        let steps = self.retire(&quarantine, WallTime(milliseconds: Self.wall.milliseconds + 40 * 86_400_000))
        #expect(steps == [try self.deletion(of: "2026-11-20")])
        try self.add(2..<4, to: &quarantine)
        try quarantine.synchronize()
        #expect(try self.events() == self.names(2..<4))
    }
}
