import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// The terminal while a program fills it: keys come one by one, and what was on it comes back at the end.
///
///     enter ─▶ other screen, no cursor, no echo ─▶ leave, a signal, or a crash ─▶ as it was
enum Terminal {
    /// The settings to come back to: the address of a `termios`; 0 while there are none.
    private static let saved = Atomic<Int>(0)
    /// Whether the size has changed since it was asked for.
    private static let resizes = Atomic<Int32>(0)

    private static let begin: StaticString = "\u{1B}[?1049h\u{1B}[?25l"
    private static let end: StaticString = "\u{1B}[?25h\u{1B}[?1049l"

    /// The size of the terminal at a descriptor; `nil` if it is not one.
    static func size(of descriptor: Int32) -> (columns: Int, rows: Int)? {
        guard isatty(descriptor) == 1 else { return nil }
        var size = winsize()
        // One that does not know its size has the usual one.
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Whether a descriptor leads to a terminal with colours, and its user wants them (https://no-color.org).
    static func hasColours(_ descriptor: Int32) -> Bool {
        guard isatty(descriptor) == 1, ProcessEnvironment["NO_COLOR"]?.isEmpty ?? true else { return false }
        guard let kind = ProcessEnvironment["TERM"], !kind.isEmpty else { return false }
        return kind != "dumb"
    }

    /// Takes the terminal; `false` if standard input or output is none.
    static func enter() -> Bool {
        guard isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1 else { return false }
        let settings = UnsafeMutablePointer<termios>.allocate(capacity: 1)
        settings.initialize(to: termios())
        guard tcgetattr(STDIN_FILENO, settings) == 0 else {
            settings.deallocate()
            return false
        }
        // A signal handler must not be the first to use a variable. It may come at any time, so this stays allocated.
        self.resizes.store(0, ordering: .relaxed)
        self.saved.store(Int(bitPattern: settings), ordering: .relaxed)
        self.listen()
        var raw = settings.pointee
        raw.c_lflag &= ~tcflag_t(ICANON | ECHO)
        // A stopped program could not give the terminal back.
        withUnsafeMutableBytes(of: &raw.c_cc) { $0[Int(VSUSP)] = 0 }
        guard tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) == 0 else { return false }
        self.write(self.begin)
        return true
    }

    /// Gives the terminal back; does nothing a second time.
    ///
    /// A signal handler may call it.
    static func leave() {
        var address = self.saved.load(ordering: .relaxed)
        // Only one of several callers takes the settings.
        while address != 0, let found = self.saved.replace(address, with: 0) { address = found }
        guard let settings = UnsafeMutablePointer<termios>(bitPattern: address) else { return }
        self.write(self.end)
        tcsetattr(STDIN_FILENO, TCSANOW, settings)
    }

    /// Whether the terminal was resized since the last call.
    static func takeResize() -> Bool {
        guard self.resizes.load(ordering: .relaxed) != 0 else { return false }
        self.resizes.store(0, ordering: .relaxed)
        return true
    }

    private static func listen() {
        // Those that end a program, and those of its own defects: the terminal first, then as without a handler.
        for number in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGPIPE] {
            _ = signal(number) { number in
                Terminal.leave()
                _ = signal(number, SIG_DFL)
                _ = raise(number)
            }
        }
        _ = signal(SIGWINCH) { _ in Terminal.resizes.store(1, ordering: .relaxed) }
    }

    private static func write(_ text: StaticString) {
        #if canImport(Glibc)
            _ = Glibc.write(STDOUT_FILENO, text.utf8Start, text.utf8CodeUnitCount)
        #else
            _ = Darwin.write(STDOUT_FILENO, text.utf8Start, text.utf8CodeUnitCount)
        #endif
    }
}
