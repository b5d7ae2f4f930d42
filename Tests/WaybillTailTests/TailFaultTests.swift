import Testing
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// Every file call fails in turn, once; nothing is lost, repeated or deleted too early.
struct TailFaultTests {
    private static let segment = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"

    /// Lives through everything; returns whether it came to the failing call.
    private func live(failingCall: Int, in fleet: String?) throws -> Bool {
        let files = FaultyFiles()
        var limits = TailLimits()
        limits.lineByteCountMax = 20
        let bench = try TailBench(files, limits: limits)
        bench.receiver.fleet = fleet
        let checkpoint = {
            do {
                try bench.checkpoint()
            } catch let error as FileSystemError {
                #expect(error.code == .diskError)
            }
        }
        files.fail(call: failingCall, .error(Errno.inputOutput))
        files.append("/log/a.log", "one\ntw")
        files.append("/spool/\(Self.segment).ndjson", "event\nevent 2\nto")
        bench.run()
        try checkpoint()
        files.append("/log/a.log", "o\n")
        files.move("/log/a.log", "/log/a.old")
        files.append("/log/a.log", "uno\n" + String(repeating: "long", count: 9) + "\ndos\n")
        bench.run()
        bench.run()
        try checkpoint()
        files.rewrite("/log/a.log", "")
        bench.run()
        files.append("/log/a.log", "new\nhalf")
        bench.run()
        files.remove("/log/a.log")
        bench.settle()
        try checkpoint()
        let hasFailed = files.faultCount > 0
        files.clearFaults()
        bench.settle()
        bench.settle()
        let long = String(repeating: "long", count: 9) + "\n"
        #expect(
            bench.texts.sorted()
                == ["event\nevent 2\nto", "new\nhalf", "one\ntwo\n", "uno\n\(long)dos\n"], "call \(failingCall)")
        #expect(bench.sealed == Set(bench.order), "call \(failingCall)")
        #expect(files.unlinkedPaths == ["/spool/\(Self.segment).ndjson"], "call \(failingCall)")
        let copies = try files.list("/state/quarantine").map { files.bytes(of: "/state/quarantine/" + $0)?.count }
        #expect(copies == [37], "call \(failingCall)")
        #expect(bench.withTail { $0.fileCount } == 0, "call \(failingCall)")
        try bench.checkpoint()
        bench.kill()
        #expect(files.memory.openDescriptorCount == 0)
        return hasFailed
    }

    @Test(arguments: [nil, "7d2a40c5e9b1836f04d8fa6e21c97b53"])
    func `one failing call, whichever it is, costs time alone`(fleet: String?) throws {
        var number = 1
        while try live(failingCall: number, in: fleet) { number += 1 }
        #expect(number > 200, "the life is as long as it was")
    }
}
