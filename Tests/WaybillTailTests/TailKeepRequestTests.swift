import Testing
import WaybillProtocol
import WaybillSpool
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// A spool that asks for its shipped segments to be kept, and what its agent makes of that.
struct TailKeepRequestTests {
    private let files = FaultyFiles()
    private let path = "/spool/\(KeepRequest.name)"

    private func id(_ number: Int) -> String {
        "0195505e-aaaa-7000-8000-0000000000aa-" + String(repeating: "0", count: 20 - "\(number)".count) + "\(number)"
    }

    private func bench(_ limit: FileLimit? = nil) throws -> TailBench<FaultyFiles> {
        var limits = TailLimits()
        limits.keep = limit
        return try TailBench(self.files, limits: limits)
    }

    private func ask(_ text: String = "{\"seconds\":600}\n") {
        self.files.place(self.path, Array(text.utf8))
    }

    private func ship(_ number: Int, _ bench: TailBench<FaultyFiles>) {
        self.files.append("/spool/\(self.id(number)).ndjson", "line \(number)\n")
        bench.run()
    }

    private func pass(_ seconds: Int64, _ bench: TailBench<FaultyFiles>) {
        bench.advance(seconds * 1000)
        bench.run()
    }

    /// The ids of the kept segments; nothing else is in the spool.
    private var kept: [String] {
        get throws {
            let names = try self.files.list("/spool").filter { $0 != KeepRequest.name }
            #expect(names.allSatisfy { KeptSegmentName(parsing: $0) != nil })
            return names.compactMap { KeptSegmentName(parsing: $0)?.segment.id }
        }
    }

    @Test func `an agent that keeps nothing keeps what a spool asks for, and deletes it afterwards`() throws {
        let bench = try bench()
        ask()
        ship(1, bench)
        #expect(try kept == [id(1)])
        pass(590, bench)
        ship(2, bench)
        #expect(try kept == [id(1), id(2)])
        pass(70, bench)
        #expect(try kept == [id(2)])
        pass(600, bench)
        #expect(try kept == [])
        #expect(files.exists(path))
        #expect(bench.losses == [])
    }

    @Test func `the agent's own limit of age holds when it is longer, and the request when that is`() throws {
        let bench = try bench(FileLimit(ageMax: .seconds(3600)))
        ask()
        ship(1, bench)
        pass(3500, bench)
        #expect(try kept == [id(1)])
        pass(200, bench)
        #expect(try kept == [])
        bench.withTail { $0.keep(FileLimit(ageMax: .seconds(60))) }
        ship(2, bench)
        pass(500, bench)
        #expect(try kept == [id(2)])
        pass(200, bench)
        #expect(try kept == [])
    }

    @Test func `the agent's own limit of size holds whatever a spool asks for`() throws {
        let bench = try bench(FileLimit(byteCountMax: "line 1\n".utf8.count))
        ask()
        ship(1, bench)
        ship(2, bench)
        pass(61, bench)
        #expect(try kept == [id(2)])
    }

    @Test func `a kept segment from a clock that was far ahead does not stay until then`() throws {
        let bench = try bench()
        ask()
        ship(1, bench)
        let name = try #require(try files.list("/spool").first { $0 != KeepRequest.name })
        let kept = try #require(KeptSegmentName(parsing: name))
        let ahead = KeptSegmentName(segment: kept.segment, receiver: kept.receiver, seconds: kept.seconds + 86_400)
        try files.rename("/spool/\(name)", to: "/spool/\(ahead.description)")
        pass(61, bench)
        #expect(try self.kept == [])
    }

    @Test func `a full disk keeps nothing that only a spool asks for`() throws {
        let bench = try bench()
        ask()
        ship(1, bench)
        files.memory.setFreeByteCount(1 << 20)
        pass(61, bench)
        #expect(try kept == [])
        files.fail(.rename, of: "/spool/\(id(2)).ndjson", .error(Errno.noSpace))
        ship(2, bench)
        #expect(try kept == [])
        #expect(bench.sealed == [id(1), id(2)])
    }

