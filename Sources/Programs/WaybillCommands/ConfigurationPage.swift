import WaybillExport

/// `Protocol/configuration.md` and the sample file, generated from the table.
enum ConfigurationPage {
    private static let head = """
        # Configuration

        `waybill receiver --config FILE` and `waybill agent --config FILE` read the same kind of file: YAML with a section
        `receiver`, a section `agent`, or both; `waybill merge --config FILE` reads the sections `merger` and `store`,
        `waybill deliver --config FILE` a section `deliver`, `waybill ingest --config FILE` a section `ingest`, and
        `waybill store check --config FILE` a section `store`. An option of the command line takes precedence over the
        file. `waybill configuration` prints a sample with the keys of a receiver, an agent, deliveries and a door, and
        their defaults; `waybill configuration --page` prints this page.

        - `waybill check FILE` reports every problem with its line and what to do: unknown keys, wrong values, files of
          TLS that cannot be used, addresses that are used twice. With `--probe` it also writes to the data and state
          directories, listens on the addresses for a moment, and greets the receivers in `to`, as an agent named
          `NAME~probe` that ships nothing, and connects to a door's `line.receiver`.
        - `${NAME}` in a value is the environment variable of that name; a variable that is not set is an error. It is
          replaced after the file is parsed, so its value is always one text. `$${` stands for the text `${`. Mapping
          files are read as they are.
        - `none` is the value of an optional key that is not set.
        - Paths in `tls`, `token_file`, `mapping` and `file` are relative to the folder of the file; `data`, `state`, `spool`
          and `files` are relative to the working directory.
        - An agent reads the token that it shows from the file `token_file`, or from the environment variable
          `WAYBILL_TOKEN`. A receiver without `agents` compares it with its own `WAYBILL_TOKEN`; with `agents` it does not
          read the variable. A token has at least 16 bytes.
        - SIGHUP makes a receiver, a merger or an agent reload the file. The column *applies* says whether a changed key applies at
          once (`reload`) or has to wait (`restart`). The log names every changed key with its old and new value. If the
          file has a problem, or a new certificate, token or spool cannot be used, or an export cannot continue with its
          new options, nothing changes.
        - An agent connects again after a reload that changed something, also when only the content of a file for TLS or of
          a token file has changed. Files of a source that is no longer listed are not read any more; their offsets stay
          in the registry, and they continue there once a source matches them again.
        - At a reload of a receiver or a merger the options of an export apply from its next batch; retention and cut-offs
          apply within a minute; a receiver's renewed certificate, also under the same path, applies to new connections.
          TLS itself is turned on and off by a restart, and so are exports added and removed.

        """

    static var text: String {
        var text = Self.head + "\n"
        text += Self.section("`receiver`", ConfigurationTable.receiver.map(\.facts))
        text += Self.section("Each entry of `receiver.agents`", ConfigurationTable.agentEntry.map(\.facts))
        text += Self.agents
        text += Self.section(
            "Each entry of `receiver.exports` and `merger.exports`", ConfigurationTable.export.map(\.facts))
        for provider in Destination.allCases {
            let options = ConfigurationTable.options(of: provider).map(\.facts)
            if !options.isEmpty { text += Self.section("Options of `\(provider.rawValue)`", options) }
        }
        text += Self.section("`merger`", ConfigurationTable.merger.map(\.facts))
        text += Self.section("`agent`", ConfigurationTable.agent.map(\.facts))
        text += Self.section("Each entry of `agent.sources`", ConfigurationTable.source.map(\.facts))
        text += Self.section("`deliver`", ConfigurationTable.deliver.map(\.facts))
        text += Self.section("Each entry of `deliver.deliveries`", ConfigurationTable.delivery.map(\.facts))
        text += Self.deliver
        text += Self.section("`store`", ConfigurationTable.store.map(\.facts))
        text += Self.store
        text += Self.section("`ingest`", ConfigurationTable.ingest.map(\.facts))
        text += Self.section("Each entry of `ingest.keys`", ConfigurationTable.ingestKey.map(\.facts))
        text += "## A sample\n\n```yaml\n\(Self.sample)```\n"
        return text
    }

