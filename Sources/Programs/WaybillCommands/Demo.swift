import WaybillJSON
import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Runs the demo: processes, kills, and the count at the end.
struct Demo {
    let root: String
    let appCount: Int
    let eventCount: Int
    let killCount: Int

    private let files = POSIXFileSystem()
    private let clock = POSIXClock()

    init(root: String, appCount: Int, eventCount: Int, killCount: Int) {
        self.root = root
        self.appCount = appCount
        self.eventCount = eventCount
        self.killCount = killCount
    }

    private func path(_ name: String) -> String { Path.join(self.root, name) }

    func run() throws(FileSystemError) -> DemoLedger {
        for name in ["logs", "ledger", "spool", "foreign"] { try self.files.createDirectories(self.path(name)) }
        try self.writeForeignLog()
        let port = try Self.freePort()
        var receiver = try self.startReceiver(port)
        var agent = try self.startAgent(port, isOnce: false)
        self.say("receiver (pid \(receiver.identifier)) and agent (pid \(agent.identifier)) are running")
        var apps: [ChildProcess] = []
        for app in 0..<self.appCount {
            apps.append(
                try ChildProcess(
                    [
                        "demo-app", "--spool", self.path("spool/\(app)"), "--ledger", self.path("ledger/\(app).txt"),
                        "--app", "\(app)", "--events", "\(self.eventCount)", "--visitors",
                    ], log: self.path("logs/app-\(app).log")))
        }
        self.say("\(self.appCount) apps track \(self.eventCount) events each")
        var generator = SeededGenerator(seed: SystemRandom.seed())
        for _ in 0..<self.killCount {
            Worker.sleep(for: .milliseconds(Int.random(in: 100...300, using: &generator)))
            receiver.kill()
            self.say("killed the receiver (SIGKILL), starting it again")
            receiver = try self.startReceiver(port)
            Worker.sleep(for: .milliseconds(Int.random(in: 100...300, using: &generator)))
            agent.kill()
            self.say("killed the agent (SIGKILL), starting it again")
            agent = try self.startAgent(port, isOnce: false)
        }
        for app in apps where app.wait() != 0 { self.say("an app failed; see \(self.path("logs"))") }
        agent.terminate()
        _ = agent.wait()
        self.say("the apps have finished; shipping the rest")
        let last = try self.startAgent(port, isOnce: true)
        if last.wait() != 0 { self.say("the agent could not ship everything; see \(self.path("logs"))") }
        receiver.terminate()
        _ = receiver.wait()
        return try self.count()
    }

    private func say(_ text: String) {
        print("demo: \(text)")
    }

    private func startReceiver(_ port: Int) throws(FileSystemError) -> ChildProcess {
        try ChildProcess(
            ["receiver", "--data", self.path("data"), "--listen", "127.0.0.1:\(port)"],
            log: self.path("logs/receiver.log"))
    }

    private func startAgent(_ port: Int, isOnce: Bool) throws(FileSystemError) -> ChildProcess {
        var arguments = [
            "agent", "--state", self.path("agent"), "--to", "127.0.0.1:\(port)", "--glob",
            self.path("foreign/*.json"), "--env", "dev", "--bundle", "com.example.server", "--name", "demo",
        ]
        for app in 0..<self.appCount { arguments += ["--spool", self.path("spool/\(app)")] }
        if isOnce { arguments += ["--once", "--patience", "30"] }
        return try ChildProcess(arguments, log: self.path("logs/agent.log"))
    }

    /// Writes the log of another program: three lines that are events, and two that are not.
    private func writeForeignLog() throws(FileSystemError) {
        let milliseconds = self.clock.wallTime().milliseconds
        let lines = [
            "{\"time\":\(milliseconds),\"event\":\"request\",\"path\":\"/\",\"status\":200}",
            "{\"time\":\(milliseconds + 1),\"event\":\"request\",\"path\":\"/cart\",\"status\":200}",
            "this line is not JSON",
            "{\"event\":\"request\",\"path\":\"/no-time\"}",
            "{\"time\":\(milliseconds + 2),\"event\":\"request\",\"path\":\"/pay\",\"status\":500}",
        ]
        try self.files.replace(
            self.path("foreign/access.json"), with: Array((lines.joined(separator: "\n") + "\n").utf8))
    }

