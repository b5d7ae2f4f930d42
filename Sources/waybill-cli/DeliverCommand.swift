import ArgumentParser
import WaybillConsole

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// Becomes `waybill-deliver`, the program beside this one.
struct DeliverCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deliver",
        abstract: "Send the closed parts of an export to the provider.",
        discussion: "Options: waybill deliver --help")

    @Argument(parsing: .captureForPassthrough)
    var arguments: [String] = []

    func run() throws {
        let program = Self.directory + "waybill-deliver"
        // Only a failure comes back.
        let reason = ChildProcess.withVector([program] + self.arguments) { vector in
            execv(program, vector)
            return String(cString: strerror(errno))
        }
        Console.printError(
            "\(program) cannot be run: \(reason); install it beside waybill (swift build --product waybill-deliver)")
        throw ExitCode.badConfiguration
    }

    /// Where this program lies, with a slash at the end.
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
