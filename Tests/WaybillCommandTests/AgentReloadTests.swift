import Testing
import WaybillAgent
import WaybillHost
import WaybillSystem
import WaybillTail

@testable import WaybillCommands

/// What a reload of an agent changes, and what it says.
@Suite struct AgentReloadTests {
    private static func agent(_ text: String) throws -> AgentConfiguration {
        let file = ConfigurationFile(yaml: "agent: {state: s, to: ['h:1'], \(text)}\n", directory: ".")
        #expect(file.problems.isEmpty, "\(file.problems)")
        return try #require(file.agent)
    }

    /// Another value of a key than its default, but for `sources`.
    private static func change(_ key: String, _ new: inout AgentConfiguration) throws {
        switch key {
        case "state": new.stateDirectory = "x"
        case "to": new.receivers = [NetworkAddress(host: "other", port: 1)]
        case "fleet": new.fleet = "7d2a40c5e9b1836f04d8fa6e21c97b53"
        case "name": new.name = try #require(AgentName("another"))
        case "token_file": new.tokenFile = "x"
        case "metrics": new.status.metrics = NetworkAddress(host: "h", port: 1)
        case "status_socket": new.status.socket = "x"
        case "status_token_file": new.status.tokenFile = "x"
        case "tls": new.tls = TLSClientConfiguration()
        case "compression": new.compression.level += 1
        case "compression_threads": new.compression.threadCount += 1
        case "batch_kib": new.batchByteCountMax += 1 << 10
        case "batch_lines": new.tailLimits.batchLineCountMax += 1
        case "linger_ms": new.linger += .milliseconds(1)
        case "max_connection_age": new.connectionAgeMax += .seconds(1)
        case "drain_seconds": new.drainPatience += .seconds(1)
        case "keep.hours": new.keep.ageMax = .seconds(3600)
        case "keep.gib": new.keep.byteCountMax = 1 << 30
        case "limits.open_files": new.tailLimits.openFileCountMax += 1
        case "quarantine.days": new.tailLimits.quarantine.ageMax = .seconds(86_400)
        case "quarantine.gib": new.tailLimits.quarantine.byteCountMax = 1 << 30
        case "tls.ca": new.authorities = "x"
        case "tls.pinned": new.pins = [try #require(CertificatePin("sha256:" + String(repeating: "0", count: 64)))]
        case "tls.certificate": new.certificate = "x"
        case "tls.key": new.privateKey = "x"
        case "tls.server_name": new.serverName = "x"
        default: Issue.record("\(key) has no case here")
        }
    }

    @Test func `every key applies at a reload, or is named as one that needs a restart`() throws {
        for key in ConfigurationTable.agent where key.facts.key != "sources" {
            var started = AgentConfiguration.defaults
            if key.facts.section == "tls" { started.tls = TLSClientConfiguration() }
            var new = started
            try Self.change(key.facts.key, &new)
            let changes = ConfigurationTable.changes(from: started, started, to: new)
            #expect(changes.map(\.key) == ["agent.\(key.facts.key)"])
            let needsRestart = key.facts.applies == .restart
            #expect(changes.map(\.needsRestart) == [needsRestart], "\(key.facts.key)")
            // What is said is what happens.
            let taken = started.taking(new)
            #expect(key.show(taken) == key.show(needsRestart ? started : new), "\(key.facts.key)")
            #expect(key.show(started) != key.show(new), "\(key.facts.key)")
        }
    }

    @Test func `every member of the configuration is a key's, or made at the start`() {
        let keys: Set = [
            "naming", "stateDirectory", "receivers", "sources", "tokenFile", "tls", "compression",
            "batchByteCountMax", "linger", "drainPatience", "tailLimits", "status", "connectionAgeMax", "fleet",
        ]
        let others: Set = [
            // From other options, the environment, or another file that a reload reads too.
            "token", "writtenTexts", "reshipRule",
            // Of the program, or of runs that end by themselves.
            "doors", "run",
            // What the process may have.
            "claimCountMax",
        ]
        let members = Set(Mirror(reflecting: AgentConfiguration.defaults).children.compactMap(\.label))
        #expect(members == keys.union(others))
    }

    @Test func `each source is told by its files, with each changed key`() throws {
        let old = try Self.agent(
            "sources: [{spool: /a}, {files: [/l/*.json, /m], env: prod, bundle: b}, {files: [/n], env: dev, bundle: b}]"
        )
        let new = try Self.agent(
            "sources: [{spool: /c}, {files: [/n], env: prod, bundle: b, time: t}, {files: [/l/*.json, /m], env: prod, "
                + "bundle: b}]")
        #expect(ConfigurationTable.changes(from: old, old, to: old).isEmpty)
        #expect(
            ConfigurationTable.changes(from: old, old, to: new).map(\.description) == [
                "agent.sources[/a]: present -> absent",
                "agent.sources[/c]: absent -> present",
                "agent.sources[/n].env: dev -> prod",
                "agent.sources[/n].time: none -> t",
            ])
    }

    @Test func `every key of a source is told`() throws {
        let old = try Self.agent("sources: [{files: [/n], env: dev, bundle: b}]")
        let paths: [String: (inout AgentSource) -> Void] = [
            "env": { $0.environment = "prod" }, "bundle": { $0.bundle = "c" }, "time": { $0.timeMember = "t" },
            "name": { $0.nameMember = "n" }, "user": { $0.userMember = "u" },
            "anonymous": { $0.anonymousMember = "a" }, "follow_links": { $0.followsLinks = true },
            "poll": { $0.isPolled = true }, "group": { $0.group = "g" }, "exclude": { $0.excludes = ["*.gz"] },
        ]
        // These two name the source.
        let keys = ConfigurationTable.source.map(\.facts.key).filter { $0 != "spool" && $0 != "files" }
        #expect(Set(keys) == Set(paths.keys))
        for (key, change) in paths {
            var new = old
            change(&new.sources[0])
            let changes = ConfigurationTable.changes(from: old, old, to: new)
            #expect(changes.map(\.key) == ["agent.sources[/n].\(key)"])
            #expect(changes.allSatisfy { !$0.needsRestart })
        }
        #expect(ConfigurationTable.source.allSatisfy { $0.facts.applies == .reload })
    }

    @Test func `a value from the environment is shown as the file writes it`() throws {
        let old = try Self.agent("sources: [{spool: /a}], token_file: t")
        let new = try Self.agent("sources: [{spool: /a}], token_file: 't${PATH}'")
        #expect(
            ConfigurationTable.changes(from: old, old, to: new).map(\.description) == [
                "agent.token_file: t -> t${PATH}"
            ])
    }
}
