import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Signals that end a process by default, and about which a service does nothing.
enum IdleSignals {
    /// Has the kernel drop them; each one that is trapped would take a descriptor.
    static func ignore() {
        for number in [SIGPIPE, SIGUSR1, SIGUSR2] { _ = signal(number, SIG_IGN) }
    }
}

/// Handles SIGINT and SIGTERM for a command that stops where it can resume; a second signal ends it at once.
enum StopSignals {
    private static let number = Atomic<Int32>(0)

    /// The signal received; 0 for none.
    static var received: Int32 { self.number.load(ordering: .relaxed) }

    static func listen() {
        // Initializes the variable before the first signal; a signal handler must not do so.
        self.number.store(0, ordering: .relaxed)
        for number in [SIGINT, SIGTERM] {
            _ = signal(number) { number in
                StopSignals.number.store(number, ordering: .relaxed)
                _ = signal(number, SIG_DFL)
            }
        }
    }
}
