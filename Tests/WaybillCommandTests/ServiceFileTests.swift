import Testing
import WaybillAgent
import WaybillMerger
import WaybillProjection
import WaybillReceiver
import WaybillSystem

@testable import WaybillCommands

/// The files that the Debian package installs: each key in a comment, with its default.
@Suite struct ServiceFileTests {
    /// A file's lines, without the `#` of every default.
    private static func uncommented(_ file: ServiceFile) -> [Substring] {
        file.text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            guard let match = line.wholeMatch(of: /( *)#(\w+:.*)/) else { return line }
            return match.1 + match.2
        }
    }

    private static func parsed(_ text: String) -> ConfigurationFile {
        ConfigurationFile(yaml: text, directory: ".")
    }

    private static func problems(_ file: ConfigurationFile) -> [String] {
        file.problems.map { $0.text(in: "f") }
    }

    @Test func `the receiver's defaults can be uncommented and change nothing`() throws {
        let file = Self.parsed(Self.uncommented(.receiver).joined(separator: "\n"))
        #expect(Self.problems(file) == [])
        let plain = try #require(Self.parsed(ServiceFile.receiver.text).receiver)
        let full = try #require(file.receiver)
        let keys = ConfigurationTable.receiver.filter { !$0.facts.isRequired }
        for key in keys {
            #expect(key.show(plain) == key.show(.defaults), "\(key.facts.key)")
            #expect(key.show(full) == key.show(.defaults), "\(key.facts.key)")
        }
        #expect(keys.count > 20 && full.exports.isEmpty && full.agents == nil && full.tls == nil)
        #expect(full.dataDirectory == "/var/lib/waybill")
    }

    @Test func `the agent's defaults can be uncommented and change nothing`() throws {
        let file = Self.parsed(Self.uncommented(.agent).joined(separator: "\n"))
        #expect(Self.problems(file) == [])
        let plain = try #require(Self.parsed(ServiceFile.agent.text).agent)
        let full = try #require(file.agent)
        let keys = ConfigurationTable.agent.filter { !$0.facts.isRequired }
        for key in keys {
            #expect(key.show(plain) == key.show(.defaults), "\(key.facts.key)")
            #expect(key.show(full) == key.show(.defaults), "\(key.facts.key)")
        }
        #expect(keys.count > 10 && full.tls == nil && full.stateDirectory == "/var/lib/waybill-agent")
        #expect(full.sources.indices.map { full.sources[$0].registryName($0) } == ["0:/var/spool/waybill/*"])
    }

    @Test func `the deliveries' defaults can be uncommented and change nothing`() throws {
        let file = Self.parsed(Self.uncommented(.deliver).joined(separator: "\n"))
        #expect(Self.problems(file) == [])
        #expect(Self.problems(Self.parsed(ServiceFile.deliver.text)) == [])
        let full = try #require(file.deliver)
        #expect(full.dataDirectory == "/var/lib/waybill" && full.deliveries.isEmpty && full.status.metrics == nil)
    }

    @Test func `the merger's defaults can be uncommented and change nothing`() throws {
        let file = Self.parsed(Self.uncommented(.merge).joined(separator: "\n"))
        #expect(Self.problems(file) == [])
        #expect(Self.problems(Self.parsed(ServiceFile.merge.text)) == [])
        let plain = try #require(Self.parsed(ServiceFile.merge.text).merger)
        let full = try #require(file.merger)
        let keys = ConfigurationTable.merger.filter { !$0.facts.isRequired }
        for key in keys {
            #expect(key.show(plain) == key.show(.defaults), "\(key.facts.key)")
            #expect(key.show(full) == key.show(.defaults), "\(key.facts.key)")
        }
        #expect(keys.count > 12 && full.exports.isEmpty && full.dataDirectory == "/var/lib/waybill-merge")
        #expect(file.store?.url == "s3://example-events/waybill" && file.store?.endpoint == nil)
    }

    @Test func `every key is there, and every default that a file can write`() {
        let receiver = ConfigurationTable.receiver.map(\.facts)
        let agent = ConfigurationTable.agent.map(\.facts)
        let deliver = ConfigurationTable.deliver.map(\.facts)
        let merge = ConfigurationTable.merger.map(\.facts) + ConfigurationTable.store.map(\.facts)
        for (file, keys) in [
            (ServiceFile.receiver, receiver), (.agent, agent), (.deliver, deliver), (.merge, merge),
        ] {
            let lines = Self.uncommented(file)
            for key in keys {
                #expect(lines.contains { $0.contains("\(key.name):") }, "\(key.key)")
                // TLS is turned on by its section, and a file of agents stands for their list.
                guard let standing = key.standing, key.section != "tls", key.name != "agents_file" else { continue }
                let line = "\(key.name): \(key.written(standing))"
                #expect(lines.contains { $0.drop { $0 == " " } == line }, "\(key.key)")
            }
        }
        let entries = ConfigurationTable.agentEntry.map(\.facts) + ConfigurationTable.export.map(\.facts)
        for key in entries where !key.fallback.hasPrefix("required for `custom`") {
            #expect(ServiceFile.receiver.text.contains(" \(key.name): "), "\(key.key)")
        }
        for key in ConfigurationTable.source.map(\.facts) {
            #expect(ServiceFile.agent.text.contains(" \(key.name): "), "\(key.key)")
        }
        for key in ConfigurationTable.delivery.map(\.facts) {
            #expect(ServiceFile.deliver.text.contains(" \(key.name): "), "\(key.key)")
        }
    }

    /// An example is worth something when it can be taken as it is.
    @Test(arguments: [
        (ServiceFile.receiver, "agents"), (.receiver, "exports"), (.receiver, "tls"), (.agent, "sources"),
        (.agent, "tls"),
    ])
    func `an example can be uncommented`(file: ServiceFile, section: String) throws {
        let lines = file.text.split(separator: "\n", omittingEmptySubsequences: false)
        let start = try #require(lines.firstIndex(of: "  # \(section):"))
        let example = lines[start...].prefix { $0.hasPrefix("  # ") && !$0.hasPrefix("  # Or") }
        var text = file == .receiver ? "receiver:\n  data: d\n" : "agent:\n  state: s\n  to: a:1\n"
        if file == .agent, section != "sources" { text += "  sources: [{spool: s}]\n" }
        text += example.map { "  \($0.dropFirst(4))\n" }.joined()
        // Files that an example names are not there, and some keys need or exclude others.
        let expected = ["does not exist", "cannot stand with pinned", "need tls.client_ca"]
        let others = Self.problems(Self.parsed(text)).filter { problem in !expected.contains { problem.contains($0) } }
        #expect(others == [], "\(text)")
        #expect(example.count > 4)
    }

    @Test func `an optional key takes none, and a key with a default does not`() {
        let head = "receiver:\n  data: d\n"
        let file = Self.parsed(head + "  metrics: none\n  retention: {days: none}\n")
        #expect(Self.problems(file) == [])
        #expect(file.receiver?.status.metrics == nil && file.receiver?.retention.dayCountMax == nil)
        #expect(
            Self.problems(Self.parsed(head + "  listen: none\n")) == [
                "f: line 3: receiver.listen: must be HOST:PORT, e.g. 127.0.0.1:4390"
            ])
        // A file with this name needs its folder.
        #expect(Self.problems(Self.parsed(head + "  tls: {certificate: a, key: none}\n")).count == 1)
    }
}
