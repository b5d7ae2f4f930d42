import Testing
import WaybillHost
import WaybillLive
import WaybillSystem

@testable import WaybillCommands

/// What `waybill status` and `waybill top` print.
@Suite struct StatusViewTests {
    private static func document(_ json: String) throws -> StatusDocument {
        try #require(StatusDocument(Array(json.utf8)))
    }

    private static func agent(files: String, health: String = "degraded") -> String {
        """
        {"part":"agent","name":"web-1","software":"waybill/0.1.0","time":61000,"started":1000,"health":"\(health)",\
        "problems":["files or folders cannot be read: 1"],"connected":true,"receiver":"collector-1","address":"c:4390",\
        "since":31000,"last_error":null,"lines":1234,"bytes":5,"acknowledged":5,"lost_bytes":0,"behind_bytes":2500,\
        "in_flight_bytes":0,"refused_files":{},"followed":3,"files":[\(files)]}
        """
    }

    private static let files = """
        {"path":"/var/log/secret.json","size":null,"acknowledged":0,"behind_bytes":0,"behind_seconds":null,\
        "state":"unreadable","error":"permission"},\
        {"path":"/var/log/a\\u001b[2J.json","size":182800,"acknowledged":180300,"behind_bytes":2500,"behind_seconds":75,\
        "state":"sending","error":null},\
        {"path":"/var/log/b.json","size":10,"acknowledged":10,"behind_bytes":0,"behind_seconds":null,"state":"shipped",\
        "error":null}
        """

    private static func receiver(time: Int = 61000, lines: Int = 1204, agentLines: Int = 500, started: Int = 1000)
        -> String
    {
        """
        {"part":"receiver","name":"c","software":"waybill/0.1.0","time":\(time),"started":\(started),"health":"ok",\
        "problems":[],"journal_end":182786,"lines":\(lines),"bytes":9,"connected":1001,\
        "agents":[{"name":"shop/host-1","principal":"shop","peer":"p","address":"10.0.0.7","software":null,"since":1000,\
        "streams":2,"last_batch":null,"last_heard":58000,"lines":\(agentLines),"lines_per_second":7,\
        "clock_difference_ms":-90000}],\
        "projections":[{"name":"ga4","state":"failing","error":"disk-full","behind_bytes":12,"behind_seconds":null,\
        "lines":1,"archived":0,"exported":1200,"held":0,"refused":{"ga4.too_old":4},"skipped":{},"quarantined":{},\
        "unaccounted":0,"open_parts":2,"open_records":9,"oldest_open":null,"pending":12}],\
        "disk":{"free":12300000000,"total":40000000000,"reserve":256000000,"measured":1,"complete":true,\
        "parts":[{"name":"journal","bytes":182786,"files":1}]}}
        """
    }

