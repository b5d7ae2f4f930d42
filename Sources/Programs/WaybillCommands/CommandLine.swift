public import ArgumentParser
public import Logging
public import WaybillEvent

/// How much a service logs.
package struct LogOptions: ParsableArguments {
    @Option(help: "How much to log: debug, info, notice, warning or error.")
    package var logLevel: Logger.Level = .info

    @Option(
        help: """
            How to write the log: text, json, journal (priorities for systemd's journal), or auto: journal under
            systemd, text on a terminal, json otherwise.
            """)
    package var logFormat: LogFormatChoice = .auto

    package init() {}

    /// From here on, what the program says has this format, its last line too.
    package func validate() {
        Console.useLog(self.logFormat.format)
    }
}

extension LogFormatChoice: ExpressibleByArgument {}
extension Logger.Level: @retroactive ExpressibleByArgument {}
extension DeploymentEnvironment: ExpressibleByArgument {}
extension EventKind: ExpressibleByArgument {}