    @Test(arguments: [
        "", "{\"seconds\":600}", "{\"seconds\": 600}\n", "{\"seconds\":-1}\n", "{\"seconds\":6e2}\n",
        "{\"seconds\":}\n", "{\"seconds\":600,\"seconds\":600}\n", "{\"seconds\":9999999999}\n",
        "{\"seconds\":600}\n" + String(repeating: " ", count: 100),
    ])
    func `what is not a request is none`(text: String) throws {
        let bench = try bench()
        ask(text)
        ship(1, bench)
        #expect(try kept == [])
    }

    @Test func `no one can ask for more than a day`() throws {
        let bench = try bench()
        ask("{\"seconds\":999999999}\n")
        ship(1, bench)
        pass(86_390, bench)
        #expect(try kept == [id(1)])
        pass(70, bench)
        #expect(try kept == [])
    }

    @Test func `a link, a second name, another owner's file and a folder ask for nothing`() throws {
        let refusals: [FileRefusal?] = [.link, .hardLink, .owner, nil]
        for refusal in refusals {
            let files = FaultyFiles()
            let bench = try TailBench(files)
            files.place("/elsewhere", Array("{\"seconds\":600}\n".utf8))
            switch refusal {
            case .link: files.memory.link(path, to: "/elsewhere")
            case .hardLink: files.memory.hardLink(path, to: "/elsewhere")
            case .owner:
                files.place(path, Array("{\"seconds\":600}\n".utf8))
                files.memory.own(path, by: 7, permissions: 0o644)
            default: files.makeDirectory(path)
            }
            for number in 1...2 {
                files.append("/spool/\(id(number)).ndjson", "line\n")
                bench.run()
            }
            #expect(try files.list("/spool") == [KeepRequest.name])
            let told = bench.notices.compactMap { if case .refused(path, let refusal) = $0 { refusal } else { nil } }
            #expect(told == [refusal].compactMap(\.self))
        }
    }

    @Test func `a request that is withdrawn is honoured no longer`() throws {
        let bench = try bench()
        ask()
        ship(1, bench)
        files.remove(path)
        pass(61, bench)
        #expect(try kept == [])
        ship(2, bench)
        #expect(try kept == [])
    }

    @Test func `a request is read once in some seconds, not for each segment`() throws {
        let bench = try bench()
        ask()
        let path = path
        var count = 0
        files.setFaults { call in
            if call.verb == .open, call.path == path { count += 1 }
            return nil
        }
        for number in 1...20 { ship(number, bench) }
        #expect(count == 1)
        pass(6, bench)
        ship(21, bench)
        #expect(count == 2)
        #expect(try kept.count == 21)
    }

    @Test func `a request that cannot be read now deletes nothing`() throws {
        let bench = try bench()
        ask()
        ship(1, bench)
        files.fail(.open, of: path, .error(Errno.inputOutput))
        pass(700, bench)
        ship(2, bench)
        #expect(files.exists("/spool/\(id(2)).ndjson"))
        files.fail(.open, of: path, nil)
        pass(61, bench)
        #expect(try kept == [id(2)])
    }

    @Test func `a receiver whose data are gone gets what a spool had kept`() throws {
        let bench = try bench()
        ask()
        ship(1, bench)
        ship(2, bench)
        var emptied = BenchStore(receiver: BenchReceiver(name: "emptied"))
        emptied.receiver.address = bench.receiver.address
        bench.exchange(with: &emptied)
        bench.run()
        let all = Dictionary(uniqueKeysWithValues: (1...2).map { (id($0), Array("line \($0)\n".utf8)) })
        #expect(bench.received == all)
        #expect(try kept == [id(1), id(2)])
    }

    @Test func `a request is used for some seconds`() {
        var keepRequests = KnownKeepRequests()
        let (start, folder) = (MonotonicTime(nanoseconds: 9_000_000_000), PathKey("/spool"))
        keepRequests.refresh(start)
        keepRequests[folder] = .seconds(60)
        keepRequests.refresh(start + .milliseconds(4999))
        #expect(keepRequests[folder] == .seconds(60))
        keepRequests.refresh(start + .seconds(5))
        #expect(keepRequests[folder] == nil)
    }
}