    @Test func `an agent's files are a table, without what a terminal would obey`() throws {
        let lines = StatusView().lines(of: try Self.document(Self.agent(files: Self.files)), at: "h:1")
        #expect(
            lines.map(\.text) == [
                "agent web-1 (waybill/0.1.0) at h:1: degraded, up 1 min",
                "! files or folders cannot be read: 1",
                "connected to collector-1 at c:4390 for 30 s, 1,234 lines sent, 2.5 kB behind",
                "",
                "FILE                          SIZE     ACKED  BEHIND         FOR  STATE       ERROR",
                "/var/log/secret.json             -       0 B     0 B           -  unreadable  permission",
                "/var/log/a\\u{1b}[2J.json  182.8 kB  180.3 kB  2.5 kB  1 min 15 s  sending",
                "/var/log/b.json               10 B      10 B     0 B           -  shipped",
                "… and 1 more",
            ])
        #expect(lines.map(\.style)[4...7] == [.heading, .warning, .plain, .plain])
    }

    @Test func `an agent says which mounts do not answer, and what waits`() throws {
        let hanging = """
            "hanging":[{"path":"/mnt/a\\u001b","seconds":75,"files":1200,"sources":2},\
            {"path":"/mnt/b","seconds":0,"files":1,"sources":1}],"refused_files"
            """
        let json = Self.agent(files: "").replacing("\"refused_files\"", with: hanging)
        let lines = StatusView().lines(of: try Self.document(json), at: "h:1")
        #expect(
            lines[2].text.hasSuffix(
                "2.5 kB behind, /mnt/a\\u{1b} has not answered for 1 min 15 s (1,200 files of 2 sources wait), "
                    + "/mnt/b has not answered for 0 s (1 file of 1 source wait)"))
    }

    @Test func `a receiver's agents, projections and disk are tables`() throws {
        let lines = StatusView().lines(of: try Self.document(Self.receiver()), at: "/run/r.sock").map(\.text)
        #expect(lines[0] == "receiver c (waybill/0.1.0) at /run/r.sock: ok, up 1 min")
        #expect(
            lines[1]
                == "1,204 lines since the start, journal 182.8 kB, 1,001 agents, disk 12.3 GB free of 40.0 GB, 256.0 MB reserved"
        )
        #expect(lines[3] == "AGENT        PRINCIPAL  ADDRESS   SOFTWARE  SINCE  LINES/S    HEARD        CLOCK  STREAMS")
        #expect(lines[4] == "shop/host-1  shop       10.0.0.7  -         1 min        7  3 s ago  -1 min 30 s        2")
        #expect(lines[5] == "… and 1,000 more")
        #expect(
            lines.contains("ga4         failing (disk-full)    12 B    ?    1,200        4           2  ga4.too_old 4"))
        #expect(lines.contains("journal  182.8 kB      1"))
    }

    @Test func `deliveries are a table with what each waits for`() throws {
        let document = try Self.document(
            """
            {"part":"deliver","name":"deliveries","software":"waybill/0.1.0","time":61000,"started":1000,\
            "health":"degraded","problems":["provider-waiting: segment: 503"],"lines":1205,"deliveries":[\
            {"name":"segment","provider":"segment","state":"backing-off","sent":1200,"refused":{"too_old":4},"requests":3,\
            "retried":2,"waiting":80,"open":12,"oldest_unsent_s":41,"last_success":31000,\
            "problems":[{"code":"provider-waiting","text":"503"}]},\
            {"name":"web","provider":"ga4","state":"up","sent":5,"refused":{},"requests":1,"retried":0,"waiting":0,\
            "open":0,"problems":[]}]}
            """)
        #expect(
            StatusView().lines(of: document, at: "127.0.0.1:4394").map(\.text) == [
                "deliver deliveries (waybill/0.1.0) at 127.0.0.1:4394: degraded, up 1 min",
                "! provider-waiting: segment: 503", "1,205 events sent", "",
                "DELIVERY  PROVIDER  STATE         SENT  REFUSED  WAITING  OPEN  OLDEST  ACCEPTED",
                "segment   segment   backing-off  1,200        4       80    12    41 s  30 s ago",
                "web       ga4       up               5        0        0     0       -         -",
            ])
    }

    private static func door(line: String) -> String {
        """
        {"part":"ingest","name":"127.0.0.1:4380","software":"waybill/0.1.0","time":61000,"started":1000,"health":"ok",\
        "problems":[],"lines":2,"repeated":0,"quarantined":0,"connections":1,"waiting_bytes":0,"refused":{},"faults":{},\
        "certificate_expiry":null,\(line)"keys":[]}
        """
    }

    @Test func `a door's tunnels are one line, which it has only with a receiver`() throws {
        func lines(_ line: String) throws -> [String] {
            StatusView().lines(of: try Self.document(Self.door(line: line)), at: "h:1").map(\.text)
        }
        #expect(try lines("").count == 2)
        let present = """
            "line":{"receiver":"c:4396","tunnels":1,"away_since":null,"away_reason":null},
            """
        #expect(try lines(present)[2...] == ["tunnels to c:4396: 1 tunnel"])
        let away = """
            "line":{"receiver":"c:4396","tunnels":0,"away_since":31000,"away_reason":"refused\\u001b[2J"},
            """
        #expect(
            try lines(away)[2...] == ["tunnels to c:4396: away for 30 s (refused\\u{1b}[2J)"])
    }

    @Test func `what is too wide for the screen is cut, paths at their beginning`() throws {
        var view = StatusView()
        view.width = 70
        let document = try Self.document(Self.agent(files: Self.files))
        let lines = view.lines(of: document, at: "h:1")
        #expect(lines.allSatisfy { TerminalText.width($0.text) <= 70 })
        #expect(lines.contains { $0.text.hasPrefix(#"…log/a\u{1b}[2J.json  182.8 kB"#) })
    }

    @Test func `rows are sorted by what is behind, by name and by rate`() throws {
        let table = StatusView.files(try Self.document(Self.agent(files: Self.files)))
        #expect(table.sorted(by: .worst) == table.rows)
        #expect(table.sorted(by: .behind).map(\.behind) == [2500, 0, 0])
        #expect(table.sorted(by: .name).map(\.name).first == "/var/log/a\\u{1b}[2J.json")
        #expect(table.sorted(by: .rate).map(\.rate) == [75, 0, 0])
        #expect(StatusTable.Order.worst.next.next.next.next == .worst)
        #expect(table.lines(width: nil, countMax: 1, by: .worst).last?.text == "… and 3 more")
    }

    @Test func `two answers give rates, unless the program or a connection is a new one`() throws {
        let old = try Self.document(Self.receiver())
        let new = try Self.document(Self.receiver(time: 63000, lines: 2204, agentLines: 600))
        let rates = StatusRates(from: old, to: new)
        #expect(rates.lines == 500)
        #expect(rates.byAgent == ["shop/host-1": 50])
        #expect(StatusRates(from: nil, to: new).lines == nil)
        #expect(StatusRates(from: new, to: old).lines == nil)
        let restarted = try Self.document(Self.receiver(time: 63000, lines: 2204, agentLines: 600, started: 62000))
        #expect(StatusRates(from: old, to: restarted).lines == nil)
        let reconnected = try Self.document(Self.receiver(time: 63000, lines: 2204, agentLines: 3))
        #expect(StatusRates(from: old, to: reconnected).byAgent.isEmpty)
        #expect(StatusRates.perSecond(-1, 5) == nil)
    }

    @Test func `what is no status is none`() {
        for text in [
            "", "{}", "[]", #"{"part":"receiver"}"#, #"{"part":"cat","health":"ok","time":1}"#,
            #"{"part":"agent","health":"fine","time":1}"#,
        ] {
            #expect(StatusDocument(Array(text.utf8)) == nil, "\(text)")
        }
    }

    @Test func `numbers are for people`() {
        #expect(
            [0, 999, 1000, 999_949, 999_950, 1_500_000_000].map(HumanText.bytes) == [
                "0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "1.5 GB",
            ])
        #expect([0, 999, 1000, 1_234_567, -1000].map(HumanText.count) == ["0", "999", "1,000", "1,234,567", "-1,000"])
        #expect(
            [0, 59, 60, 75, 3600, 3660, 86_400, 100_000].map(HumanText.seconds) == [
                "0 s", "59 s", "1 min", "1 min 15 s", "1 h", "1 h 1 min", "1 d", "1 d 3 h",
            ])
        #expect(
            [0, 250, -9999, 60_000].map { HumanText.difference(milliseconds: $0) } == [
                "+0.0 s", "+0.2 s", "-9.9 s", "+1 min",
            ])
    }

    @Test func `text of others moves no cursor and turns no direction`() {
        #expect(TerminalText.escaped("a.json") == "a.json")
        #expect(
            TerminalText.escaped("a\u{1B}[2J\u{7F}\u{9B}\u{202E}\u{2028}\n")
                == #"a\u{1b}[2J\u{7f}\u{9b}\u{202e}\u{2028}\u{a}"#)
        #expect(TerminalText.escaped("서울 é") == "서울 é")
        #expect(TerminalText.width("서울 é") == 6)
        #expect(TerminalText.prefix("abcdef", width: 4) == "abc…")
        #expect(TerminalText.suffix("abcdef", width: 4) == "…def")
        #expect(TerminalText.prefix("서울서울", width: 4) == "서…")
        #expect(TerminalText.prefix("abc", width: 0) == "")
    }
}

