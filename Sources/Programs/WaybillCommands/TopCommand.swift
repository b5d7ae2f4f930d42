import ArgumentParser
import WaybillLive
import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

struct TopCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Show how receivers and agents are doing, live in the terminal.",
        discussion: """
            Examples:
              waybill top
              waybill top 127.0.0.1:4391 /run/waybill/agent.sock

            It shows what waybill status prints, each second. Keys: arrows or j and k scroll, space and b by a page, g and G
            to the ends; s changes the order of rows (worst, name, behind, rate); q quits.
            """)

    @OptionGroup var options: StatusOptions

    private static let interval = Duration.seconds(1)

    func run() throws {
        let places = self.options.places().places
        let token = try self.options.token()
        let wake: WakePipe
        do throws(FileSystemError) {
            wake = try WakePipe()
        } catch {
            Console.printError("\(error)")
            throw ExitCode.files
        }
        guard Terminal.enter() else {
            throw ValidationError("waybill top needs a terminal; waybill status prints the same once")
        }
        defer { Terminal.leave() }
        Self.show(places, token, wake)
    }

    /// Until a key or the end of the input stops it.
    private static func show(_ places: [ListeningPlace], _ token: Secret?, _ wake: WakePipe) {
        let clock = POSIXClock()
        let found = Lock<[StatusAnswer]?>(nil)
        let isColoured = Terminal.hasColours(STDOUT_FILENO)
        var screen = TopScreen()
        var keys = TopKeys()
        var isAsking = false
        var nextRound = clock.monotonicTime()
        while true {
            if !isAsking, nextRound <= clock.monotonicTime() {
                isAsking = true
                nextRound = clock.monotonicTime() + self.interval
                StatusQuery.ask(places, token: token) { answers in
                    found.withLock { $0 = answers }
                    wake.signal()
                }
            }
            let rest = isAsking ? self.interval : max(.zero, nextRound - clock.monotonicTime())
            let hasKeys = wake.wait(for: FileID(rawValue: STDIN_FILENO), timeout: rest)
            wake.clear()
            var isChanged = Terminal.takeResize()
            if let answers = found.withLock({ answers in answers.take() }) {
                isAsking = false
                screen.take(answers, time: String(clock.wallTime().text.dropFirst(11).prefix(8)) + "Z")
                isChanged = true
            }
            let size = Terminal.size(of: STDOUT_FILENO) ?? (80, 24)
            if hasKeys {
                guard let bytes = self.read() else { return }
                for key in keys.add(bytes) {
                    guard screen.press(key, rows: size.rows) else { return }
                    isChanged = true
                }
            }
            guard isChanged else { continue }
            let lines = screen.lines(columns: size.columns, rows: size.rows)
            Console.write(TopScreen.redraw(lines, isColoured: isColoured), to: STDOUT_FILENO)
        }
    }

    /// What was typed; `nil` at the end of the input.
    private static func read() -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 64)
        #if canImport(Glibc)
            let count = Glibc.read(STDIN_FILENO, &bytes, bytes.count)
        #else
            let count = Darwin.read(STDIN_FILENO, &bytes, bytes.count)
        #endif
        if count < 0, errno == EINTR || errno == EAGAIN { return [] }
        return count > 0 ? Array(bytes.prefix(count)) : nil
    }
}
