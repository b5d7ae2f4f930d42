import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// SIGINT and SIGTERM for a command that stops at a place from which it can go on; a second one ends it at once.
enum StopSignals {
    private static let number = Atomic<Int32>(0)

    /// The signal that came; 0 for none.
    static var received: Int32 { self.number.load(ordering: .relaxed) }

    static func listen() {
        // Before the first signal: a handler must not be the one that makes it.
        self.number.store(0, ordering: .relaxed)
        for number in [SIGINT, SIGTERM] {
            _ = signal(number) { number in
                StopSignals.number.store(number, ordering: .relaxed)
                _ = signal(number, SIG_DFL)
            }
        }
    }
}
