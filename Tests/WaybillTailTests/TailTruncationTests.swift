import Testing
import WaybillSystem
import WaybillTail
import WaybillTestSupport

struct TailTruncationTests {
    let files = FaultyFiles()

    @Test(arguments: [true, false])
    func `copytruncate after everything was read begins a new stream`(hasSameHead: Bool) throws {
        let bench = try TailBench(files)
        var expected: [String] = []
        for number in 0..<5 {
            let text = (hasSameHead ? "head\n" : "head \(number)\n") + String(repeating: "x", count: 50 - number) + "\n"
            files.append("/log/a.log", text)
            expected.append(text)
            bench.run()
            bench.advance(5_000)
            bench.run()
            files.rewrite("/log/a.log", "")
            if number % 2 == 0 { bench.scan() }
        }
        bench.run()
        #expect(bench.texts == expected)
        #expect(bench.sealed == Set(bench.order))
        #expect(bench.withTail { $0.fileCount } == 1)
    }

    @Test
    func `a file cut and grown beyond the offset is found out by its head`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.rewrite("/log/a.log", "another and longer\n")
        bench.run()
        #expect(bench.texts == ["one\n", "another and longer\n"])
        #expect(bench.sealed == [bench.order[0]])
    }

    @Test
    func `a file rewritten to the same length is found out by its head`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.rewrite("/log/a.log", "uno\n")
        bench.run()
        #expect(bench.texts == ["one\n", "uno\n"])
    }

    @Test
    func `bytes cut before they were read are counted`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.append("/log/a.log", "two\nthree\n")
        bench.scan()
        files.rewrite("/log/a.log", "")
        bench.run()
        let counts = bench.notices.compactMap { notice -> Int? in
            if case .cut(_, _, _, let count) = notice { count } else { nil }
        }
        #expect(counts == [10])
        #expect(bench.texts == ["one\n"])
        #expect(bench.sealed == [bench.order[0]])
    }

    @Test(arguments: [true, false])
    func `a file cut while the agent is stopped begins a new stream`(keepsRegistry: Bool) throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "head\none\ntwo\n")
        bench.run()
        try bench.checkpoint()
        bench.kill()
        if !keepsRegistry { files.remove("/state/registry") }
        files.rewrite("/log/a.log", "head\nuno\n")
        try bench.start()
        bench.run()
        bench.advance(5_000)
        bench.run()
        #expect(bench.texts == ["head\none\ntwo\n", "head\nuno\n"])
        #expect(bench.order[1] == String(bench.order[0].dropLast()) + "1")
        // Without a registry no one knows that the earlier content is over.
        #expect(bench.sealed == (keepsRegistry ? [bench.order[0]] : []))
    }

    @Test
    func `heads that come back never meet an old stream's id`() throws {
        let bench = try TailBench(files)
        var expected: [String] = []
        for (round, head) in ["A", "B", "A", "B", "A"].enumerated() {
            let text = "\(head)\n" + String(repeating: "\(round)", count: 40 - 2 * round) + "\n"
            files.append("/log/a.log", text)
            expected.append(text)
            bench.run()
            try bench.checkpoint()
            if round % 2 == 0 { try bench.restart() }
            files.rewrite("/log/a.log", "")
            bench.run()
        }
        #expect(bench.texts == expected)
        #expect(Set(bench.order).count == 5)
        #expect(bench.order.map { $0.last } == ["0", "0", "1", "1", "2"])
    }

    @Test
    func `what was in flight when the file was cut is named once the receiver says it did not arrive`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        let id = bench.order[0]
        bench.received[id] = []
        files.rewrite("/log/a.log", "u\n")
        bench.scan()
        bench.loseConnection()
        bench.ship()
        #expect(bench.texts == ["", "u\n"])
        #expect(bench.sealed == [id])
        let counts = bench.notices.compactMap { notice -> Int? in
            if case .vanished(_, _, _, let count) = notice { count } else { nil }
        }
        #expect(counts == [4])
    }

    @Test(arguments: [false, true])
    func `a cut between what was read and what was seen is counted, and the rest of the stream continues`(
        isStopped: Bool
    ) throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.append("/log/a.log", "two\nthree\n")
        bench.scan()
        if isStopped {
            try bench.checkpoint()
            bench.kill()
        }
        files.rewrite("/log/a.log", "one\ntwo\n")
        if isStopped { try bench.start() }
        bench.scan()
        files.append("/log/a.log", "four\n")
        for _ in 0..<6 {
            bench.advance(1_000)
            bench.run()
        }
        #expect(bench.texts == ["one\ntwo\nfour\n"])
        #expect(bench.losses == ["cut /log/a.log 8+6"])
        #expect(bench.withTail { $0.notices.loss } == TailLoss(byteCount: 6, occasionCount: 1))
    }

    @Test
    func `a loss is named from the byte that the receiver holds, also after a kill`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.append("/log/a.log", "two\nthree\n")
        bench.scan()
        try bench.checkpoint()
        bench.kill()
        files.rewrite("/log/a.log", "uno\n")
        try bench.start()
        bench.run()
        #expect(bench.losses == ["cut /log/a.log 4+10"])
        #expect(bench.texts == ["one\n", "uno\n"])
        #expect(bench.withTail { $0.notices.loss } == TailLoss(byteCount: 10, occasionCount: 1))
    }

    @Test
    func `a file that went while no agent ran is named though nothing is known to be missing`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        try bench.checkpoint()
        bench.kill()
        files.append("/log/a.log", "never seen\n")
        files.remove("/log/a.log")
        try bench.start()
        bench.run()
        #expect(bench.losses == ["vanished /log/a.log 4+0"])
        try bench.checkpoint()
        try bench.restart()
        bench.run()
        #expect(bench.losses.count == 1)
    }

    @Test(arguments: [false, true])
    func `a file cut and grown with the same head and lines as long is found out`(isStopped: Bool) throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "head\none\ntwo\n")
        bench.run()
        if isStopped {
            try bench.checkpoint()
            bench.kill()
        }
        files.rewrite("/log/a.log", "head\nuno\ndos\ntre\n")
        if isStopped { try bench.start() }
        bench.run()
        #expect(bench.texts == ["head\none\ntwo\n", "head\nuno\ndos\ntre\n"])
    }

    @Test
    func `an anchor outlives what is in flight and lost connections`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "head\none\ntwo\nthree\n")
        bench.scan()
        bench.isSlow = true
        bench.ship(byteCountMax: 6)
        bench.loseConnection()
        bench.ship(byteCountMax: 6)
        bench.deliver()
        files.rewrite("/log/a.log", "head\nuno\ndos\ntress\ncuatro\n")
        bench.run()
        #expect(bench.texts == ["head\none\ntwo\nthree\n", "head\nuno\ndos\ntress\ncuatro\n"])
    }

    @Test
    func `a stream that was sealed in an earlier session is not mistaken for what its file holds now`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "head\none\n")
        bench.run()
        files.rewrite("/log/a.log", "")
        bench.run()
        files.append("/log/a.log", "head\nuno\ndos\n")
        bench.run()
        #expect(bench.sealed == [bench.order[0]])
        bench.kill()
        files.remove("/state/registry")
        files.append("/log/a.log", "tres\n")
        try bench.start()
        bench.run()
        bench.run()
        #expect(bench.texts == ["head\none\n", "head\nuno\ndos\ntres\n"])
    }

    @Test
    func `what another receiver holds of a file that was rewritten counts no more`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        let first = bench.receiver
        bench.loseConnection()
        bench.receiver = BenchReceiver(name: "other")
        bench.run()
        files.rewrite("/log/a.log", "")
        bench.scan()
        files.rewrite("/log/a.log", "two\n")
        bench.scan()
        bench.loseConnection()
        bench.receiver = first
        bench.run()
        #expect(bench.texts == ["one\n", "two\n"])
    }

    @Test(arguments: [nil, "fleet"])
    func `a file cut below what a receiver holds, while one that holds nothing answered, is shipped`(
        fleet: String?
    ) throws {
        let bench = try TailBench(files)
        bench.receiver.fleet = fleet
        files.append("/log/a.log", "head\none\ntwo\nthree\n")
        bench.run()
        var other = BenchStore("other", of: fleet)
        bench.exchange(with: &other)
        try bench.meet()
        files.rewrite("/log/a.log", "head\nuno\n")
        bench.scan()
        bench.exchange(with: &other)
        bench.run()
        bench.advance(5_000)
        bench.run()
        #expect(bench.texts == ["head\none\ntwo\nthree\n", "head\nuno\n"])
    }

    @Test(arguments: ["cut", "deleted"], [false, true])
    func `a loss while no receiver answers is named once, though another receiver answers next`(
        how: String, isRestarted: Bool
    ) throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        let id = bench.order[0]
        var other = BenchStore(receiver: BenchReceiver(name: "other"))
        bench.exchange(with: &other)
        files.append("/log/a.log", "two\nthree\n")
        bench.scan()
        if how == "cut" {
            files.rewrite("/log/a.log", "")
        } else {
            try bench.checkpoint()
            bench.kill()
            files.remove("/log/a.log")
            try bench.start()
        }
        bench.run()
        let losses = [how == "cut" ? "cut /log/a.log 4+10" : "vanished /log/a.log 4+10"]
        #expect(bench.losses == losses)
        if isRestarted {
            try bench.checkpoint()
            try bench.restart()
            bench.run()
        }
        bench.exchange(with: &other)
        bench.run()
        #expect(bench.sealed == [id])
        #expect(other.received == [:])
        bench.exchange(with: &other)
        bench.run()
        #expect(bench.losses == losses)
    }

    @Test
    func `of a file that two receivers hold, what neither has is named, and later what the one that answers lacks`()
        throws
    {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        var other = BenchStore(receiver: BenchReceiver(name: "other"))
        bench.exchange(with: &other)
        files.append("/log/a.log", "two\n")
        bench.run()
        var third = BenchStore(receiver: BenchReceiver(name: "third"))
        bench.exchange(with: &third)
        files.append("/log/a.log", "three\n")
        bench.scan()
        files.rewrite("/log/a.log", "")
        bench.run()
        #expect(bench.losses == ["cut /log/a.log 8+6"])
        bench.exchange(with: &other)
        bench.run()
        #expect(bench.losses == ["cut /log/a.log 8+6", "vanished /log/a.log 4+4"])
        #expect(bench.withTail { $0.notices.loss } == TailLoss(byteCount: 10, occasionCount: 2))
    }

    @Test
    func `a sealed file that a pattern covers again is neither repeated nor asked for over and over`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.move("/log/a.log", "/log/a.old")
        bench.settle()
        #expect(bench.sealed == [bench.order[0]])
        files.move("/log/a.old", "/log/a.log")
        bench.run()
        bench.run()
        #expect(bench.texts == ["one\n"])
        bench.scan()
        #expect(bench.ship() == 0)
    }
}
