import ArgumentParser
import WaybillProjection
import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

struct SealedCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sealed",
        abstract: "Print one JSON line for each new revision of a sealed day, each once.",
        discussion: """
            Examples:
              waybill sealed --data /var/lib/waybill --cursor ./sealed.cursor
              waybill sealed --data /var/lib/waybill --cursor ./sealed.cursor --follow >>sealed.ndjson
              waybill sealed --data /var/lib/waybill --cursor ./load.cursor --follow --exec ./load-day

            A line names the day's folder, its revision, and its files with sizes and SHA-256. The cursor remembers what
            was printed. If this process is killed in between, at most one line is in doubt: a file that takes the lines
            (>>) has it once in any case; a pipe or a command gets it once more, with "again":true. A command confirms a
            line by exit code 0, and gets it again otherwise. It must therefore do the same thing twice without harm.
            """)

    @Option(help: "A receiver's data directory; nothing in it is changed.")
    var data: String

    @Option(help: "The file that remembers what was printed; created if it is missing.")
    var cursor: String

    @Flag(help: "Continue with days that are sealed later, until SIGTERM.")
    var follow = false

    @Option(help: "Run this shell command for each line, with the line as its standard input, in place of printing.")
    var exec: String?

    /// How long a follower rests at least.
    private static let pauseMin = Duration.seconds(2)
    /// A follower rests this many times as long as its last pass took.
    private static let pauseFactor = 20

    func run() throws {
        StopSignals.listen()
        do {
            try self.feed()
        } catch let error as FileSystemError {
            Console.printError("\(error)")
            throw ExitCode.files
        }
    }

    private func feed() throws {
        let files = POSIXFileSystem()
        guard try files.status(at: self.data)?.kind == .directory else {
            Console.printError("\(self.data) does not exist; name a receiver's data directory with --data")
            throw ExitCode.noInput
        }
        let lock = try files.open(self.cursor + ".lock", .append)
        defer { files.close(lock) }
        guard try files.lock(lock, .exclusive) else {
            Console.printError("another process uses the cursor \(self.cursor); give each reader its own")
            throw ExitCode.inUse
        }
        var feed = try SealedFeed(data: self.data, cursor: self.cursor, files: files)
        for note in feed.recovery.notes { Console.printError("\(note)") }
        let target = SealedTarget(command: self.exec, files: files)
        var backoff = Backoff(from: .seconds(1), to: .seconds(300), SeededGenerator(seed: SystemRandom.seed()))
        var isSettled = false
        repeat {
            let start = POSIXClock().monotonicTime()
            if !isSettled { isSettled = try Self.settle(&feed, target) }
            if isSettled { isSettled = try Self.pass(&feed, target) }
            guard StopSignals.received == 0 else { return }
            if isSettled {
                backoff.succeed()
            } else if !self.follow {
                throw ExitCode.interrupted
            }
            guard self.follow else { return }
            let took = POSIXClock().monotonicTime() - start
            Self.rest(isSettled ? max(Self.pauseMin, took * Self.pauseFactor) : backoff.fail())
        } while StopSignals.received == 0
    }

    /// Hands out what a process had announced before it ended.
    private static func settle(
        _ feed: inout SealedFeed<POSIXFileSystem>, _ target: SealedTarget
    ) throws(FileSystemError) -> Bool {
        switch try feed.rest(try target.output()) {
        case nil: return true
        case .bytes(let bytes): guard try target.take(bytes) else { return false }
        case .again(let line):
            guard try target.take(SealedFeed<POSIXFileSystem>.marked(line) + [0x0A]) else { return false }
        }
        try feed.confirm()
        return true
    }

    /// - Returns: whether every line was taken.
    private static func pass(
        _ feed: inout SealedFeed<POSIXFileSystem>, _ target: SealedTarget
    ) throws(FileSystemError) -> Bool {
        var isTaken = true
        _ = try feed.pass { (feed, found) throws(FileSystemError) in
            try feed.announce(found, try target.output())
            isTaken = try target.take(found.day.line + [0x0A])
            // A command's work is not done twice if the process ends before the next line.
            if isTaken, target.isCommand { try feed.confirm() }
            return isTaken && StopSignals.received == 0
        }
        if isTaken, StopSignals.received != 0 { try feed.confirm() }
        return isTaken
    }

    private static func rest(_ duration: Duration) {
        let end = POSIXClock().monotonicTime() + duration
        while StopSignals.received == 0 {
            let left = end - POSIXClock().monotonicTime()
            guard left > .zero else { return }
            Worker.sleep(for: min(left, .milliseconds(100)))
        }
    }
}

/// Who takes the lines: standard output, or a command for each.
struct SealedTarget {
    let command: String?
    let files: POSIXFileSystem

    private static let standardOutput = FileID(rawValue: STDOUT_FILENO)

    var isCommand: Bool { self.command != nil }

    /// The file that standard output is; `nil` for a pipe, a terminal or a command.
    func output() throws(FileSystemError) -> SealedFeed<POSIXFileSystem>.Output? {
        guard self.command == nil else { return nil }
        let status = try self.files.status(Self.standardOutput)
        guard status.kind == .regular else { return nil }
        return SealedFeed.Output(identity: status.identity, byteCount: status.byteCount)
    }

    /// - Returns: whether the line was taken; a command refuses it by its exit code.
    func take(_ line: [UInt8]) throws(FileSystemError) -> Bool {
        if let command { return try Self.run(command, line) }
        try self.files.writeAll(Self.standardOutput, line)
        // In a file the line must outlive a power cut, as the cursor does.
        if try self.files.status(Self.standardOutput).kind == .regular {
            try self.files.synchronize(Self.standardOutput)
        }
        return true
    }

    private static func run(_ command: String, _ line: [UInt8]) throws(FileSystemError) -> Bool {
        // A command that does not read its input must not end this process.
        _ = signal(SIGPIPE, SIG_IGN)
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw FileSystemError("pipe", path: command, errno: errno) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO)
        posix_spawn_file_actions_addclose(&actions, ends[0])
        posix_spawn_file_actions_addclose(&actions, ends[1])
        // The command's own pipes end as everywhere.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var defaults = sigset_t()
        sigemptyset(&defaults)
        sigaddset(&defaults, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &defaults)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
        var child = pid_t()
        let status = ChildProcess.withVector(["/bin/sh", "-c", command]) {
            posix_spawn(&child, "/bin/sh", &actions, &attributes, $0, environ)
        }
        close(ends[0])
        guard status == 0 else {
            close(ends[1])
            throw FileSystemError("spawn", path: "/bin/sh", errno: status)
        }
        Console.write(String(decoding: line, as: UTF8.self), to: ends[1])
        close(ends[1])
        var code: Int32 = 0
        while waitpid(child, &code, 0) < 0, errno == EINTR {}
        if code != 0 {
            Console.printError("the command failed (\(code & 0x7F == 0 ? "exit code \(code >> 8)" : "a signal"))")
        }
        return code == 0
    }
}