    private static let agents = """
        - Each entry is a *principal*: it owns the streams of its agents, and no other principal can open, continue, skip
          or seal them, not even under the same id. Without `agents` all agents are one principal.
        - With a certificate the principal is the certificate's, and a token shown with it must be the same principal's.
          A certificate must name client authentication in its extended key usage.
        - `envs` and `bundles` hold for every line. A line outside goes to the quarantine (`not-allowed`); a file of other
          NDJSON, whose `env` and `bundle` its agent names, is not opened. The patterns are kept with the stream, so a
          replay decides as the receiver did.
        - `adopt` is for the change to `agents`: a stream from before goes to the principal whose agent has the file with
          its bytes. Nothing is stored twice. An agent without the bytes begins a stream of its own.
        - Certificates, keys, authorities, revocation lists, `agents_file` and the files of tokens are read again when they
          change, within 2 seconds, and at SIGHUP. A file that cannot be used changes nothing, and the log says why. A list
          `agents` in the configuration file itself is read again at SIGHUP. Open connections of agents that would not be
          let in any more, because their entry changed or their certificate expired or was revoked, end within 10 seconds.
        - Each revocation list must be signed by an authority in `client_ca`, an intermediate one included; otherwise the
          receiver does not start, and a reload keeps the lists in force. A list's next update is not checked.
        - `quotas` bound the principal, and those with `agent_` and the last three each of its agents or devices. Over its
          bytes a second an agent is read more slowly; two seconds' bytes pass at once. Over `day_mib` its batches are
          refused (`retry-after`) until the day ends; over `connections` the newest one is. A forwarder's bytes a second
          are its own; the other quotas count for the agent that it speaks for.

        """ + "\n"

    private static let deliver = """
        - `waybill deliver --config FILE` runs all deliveries in one process. A provider that is slow, down or refuses
          delays no other; each has a back-off of its own.
        - Credentials never stand in the file. `credentials_file` names a file of `NAME=value` lines of mode 0600, with the
          names that `waybill deliver --help` lists; without it they come from the environment.
        - SIGHUP reloads the file: deliveries that are new or changed start, those that are gone end, the others continue.
          A delivery that an operator must look at (`refused`, `failed`) starts again, so that new credentials are read.

        """ + "\n"

    private static let store = """
        - Credentials never stand in the file: they come from the environment, from AWS's shared files or from a role
          (`Documentation/fleet.md`). `waybill store check --config FILE` tries the bucket.

        """ + "\n"

    private static func section(_ title: String, _ keys: [KeyFacts]) -> String {
        var text = "## \(title)\n\n"
        text += "| key | value | default | applies | option | meaning |\n| --- | --- | --- | --- | --- | --- |\n"
        for key in keys {
            let option = key.option.map { "`\($0)`" } ?? ""
            text +=
                "| `\(key.key)` | \(key.value) | \(key.fallback) | \(key.applies.rawValue) | \(option) | \(key.help) |\n"
        }
        return text + "\n"
    }

    // MARK: Sample

    /// A file with every key: required ones with an example, the others as comments with their defaults.
    static var sample: String {
        var lines = [
            "# Every key of Waybill's configuration. A key in a comment shows its default, or an example.",
            "# Remove the section that this host does not need.",
            "receiver:",
        ]
        let lists = ["exports", "agents", "agents_file"]
        lines += Self.lines(ConfigurationTable.receiver.map(\.facts).filter { !lists.contains($0.key) }, indent: "  ")
        lines += [
            "", "  # The agents that may connect, and what each may write; agents_file names a file in its place.",
        ]
        lines.append("  #agents:")
        for (index, key) in ConfigurationTable.agentEntry.map(\.facts).enumerated() {
            if !key.section.isEmpty, !lines.contains("  #    \(key.section):") {
                lines.append("  #    \(key.section):")
            }
            let indent = key.section.isEmpty ? "" : "  "
            lines += [
                "  #    \(indent)# \(key.help)",
                "  #  \(index == 0 ? "- " : "  ")\(indent)\(key.name): \(key.example)",
            ]
        }
        lines += ["", "  # The exports to write.", "  exports:", "    - provider: ga4"]
        let export = ConfigurationTable.export + ConfigurationTable.options(of: .ga4)
        lines += Self.lines(export.map(\.facts).filter { !$0.fallback.hasPrefix("required") }, indent: "      ")
        lines += ["", "agent:"]
        lines += Self.lines(ConfigurationTable.agent.map(\.facts).filter { $0.key != "sources" }, indent: "  ")
        lines += ["", "  # What to ship: spools of apps, and other files.", "  sources:"]
        // The keys before `files` form an entry of their own, the others a second one.
        let starts = ["spool": "- ", "files": "#- "]
        for key in ConfigurationTable.source.map(\.facts) {
            lines.append("    # \(key.help)")
            lines.append("    \(starts[key.key] ?? "#  ")\(key.name): \(key.example)")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func lines(_ keys: [KeyFacts], indent: String) -> [String] {
        var lines: [String] = []
        var section = ""
        for key in keys {
            if key.section != section { lines += ["", "\(indent)#\(key.section):"] }
            section = key.section
            let prefix = section.isEmpty ? "" : "#  "
            let fallback = key.fallback == key.example || key.isRequired ? "" : "; default: \(key.fallback)"
            lines.append(
                "\(indent)\(prefix)# \(key.help) [\(key.value)\(fallback); applies at \(key.applies.rawValue)]")
            let value = key.written(key.example)
            lines.append("\(indent)\(prefix)\(key.isRequired || !section.isEmpty ? "" : "#")\(key.name): \(value)")
        }
        return lines
    }
}
