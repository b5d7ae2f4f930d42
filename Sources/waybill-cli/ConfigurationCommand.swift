import ArgumentParser

struct ConfigurationCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "configuration",
        abstract: "Print a sample configuration file with every key and its default.",
        discussion: """
            Examples:
              waybill configuration > waybill.yaml
              waybill configuration --page > Protocol/configuration.md
            """)

    @Flag(help: "Print the reference page (Markdown) instead.")
    var page = false

    func run() {
        print(self.page ? ConfigurationPage.text : ConfigurationPage.sample, terminator: "")
    }
}
