import ArgumentParser
import WaybillConsole

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Replaces this process with `waybill-deliver` from the same directory.
struct DeliverCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deliver",
        abstract: "Send the closed parts of an export to the provider.",
        discussion: "Options: waybill deliver --help")

    @Argument(parsing: .captureForPassthrough)
    var arguments: [String] = []

    func run() throws {
        let program = Self.directory + "waybill-deliver"
        // Returns only on failure.
        let reason = ChildProcess.withVector([program] + self.arguments) { vector in
            execv(program, vector)
            return String(cString: strerror(errno))
        }
        Console.printError(
            "\(program) cannot be run: \(reason); install it next to waybill (swift build --product waybill-deliver)")
        throw ExitCode.badConfiguration
    }

    /// The directory of this program, with a trailing slash.
    private static var directory: String {
        #if canImport(Glibc)
            let own = withUnsafeTemporaryAllocation(byteCount: Int(PATH_MAX), alignment: 1) { buffer in
                let room = buffer.bindMemory(to: CChar.self)
                guard let start = room.baseAddress else { return CommandLine.arguments[0] }
                let count = readlink("/proc/self/exe", start, room.count)
                return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : CommandLine.arguments[0]
            }
        #else
            let own = CommandLine.arguments[0]
        #endif
        return own.lastIndex(of: "/").map { String(own[...$0]) } ?? ""
    }
}
