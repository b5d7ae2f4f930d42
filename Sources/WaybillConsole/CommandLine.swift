public import ArgumentParser
public import Logging
public import WaybillEvent

/// How much a service logs.
package struct LogOptions: ParsableArguments {
    @Option(help: "How much to log: debug, info, notice, warning or error.")
    package var logLevel: Logger.Level = .info

    package init() {}
}

extension Logger.Level: @retroactive ExpressibleByArgument {}
extension DeploymentEnvironment: ExpressibleByArgument {}
extension EventKind: ExpressibleByArgument {}

extension ExitCode {
    /// The input is invalid (`EX_DATAERR`).
    package static let badInput = ExitCode(65)
    /// The input cannot be read or does not exist (`EX_NOINPUT`).
    package static let noInput = ExitCode(66)
    /// No receiver or provider could be reached (`EX_UNAVAILABLE`).
    package static let unreachable = ExitCode(69)
    /// Stopped by a signal; the same command continues the work (`EX_TEMPFAIL`).
    package static let interrupted = ExitCode(75)
    /// Files or directories cannot be used (`EX_IOERR`).
    package static let files = ExitCode(74)
    /// The provider refused the credentials (`EX_NOPERM`).
    package static let noPermission = ExitCode(77)
    /// The configuration is wrong (`EX_CONFIG`).
    package static let badConfiguration = ExitCode(78)
}
