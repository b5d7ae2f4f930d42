import ArgumentParser
import WaybillConsole
import WaybillFleet
import WaybillReceiver

struct ConfigurationCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "configuration",
        abstract: "Print a sample configuration file with every key and its default.",
        discussion: """
            Examples:
              waybill configuration > waybill.yaml
              waybill configuration --service agent        the file that the Debian package installs
              waybill configuration --deliveries FILE      what `deliver --config FILE` runs, as JSON
              waybill configuration --page > Protocol/configuration.md
            """)

    @Flag(help: "Print the reference page (Markdown) instead.")
    var page = false

    @Option(help: "Print the file of a service instead: receiver, agent, deliver or merge.")
    var service: ServiceFile?

    @Option(help: "Print the section deliver of this file instead, as one line of JSON with every key.")
    var deliveries: String?

    func validate() throws {
        if self.deliveries != nil, self.page || self.service != nil {
            throw ValidationError("--deliveries cannot be combined with --page or --service")
        }
        if self.page, self.service != nil { throw ValidationError("--page and --service cannot be combined") }
    }

    func run() throws {
        if let deliveries { return try Self.printDeliveries(of: deliveries) }
        let text = self.service?.text ?? (self.page ? ConfigurationPage.text : ConfigurationPage.sample)
        print(text, terminator: "")
    }

    private static func printDeliveries(of path: String) throws {
        let file = try ConfigurationFile.load(path)
        guard let deliver = file.deliver else {
            Console.printError("\(path) has no section deliver:; add it, or name another file with --config")
            throw ExitCode.badConfiguration
        }
        let merger = file.receiver?.name ?? ""
        // Other mergers name it when they take parts over from it.
        if file.store != nil, !ChainName.isReceiver(merger) {
            Console.printError(
                "\(path) has a section store:, so that the mergers of a fleet share the deliveries; it needs the name of "
                    + "this one: receiver: {name: NAME}, 1 to 64 letters, digits, '.', '_' and '-'")
            throw ExitCode.badConfiguration
        }
        print(String(decoding: deliver.json(store: file.store, merger: merger), as: UTF8.self))
    }
}
