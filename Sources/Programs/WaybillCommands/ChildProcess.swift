import ArgumentParser
import WaybillHost
import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// A child process that runs this program, for the demo; and this process, as another of Waybill's programs.
struct ChildProcess {
    let identifier: pid_t

    /// Starts this program again with other arguments.
    ///
    /// - Parameter log: the file that takes its standard output and error.
    init(_ arguments: [String], log: String) throws(FileSystemError) {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0o644)
        posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO)
        let program = Self.program
        var identifier = pid_t()
        let status = Self.withVector([program] + arguments) {
            posix_spawn(&identifier, program, &actions, nil, $0, environ)
        }
        guard status == 0 else { throw FileSystemError("spawn", path: program, errno: status) }
        self.identifier = identifier
    }

    /// Replaces this process with another of Waybill's programs, which is installed next to this one, and the same arguments.
    ///
    /// - Returns: only on failure, which has been said: the exit code to throw.
    static func replaceThis(with name: String) -> ExitCode {
        let program = OwnProgram.directory + name
        let reason = Self.withVector([program] + CommandLine.arguments.dropFirst()) { vector in
            execv(program, vector)
            return String(cString: strerror(errno))
        }
        Console.end(
            .configurationWrong,
            "\(program) cannot be run: \(reason); install it next to waybill (swift build --product \(name))")
        return .badConfiguration
    }

    /// Passes a command line as a C argument vector.
    static func withVector<Result>(
        _ words: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
    ) -> Result {
        var vector: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
        vector.append(nil)
        defer { for word in vector { free(word) } }
        return body(vector)
    }

    private static var program: String {
        #if canImport(Glibc)
            "/proc/self/exe"
        #else
            CommandLine.arguments[0]
        #endif
    }

    func kill() {
        _ = signal(SIGKILL)
        _ = self.wait()
    }

    func terminate() {
        _ = signal(SIGTERM)
    }

    private func signal(_ number: Int32) -> Int32 {
        #if canImport(Glibc)
            Glibc.kill(self.identifier, number)
        #else
            Darwin.kill(self.identifier, number)
        #endif
    }

    /// - Returns: its exit code, or 128 + the signal that ended it.
    func wait() -> Int32 {
        var status: Int32 = 0
        while waitpid(self.identifier, &status, 0) < 0, errno == EINTR {}
        return status & 0x7F == 0 ? (status >> 8) & 0xFF : 128 + (status & 0x7F)
    }

    /// Whether it is still running.
    var isRunning: Bool {
        var status: Int32 = 0
        return waitpid(self.identifier, &status, WNOHANG) == 0
    }
}
