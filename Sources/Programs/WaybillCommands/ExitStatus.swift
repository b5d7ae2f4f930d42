package import ArgumentParser

/// The exit codes of all programs: those of sysexits.h where it has one.
///
/// `Documentation/run.md` has the same table; `ExitStatusTests` compares them.
package enum ExitStatus: Int32, CaseIterable, Sendable {
    case done = 0
    case unfulfilled = 1
    case down = 2
    case usage = 64
    case badInput = 65
    case noInput = 66
    case unreachable = 69
    case files = 74
    case again = 75
    case noPermission = 77
    case badConfiguration = 78

    package var meaning: String {
        switch self {
        case .done: "done"
        case .unfulfilled:
            "`status`: something is degraded; `live --expect`: the plan is not fulfilled; `demo`: lines are missing"
        case .down: "`status`: something is down"
        case .usage: "no command, or wrong options"
        case .badInput: "input is wrong or damaged"
        case .noInput:
            "input does not exist; `agent --once` shipped what it could, and could not read some files or folders"
        case .unreachable: "no receiver or provider took what was to be sent"
        case .files: "files or addresses cannot be used"
        case .again:
            "another process uses the data, the state or the output; or interrupted. The same command works later"
        case .noPermission: "credentials were refused"
        case .badConfiguration: "the configuration is wrong"
        }
    }
}

extension ExitCode {
    package init(_ status: ExitStatus) {
        self.init(status.rawValue)
    }

    /// The input is invalid (`EX_DATAERR`).
    package static let badInput = ExitCode(.badInput)
    /// The input cannot be read or does not exist (`EX_NOINPUT`).
    package static let noInput = ExitCode(.noInput)
    /// No receiver or provider could be reached (`EX_UNAVAILABLE`).
    package static let unreachable = ExitCode(.unreachable)
    /// Another process uses what the command needs; the same command works later (`EX_TEMPFAIL`).
    package static let inUse = ExitCode(.again)
    /// Stopped by a signal; the same command continues the work (`EX_TEMPFAIL`).
    package static let interrupted = ExitCode(.again)
    /// Files or directories cannot be used (`EX_IOERR`).
    package static let files = ExitCode(.files)
    /// The provider refused the credentials (`EX_NOPERM`).
    package static let noPermission = ExitCode(.noPermission)
    /// The configuration is wrong (`EX_CONFIG`).
    package static let badConfiguration = ExitCode(.badConfiguration)
}