@Suite struct TopScreenTests {
    /// The keys in each piece.
    private func keys(in pieces: [[UInt8]]) -> [[TopKey]] {
        var keys = TopKeys()
        return pieces.map { keys.add($0) }
    }

    @Test func `keys are found in what a terminal sends, whole or in pieces`() {
        let text = "jkqsgG \u{1B}[A\u{1B}OB\u{1B}[5~\u{1B}[6~x\u{1B}[H\u{1B}[15~Q"
        #expect(
            self.keys(in: [Array(text.utf8)]) == [
                [.down, .up, .quit, .sort, .first, .last, .pageDown, .up, .down, .pageUp, .pageDown, .first, .quit]
            ])
        #expect(self.keys(in: [[0x1B], [0x5B], [0x42]]) == [[], [], [.down]])
        // A key that no one knows ends at some time.
        #expect(self.keys(in: [[0x1B, 0x5B] + Array(repeating: 0x31, count: 20), [0x71]]) == [[], [.quit]])
    }

    private static func screen() -> TopScreen {
        let files = (0..<50).map { index in
            """
            {"path":"/f\(index)","size":1,"acknowledged":0,"behind_bytes":\(index),"behind_seconds":1,"state":"sending",\
            "error":null}
            """
        }
        let json = """
            {"part":"agent","name":"web-1","software":null,"time":1,"started":1,"health":"ok","problems":[],\
            "connected":false,"last_error":"x","lines":1,"followed":50,"files":[\(files.joined(separator: ","))]}
            """
        var screen = TopScreen()
        screen.take([StatusAnswer(place: .socket("/s"), result: .success(Array(json.utf8)))], time: "12:00:01Z")
        return screen
    }

    /// The lines after some keys; the screen is drawn after each.
    private func lines(
        after keys: [TopKey], columns: Int = 60, rows: Int = 10, of shown: TopScreen = Self.screen()
    ) -> [String] {
        var screen = shown
        var lines = screen.lines(columns: columns, rows: rows)
        for key in keys {
            guard screen.press(key, rows: rows) else { return [] }
            lines = screen.lines(columns: columns, rows: rows)
        }
        return lines.map(\.text)
    }

    @Test func `the screen is never taller than the terminal, and scrolls to both ends and no further`() {
        let lines = self.lines(after: [])
        #expect(lines.count == 10)
        #expect(lines[0] == "waybill top  12:00:01Z  order: worst (s)  lines 1-9 of 54 (…")
        #expect(lines[5] == "/f0    1 B    0 B     0 B  1 s  sending")
        #expect(self.lines(after: [.up, .up, .up]) == lines)
        #expect(self.lines(after: [.last]).last?.hasPrefix("/f49 ") == true)
        #expect(self.lines(after: [.last, .down]) == self.lines(after: [.last]))
        #expect(self.lines(after: [.last, .up]).last?.hasPrefix("/f48 ") == true)
        #expect(self.lines(after: [.last, .first]) == lines)
        #expect(self.lines(after: [.pageDown])[1].hasPrefix("/f4 "))
        #expect(self.lines(after: [.pageDown, .pageUp]) == lines)
        // A larger terminal shows all, a tiny one something.
        #expect(self.lines(after: [], rows: 80).count == 55)
        for rows in 0...2 { #expect(self.lines(after: [.down], columns: 1, rows: rows).count <= max(1, rows)) }
        #expect(self.lines(after: [.quit]) == [])
    }

    @Test func `s changes the order of the rows`() {
        #expect(self.lines(after: [.sort, .sort])[5].hasPrefix("/f49 "))
        #expect(self.lines(after: [.sort, .sort])[0].contains("order: behind"))
        #expect(self.lines(after: [.sort, .sort, .sort, .sort]) == self.lines(after: []))
    }

    @Test func `a place without an answer is shown as down`() {
        var screen = TopScreen()
        screen.take([StatusAnswer(place: .socket("/s"), result: .success([]))], time: "")
        let lines = screen.lines(columns: 40, rows: 5)
        #expect(lines[1] == StatusLine(text: "/s: down: its answer is not a status; i…", style: .failure))
    }

    @Test func `a redraw overwrites what was there, and colours only where there are colours`() {
        let lines = [
            StatusLine(text: "a", style: .heading), StatusLine(text: "b"), StatusLine(text: "c", style: .failure),
        ]
        #expect(TopScreen.redraw(lines, isColoured: false) == "\u{1B}[Ha\u{1B}[K\r\nb\u{1B}[K\r\nc\u{1B}[K\u{1B}[J")
        #expect(
            TopScreen.redraw(lines, isColoured: true)
                == "\u{1B}[H\u{1B}[1ma\u{1B}[0m\u{1B}[K\r\nb\u{1B}[K\r\n\u{1B}[31mc\u{1B}[0m\u{1B}[K\u{1B}[J")
    }
}
