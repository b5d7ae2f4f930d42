import Testing
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// Files on a mount that does not answer for a while: nothing of them is taken for gone, and all others are shipped.
struct TailHangTests {
    private typealias Files = GuardedFiles<StalledFiles<FaultyFiles>>

    private let disk = FaultyFiles()
    private let stalled: StalledFiles<FaultyFiles>
    private let patience = GivenPatience()
    private let mounts: RemoteMounts
    private let bench: TailBench<GuardedFiles<StalledFiles<FaultyFiles>>>

    init() throws {
        self.stalled = StalledFiles(self.disk)
        self.mounts = RemoteMounts(GivenMounts(["/far"]), patience: { [patience] in patience.value })
        for folder in ["/near", "/far", "/far/spool"] { self.disk.makeDirectory(folder) }
        let sources = [
            SourceConfiguration(name: "0:far", kind: .files(patterns: ["/far/*.log"])),
            SourceConfiguration(name: "1:near", kind: .files(patterns: ["/near/*.log"])),
            SourceConfiguration(name: "2:spool", kind: .spool(directory: "/far/spool")),
        ]
        self.bench = try TailBench(GuardedFiles(self.stalled, self.mounts), sources: sources)
    }

    private func beginHang() {
        self.stalled.stall("/far")
        self.patience.end()
        self.bench.run()
        self.patience.begin()
        #expect(self.mounts.hanging.map(\.path) == ["/far"])
    }

    private func endHang() {
        self.stalled.release()
        repeat { self.mounts.refresh(POSIXClock().monotonicTime()) } while !self.mounts.hanging.isEmpty
    }

    /// Whether anything is said to be lost, unreadable or renamed.
    private func expectNoAlarm() {
        let alarms = self.bench.notices.filter {
            switch $0 {
            case .discovered, .recognized, .segmentDeleted: false
            default: true
            }
        }
        #expect(alarms.isEmpty)
        #expect(self.bench.withTail { $0.notices.loss.byteCount } == 0)
    }

    private var shipped: [String] { self.bench.texts.sorted() }

    @Test
    func `the other source is shipped during the hang, and everything once after it`() throws {
        self.disk.append("/far/a.log", "far 1\n")
        self.disk.append("/near/a.log", "near 1\n")
        self.bench.run()
        self.disk.append("/far/a.log", "far 2\n")
        self.beginHang()
        for number in 2..<5 {
            self.disk.append("/near/a.log", "near \(number)\n")
            self.bench.run()
            self.bench.advance(601_000)
        }
        #expect(self.shipped == ["far 1\n", "near 1\nnear 2\nnear 3\nnear 4\n"])
        #expect(self.bench.withTail { $0.notices.unreadable.isEmpty } == false)
        self.endHang()
        self.bench.run()
        #expect(self.shipped == ["far 1\nfar 2\n", "near 1\nnear 2\nnear 3\nnear 4\n"])
        #expect(self.bench.withTail { $0.notices.unreadable.isEmpty })
        self.expectNoAlarm()
    }

    @Test
    func `hints and looks at fresh files conclude nothing either`() throws {
        self.disk.append("/far/a.log", "far 1\n")
        self.bench.run()
        self.beginHang()
        let (count, now) = (self.bench.withTail { $0.fileCount }, self.bench.now)
        self.bench.hint("/far/a.log")
        self.bench.withTail { tail in
            tail.checkFreshFiles(now)
            tail.pathsChanged([], folders: ["/far", "/"], now)
        }
        self.bench.ship()
        #expect(self.bench.withTail { $0.fileCount } == count)
        self.endHang()
        self.disk.append("/far/a.log", "far 2\n")
        self.bench.run()
        #expect(self.shipped == ["far 1\nfar 2\n"])
        self.expectNoAlarm()
    }

    @Test
    func `an agent that starts during the hang ships the rest, and then everything once`() throws {
        self.disk.append("/far/a.log", "far 1\n")
        self.disk.append("/near/a.log", "near 1\n")
        self.bench.run()
        try self.bench.checkpoint()
        self.stalled.stall("/far")
        self.patience.end()
        try self.bench.restart()
        self.bench.run()
        self.patience.begin()
        self.disk.append("/near/a.log", "near 2\n")
        self.bench.settle()
        #expect(self.shipped == ["far 1\n", "near 1\nnear 2\n"])
        self.disk.append("/far/a.log", "far 2\n")
        self.endHang()
        self.bench.run()
        #expect(self.shipped == ["far 1\nfar 2\n", "near 1\nnear 2\n"])
        self.expectNoAlarm()
    }

    @Test
    func `a file that was renamed is not finished while no one knows whether it grows`() throws {
        self.disk.append("/far/a.log", "far 1\n")
        self.bench.run()
        self.disk.move("/far/a.log", "/far/a.log.1")
        self.bench.run()
        self.beginHang()
        self.bench.settle()
        #expect(self.bench.sealed.isEmpty)
        self.disk.append("/far/a.log.1", "far 2\n")
        self.endHang()
        self.bench.run()
        #expect(self.shipped == ["far 1\nfar 2\n"])
        // How long it has not grown counts from here on.
        #expect(self.bench.sealed.isEmpty)
        self.bench.settle()
        #expect(self.shipped == ["far 1\nfar 2\n"])
        #expect(self.bench.sealed.count == 1)
        #expect(self.bench.withTail { $0.notices.loss.byteCount } == 0)
    }

    @Test
    func `segments stay, and are shipped once`() throws {
        let path = "/far/spool/0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001.ndjson"
        self.disk.append(path, "one\n")
        self.bench.scan()
        self.beginHang()
        self.bench.settle()
        #expect(self.shipped.isEmpty)
        #expect(self.disk.exists(path))
        self.endHang()
        self.bench.settle()
        #expect(self.shipped == ["one\n"])
        #expect(!self.disk.exists(path))
        self.expectNoAlarm()
    }

    @Test
    func `no descriptor is left behind`() throws {
        self.disk.append("/far/a.log", "far 1\n")
        self.bench.run()
        let openCount = self.stalled.openCount
        self.disk.append("/far/b.log", "far 2\n")
        self.beginHang()
        self.bench.settle()
        self.endHang()
        self.bench.run()
        self.disk.remove("/far/b.log")
        self.bench.settle()
        #expect(self.stalled.openCount <= openCount)
    }
}
