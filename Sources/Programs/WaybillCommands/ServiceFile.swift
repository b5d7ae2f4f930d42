import ArgumentParser
import WaybillExport

/// The configuration files that the Debian package installs: each key in a comment, with its default.
///
///     # The address that agents connect to. [HOST:PORT; applies at restart]
///     #listen: 127.0.0.1:4390                  without the "#" nothing changes
///     # name: collector-1                      an example: the file has no words for the default
enum ServiceFile: String, CaseIterable, ExpressibleByArgument {
    case receiver, agent, deliver, merge, ingest

    /// Sections that change something by being there.
    private static let switches = ["tls"]
    /// Where the package's agent ships to, and where it finds the spools of apps.
    private static let values = ["to": "[127.0.0.1:4390]", "spool": "/var/spool/waybill/*"]
    /// What a merger's keys have in place of a receiver's.
    private static let mergerValues = [
        "data": "/var/lib/waybill-merge", "name": "merger-1", "metrics": "127.0.0.1:\(UsualPort.merger)",
        "status_socket": "/run/waybill/merge.sock",
    ]

    /// Where the package's door writes; the agent, in the group, deletes what it shipped.
    private static let doorValues = ["spool": "/var/spool/waybill-ingest", "group": "waybill-spool"]

    var text: String {
        var lines = [
            "# The \(self.owner) configuration. Documentation: /usr/share/doc/waybill/Protocol/configuration.md",
            "#",
            "# \"#key: value\" is a key with its default: remove the \"#\" and change the value.",
            "# \"# key: value\" is an example of what can be set.",
            "# Check your changes: waybill check /etc/waybill/\(self.rawValue).yaml",
        ]
        if self == .merge { return (lines + Self.merger).joined(separator: "\n") + "\n" }
        lines.append("\(self.rawValue):")
        switch self {
        case .receiver:
            let lists = ["exports", "agents", "agents_file"]
            lines += Self.keys(ConfigurationTable.receiver.map(\.facts), lists: lists)
            lines += [
                "", "  # The agents that may connect, and what each may write; without it, all are one principal.",
            ]
            lines += Self.example("agents", [ConfigurationTable.agentEntry.map(\.facts)])
            lines += ["  # Or a file of its own with this list:", "  # agents_file: agents.yaml"]
            lines += Self.exports
        case .agent:
            lines += Self.keys(ConfigurationTable.agent.map(\.facts), lists: ["sources"])
            lines += ["", "  # What to ship: spools of apps, and other files.", "  sources:"]
            lines.append("    - spool: \(Self.values["spool", default: ""])")
            // The keys before `files` form an entry of their own, the others a second one.
            let source = ConfigurationTable.source.map(\.facts)
            let parts = source.split(maxSplits: 1, omittingEmptySubsequences: false) { $0.name == "files" }
            let files = source.filter { $0.name == "files" } + (parts.last ?? [])
            lines += Self.example("sources", [Array(parts.first ?? []), files])
        case .deliver:
            lines += Self.keys(ConfigurationTable.deliver.map(\.facts), lists: ["deliveries"])
            lines += ["", "  # What to send where; credentials never stand in this file.", "  #deliveries: []"]
            lines += Self.example("deliveries", [ConfigurationTable.delivery.map(\.facts)])
        case .ingest:
            lines += Self.keys(
                ConfigurationTable.ingest.map(\.facts), lists: ["keys"], Self.doorValues, set: ["group"])
            lines += ["", "  # The write keys; without one no one can send.", "  #keys: []"]
            lines += Self.example("keys", [ConfigurationTable.ingestKey.map(\.facts)])
        case .merge: break
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private var owner: String {
        switch self {
        case .receiver, .agent: "\(self.rawValue)'s"
        case .deliver: "deliveries'"
        case .merge: "merger's"
        case .ingest: "door's"
        }
    }

    private static var exports: [String] {
        let export = ConfigurationTable.export + ConfigurationTable.options(of: .ga4)
        let provider = export.map(\.facts).filter { $0.name == "provider" || !$0.isRequiredSometimes }
        return ["", "  # The exports to write.", "  #exports: []"] + Self.example("exports", [provider])
    }

    /// A merger has the bucket, and says what is written where.
    private static var merger: [String] {
        ["store:"] + Self.keys(ConfigurationTable.store.map(\.facts), lists: [])
            + [
                "", "# What is written where: the same on all mergers of a fleet but for data and name.", "merger:",
            ]
            + Self.keys(ConfigurationTable.merger.map(\.facts), lists: ["exports"], Self.mergerValues) + Self.exports
    }

    /// The keys of a program but for its lists, each with its default.
    ///
    /// - Parameters:
    ///   - examples: values in place of the keys' own.
    ///   - settings: keys that the package sets though they may be left out.
    private static func keys(
        _ keys: [KeyFacts], lists: [String], _ examples: [String: String] = [:], set settings: [String] = []
    ) -> [String] {
        var lines: [String] = []
        var section = ""
        for key in keys where !lists.contains(key.name) {
            let isExample = Self.switches.contains(key.section)
            // An example is one piece, that can be uncommented as a whole.
            if !isExample || key.section != section { lines.append("") }
            if key.section != section { lines.append(isExample ? "  # \(key.section):" : "  #\(key.section):") }
            section = key.section
            let indent = section.isEmpty ? "  " : isExample ? "  #   " : "    "
            lines.append("\(indent)# \(Self.meaning(of: key))")
            if key.isRequired || settings.contains(key.name) {
                lines.append("\(indent)\(key.name): \(examples[key.name] ?? Self.values[key.name] ?? key.example)")
            } else if let standing = key.standing, !isExample {
                lines.append("\(indent)#\(key.name): \(key.written(standing))")
            } else {
                let example = key.section.isEmpty ? examples[key.name] ?? key.example : key.example
                lines.append("\(indent)\(isExample ? "" : "# ")\(key.name): \(key.written(example))")
            }
        }
        return lines
    }

    /// A list with an entry for each group of keys, as an example.
    private static func example(_ list: String, _ entries: [[KeyFacts]]) -> [String] {
        var lines = ["  # \(list):"]
        for keys in entries {
            var section = ""
            for (index, key) in keys.enumerated() {
                if key.section != section { lines.append("  #     \(key.section):") }
                section = key.section
                let indent = section.isEmpty ? "  #     " : "  #       "
                let example = key.example.isEmpty ? key.fallback : key.example
                let value = key.isRequired && key.name == "provider" ? Destination.ga4.rawValue : example
                lines.append("\(indent)# \(Self.meaning(of: key))")
                lines.append("\(index == 0 ? "  #   - " : indent)\(key.name): \(key.written(value))")
            }
        }
        return lines
    }

    private static func meaning(of key: KeyFacts) -> String {
        let fallback = key.standing == nil || key.standing != key.fallback ? "default: \(key.fallback); " : ""
        return "\(key.help) [\(key.value); \(key.isRequired ? "" : fallback)applies at \(key.applies.rawValue)]"
    }
}

extension KeyFacts {
    /// Whether some entries must have the key, and others must not.
    fileprivate var isRequiredSometimes: Bool { self.fallback.hasPrefix("required") }
}