    /// A free port of the loopback interface.
    private static func freePort() throws(FileSystemError) -> Int {
        #if canImport(Glibc)
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            let descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(descriptor, pointer, length) == 0 ? getsockname(descriptor, pointer, &length) : -1
            }
        }
        guard status == 0 else { throw FileSystemError("bind", path: "127.0.0.1", errno: errno) }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    // MARK: The count

    private struct Entry: Hashable {
        let app: Int
        let number: Int
    }

    /// Compares what `track()` promised with what the archive holds.
    private func count() throws(FileSystemError) -> DemoLedger {
        var ledger = DemoLedger()
        var promised: Set<Entry> = []
        try self.forEachLine(below: self.path("ledger"), suffix: ".txt") { line in
            let numbers = String(decoding: line, as: UTF8.self).split(separator: " ").compactMap { Int($0) }
            if numbers.count == 2 { promised.insert(Entry(app: numbers[0], number: numbers[1])) }
        }
        ledger.tracked = promised.count
        var found: [Entry: Int] = [:]
        var tape = JSONTape()
        try self.forEachLine(below: self.path("data/archive/env=prod"), suffix: ".ndjson") { line in
            guard let entry = Self.entry(of: line, &tape) else { return }
            found[entry, default: 0] += 1
        }
        ledger.archived = promised.count { found[$0] != nil }
        ledger.lost = promised.count - ledger.archived
        ledger.duplicates = found.values.reduce(0) { $0 + $1 - 1 }
        ledger.aliens = found.keys.count { !promised.contains($0) }
        try self.forEachLine(below: self.path("data/archive/env=dev"), suffix: ".ndjson") { _ in ledger.foreign += 1 }
        try self.forEachLine(below: self.path("data/quarantine"), suffix: ".ndjson") { _ in ledger.quarantined += 1 }
        for provider in ["ga4", "mixpanel", "csv"] {
            var count = 0
            try self.forEachLine(below: self.path("data/exports/\(provider)"), suffix: ".ids", except: "held.ids") {
                _ in
                count += 1
            }
            ledger.records.append((provider, count))
        }
        return ledger
    }

    /// The app and number of a demo event; `nil` for the user event that each app starts with.
    private static func entry(of line: UnsafeRawBufferPointer, _ tape: inout JSONTape) -> Entry? {
        guard tape.accepts(line), let data = tape.firstValue(of: "data", in: 0),
            let app = tape.firstValue(of: "app", in: data),
            let number = tape.firstValue(of: "number", in: data),
            let appValue = Int(String(decoding: tape.bytes(of: app), as: UTF8.self)),
            let numberValue = Int(String(decoding: tape.bytes(of: number), as: UTF8.self))
        else { return nil }
        return Entry(app: appValue, number: numberValue)
    }

    private func forEachLine(
        below path: String, suffix: String, except: String? = nil, _ body: (UnsafeRawBufferPointer) -> Void
    ) throws(FileSystemError) {
        guard let status = try self.files.status(at: path) else { return }
        if status.kind == .directory {
            for name in try self.files.list(path) {
                try self.forEachLine(below: Path.join(path, name), suffix: suffix, except: except, body)
            }
        } else if path.hasSuffix(suffix), !(except.map(path.contains) ?? false) {
            let bytes = try self.files.contents(of: path, byteCountMax: 4 << 30) ?? []
            bytes.withUnsafeBytes { buffer in
                var position = 0
                while let end = buffer.firstNewline(from: position) {
                    body(UnsafeRawBufferPointer(rebasing: buffer[position..<end]))
                    position = end + 1
                }
            }
        }
    }
}
