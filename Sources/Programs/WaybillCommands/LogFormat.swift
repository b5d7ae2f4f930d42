internal import WaybillSystem

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// How a program writes its log to standard error.
package enum LogFormat: String, CaseIterable, Sendable {
    /// One sentence with members, for people.
    case text
    /// One JSON object a line, with typed values.
    case json
    /// As text, with `<N>` in front, from which systemd's journal takes the priority (sd-daemon(3)); without a time, which
    /// the journal has.
    case journal

    /// The format of a process for which none was chosen: the journal's if standard error goes there, text on a terminal,
    /// JSON otherwise.
    ///
    /// systemd sets `JOURNAL_STREAM` to device and inode of the stream (systemd.exec(5)). A process whose standard error
    /// was redirected inherits the variable, so both are compared.
    package static var ofThisProcess: LogFormat {
        Self.suiting(journalStream: ProcessEnvironment["JOURNAL_STREAM"], Self.standardError, Console.isTerminal)
    }

    /// - Parameters:
    ///   - journalStream: `JOURNAL_STREAM`.
    ///   - standardError: device and inode of standard error; `nil` if it is closed.
    package static func suiting(
        journalStream: String?, _ standardError: (device: UInt64, inode: UInt64)?, _ isTerminal: Bool
    ) -> LogFormat {
        if let journalStream, let standardError, journalStream == "\(standardError.device):\(standardError.inode)" {
            return .journal
        }
        return isTerminal ? .text : .json
    }

    private static var standardError: (device: UInt64, inode: UInt64)? {
        var status = stat()
        guard fstat(STDERR_FILENO, &status) == 0 else { return nil }
        return (UInt64(truncatingIfNeeded: status.st_dev), UInt64(truncatingIfNeeded: status.st_ino))
    }
}

/// What `--log-format` takes.
package enum LogFormatChoice: String, CaseIterable, Sendable {
    case auto
    case text
    case json
    case journal

    package var format: LogFormat {
        LogFormat(rawValue: self.rawValue) ?? .ofThisProcess
    }
}
