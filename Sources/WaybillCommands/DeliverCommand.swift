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
        let program = OwnProgram.directory + "waybill-deliver"
        // Returns only on failure.
        let reason = ChildProcess.withVector([program] + self.arguments) { vector in
            execv(program, vector)
            return String(cString: strerror(errno))
        }
        Console.printError(
            "\(program) cannot be run: \(reason); install it next to waybill (swift build --product waybill-deliver)")
        throw ExitCode.badConfiguration
    }
}
