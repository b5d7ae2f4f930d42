import ArgumentParser

struct ConfigurationCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "configuration",
        abstract: "Print a sample configuration file with every key and its default.",
        discussion: """
            Examples:
              waybill configuration > waybill.yaml
              waybill configuration --service agent        the file that the Debian package installs
              waybill configuration --page > Protocol/configuration.md
            """)

    @Flag(help: "Print the reference page (Markdown) instead.")
    var page = false

    @Option(help: "Print the file of a service instead: receiver, agent, deliver or merge.")
    var service: ServiceFile?

    func validate() throws {
        if self.page, self.service != nil { throw ValidationError("--page and --service cannot be combined") }
    }

    func run() throws {
        let text = self.service?.text ?? (self.page ? ConfigurationPage.text : ConfigurationPage.sample)
        print(text, terminator: "")
    }
}
