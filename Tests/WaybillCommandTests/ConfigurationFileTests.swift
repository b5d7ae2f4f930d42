import Testing
import WaybillAgent
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillHost
import WaybillMerger
import WaybillProjection
import WaybillReceiver
import WaybillServerTestSupport
import WaybillSystem
import WaybillTail

@testable import WaybillCommands

@Suite struct ConfigurationFileTests {
    private static let head = "receiver:\n  data: d\n"

    private static func problems(_ yaml: String) -> [String] {
        ConfigurationFile(yaml: yaml, directory: ".").problems.map { $0.text(in: "f") }
    }

    @Test(arguments: [
        ("lisen: a:1", "receiver.lisen: is not a key of receiver:; did you mean listen?"),
        ("metric: a:1", "receiver.metric: is not a key of receiver:; did you mean metrics?"),
        ("tls: {certficate: a}", "receiver.tls.certficate: is not a key of receiver.tls:; did you mean certificate?"),
        ("retention: {day: 3}", "receiver.retention.day: is not a key of receiver.retention:; did you mean days?"),
        (
            "retention: {colour: 3}",
            "receiver.retention.colour: is not a key of receiver.retention:; its keys are apps, days, "
                + "dead, free_gib, gib, only, quarantine, set_aside, unsealed_days"
        ),
        (
            "exports: [{provider: ga4, options: {to_old: clamp}}]",
            "receiver.exports[0].options.to_old: is not a key of receiver.exports[0].options:; did you mean too_old?"
        ),
    ])
    func `an unknown key names its section and the nearest key`(line: String, expected: String) {
        #expect(Self.problems(Self.head + "  \(line)\n").contains("f: line 3: \(expected)"))
    }

    private static func agent(_ source: String) -> ConfigurationFile {
        ConfigurationFile(
            yaml: "agent:\n  state: s\n  to: a:1\n  sources:\n    - {\(source)}\n", directory: ".")
    }

    @Test(arguments: [
        ("spool: /a, exclude: '*.gz'", "agent.sources[0].exclude: is for `files` only; remove it"),
        (
            "spool: '/a/**'",
            "agent.sources[0].spool: /a/** is for a spool, whose folders are named one by one; write * in "
                + "place of **"
        ),
        ("files: '', env: prod, bundle: b", "agent.sources[0].files: is empty; name files"),
        (
            "files: '/{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}', env: prod, bundle: b",
            "agent.sources[0].files: /{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} has more than 64 choices in braces; write several "
                + "patterns"
        ),
    ])
    func `a pattern that cannot be used is named`(source: String, expected: String) {
        #expect(Self.agent(source).problems.map { $0.text(in: "f") } == ["f: line 5: \(expected)"])
    }

    @Test func `what a source leaves out is read, and doubted where it does nothing`() throws {
        let file = Self.agent("files: ['/log/{a,b}/**/*.log'], exclude: ['*.gz', /lgo/old], env: prod, bundle: b")
        #expect(file.problems.isEmpty)
        let agent = try #require(file.agent)
        #expect(agent.tailSources.map(\.excludes) == [["*.gz", "/lgo/old"]])
        let check = ConfigurationCheck(file, probes: false)
        #expect(
            check.problems.map { "\($0.severity) \($0.key): \($0.text)" } == [
                "warning agent.sources[0].exclude: /lgo/old leaves nothing out, for no pattern of files leads there; "
                    + "correct it, or remove it"
            ])
    }

    @Test func `limits of parts and apps are sections of their own`() throws {
        let file = ConfigurationFile(
            yaml: Self.head + """
                  retention:
                    only: delivered
                    apps: {com.example.noisy: {days: 7}, com.example.shop: {gib: 2}}
                    unsealed_days: 40
                    quarantine: {days: 30, gib: 5}
                    dead: {days: 14}
                    set_aside: {gib: 1}
                  journal: {gib: 100, hours: 720}
                agent:
                  state: /s
                  to: a:1
                  keep: {hours: 24, gib: 3}
                  quarantine: {days: 9}
                  sources: [{spool: /spool}]
                """, directory: ".")
        #expect(file.problems.isEmpty, "\(file.problems)")
        let receiver = try #require(file.receiver)
        let retention = receiver.retention
        #expect(retention.condition == .delivered && retention.unsealedDayCountMax == 40)
        #expect(
            retention.apps == [
                "com.example.noisy": RetentionLimit(dayCountMax: 7),
                "com.example.shop": RetentionLimit(byteCountMax: 2 << 30),
            ])
        #expect(retention.quarantine == RetentionLimit(dayCountMax: 30, byteCountMax: 5 << 30))
        #expect(retention.dead == RetentionLimit(dayCountMax: 14))
        #expect(retention.setAside == RetentionLimit(byteCountMax: 1 << 30))
        #expect(
            receiver.unreadJournal == UnreadJournalLimit(byteCountMax: 100 << 30, ageMax: .seconds(2_592_000)))
        let agent = try #require(file.agent)
        #expect(agent.tailLimits.keep == FileLimit(ageMax: .seconds(86_400), byteCountMax: 3 << 30))
        #expect(agent.tailLimits.quarantine == FileLimit(ageMax: .seconds(777_600)))
    }

    @Test(arguments: [
        ("quarantine: 30", "quarantine"), ("dead: {day: 3}", "dead"), ("set_aside: {days: 0}", "set_aside"),
        ("dead: {}", "dead"), ("quarantine: {gib: x}", "quarantine"),
    ])
    func `a wrong limit says what it must be`(line: String, key: String) {
        #expect(
            Self.problems(Self.head + "  retention: {\(line)}\n")
                == ["f: line 3: receiver.retention.\(key): must be {days: 30}, {gib: 5}, or both"])
        #expect(
            Self.problems(Self.head + "  retention: {apps: {a: {day: 3}}}\n")
                == [
                    "f: line 3: receiver.retention.apps: must be a section of apps, each with {days: 30}, {gib: 5}, or both"
                ])
    }

    @Test func `a file without problems gives each key its place`() throws {
        let file = ConfigurationFile(
            yaml: """
                receiver:
                  data: /d
                  listen: 0.0.0.0:4400
                  name: collector-1
                  metrics: 127.0.0.1:4401
                  connections: 7
                  tls: {certificate: a.pem, key: /k/a.key, client_ca: ca.pem}
                  archive: {zone: Asia/Seoul, cut_off: "05:30"}
                  retention: {days: 30, gib: 5, free_gib: 2}
                  journal: {retention_hours: 3}
                  memory: {admission_mib: 32, feed_mib: 16}
                  exports:
                    - {provider: syslog, cut_off: 00:15, env: [prod], options: {enterprise: 4711, max: 480}}
                agent:
                  state: /s
                  to: a:1
                  name: web-1
                  tls: {ca: ca.pem, server_name: collect.example.com}
                  compression: 3
                  compression_threads: 2
                  batch_kib: 64
                  batch_lines: 100
                  linger_ms: 20
                  drain_seconds: 4
                  sources:
                    - {spool: /spool}
                    - {files: /var/log/*.json, env: dev, bundle: com.example.web, time: ts, name: event, user: login,
                       anonymous: cookie}
                """, directory: "/etc/waybill")
        #expect(file.problems.isEmpty)
        let receiver = try #require(file.receiver)
        #expect([receiver.dataDirectory, receiver.listen.description] == ["/d", "0.0.0.0:4400"])
        #expect(
            receiver.name == "collector-1" && receiver.status.metrics?.port == 4401 && receiver.connectionCountMax == 7)
        #expect([receiver.certificate, receiver.privateKey] == ["/etc/waybill/a.pem", "/k/a.key"])
        #expect(receiver.clientAuthorities == "/etc/waybill/ca.pem")
        #expect(receiver.archiveZone.name == "Asia/Seoul" && receiver.archiveCutOffSecond == 19_800)
        #expect(receiver.retention.dayCountMax == 30 && receiver.retention.byteCountMax == 5 << 30)
        #expect(receiver.retention.freeByteCountMin == 2 << 30 && receiver.journalRetention == .seconds(10_800))
        #expect(receiver.admissionByteCount == 32 << 20 && receiver.feedByteCount == 16 << 20)
        let export = try #require(receiver.exports.first)
        #expect(export.provider == .syslog && export.cutOffSecond == 900 && export.environments.environments == [.prod])
        #expect(export.syslog.elementName == "wb@4711" && export.syslog.messageByteCountMax == 480)
        let agent = try #require(file.agent)
        #expect(agent.stateDirectory == "/s" && agent.receivers.map(\.description) == ["a:1"])
        #expect(agent.name.description == "web-1" && agent.tls?.authorities == "/etc/waybill/ca.pem")
        #expect(agent.tls?.serverName == "collect.example.com" && agent.tls?.identity == nil)
        #expect(agent.compression.level == 3 && agent.compression.threadCount == 2)
        #expect(agent.batchByteCountMax == 64 << 10)
        #expect(agent.tailLimits.batchLineCountMax == 100 && agent.linger == .milliseconds(20))
        #expect(agent.drainPatience == .seconds(4))
        #expect(
            agent.sources == [
                AgentSource(files: .spool(directory: "/spool"), environment: "prod", bundle: "unknown"),
                AgentSource(
                    files: .files(patterns: ["/var/log/*.json"]), environment: "dev", bundle: "com.example.web",
                    timeMember: "ts", nameMember: "event", userMember: "login", anonymousMember: "cookie"),
            ])
    }

    @Test func `what is left out has the default, the name that of the host`() throws {
        let file = ConfigurationFile(
            yaml: Self.head + "agent: {state: s, to: ['a:1'], tls: on, sources: [{spool: x}]}\n", directory: ".")
        #expect(file.problems.isEmpty)
        #expect(file.receiver?.name == ProcessID.hostName)
        for key in ConfigurationTable.receiver where key.facts.key != "data" {
            #expect(try key.show(#require(file.receiver)) == key.show(.defaults))
        }
        #expect(file.agent?.tls == TLSClientConfiguration())
    }

    @Test func `values name environment variables, and cannot add structure`() throws {
        let path = try #require(ProcessEnvironment["PATH"])
        let file = ConfigurationFile(
            yaml: "receiver: {data: \"/d${PATH}\", name: \"$${PATH} $5 $$\"}\n", directory: ".")
        #expect(file.problems.isEmpty)
        #expect(file.receiver?.dataDirectory == "/d\(path)")
        #expect(file.receiver?.name == "${PATH} $5 $$")
        #expect(file.receiver?.writtenTexts["receiver.data"] == "/d${PATH}")
    }

    @Test(arguments: [
        ("${WAYBILL_NOT_SET}", "the environment variable WAYBILL_NOT_SET is not set; set it, or write the value"),
        ("${}", "write ${NAME} with letters, digits and _ for an environment variable, or $${ for the text ${"),
        ("${A B}", "write ${NAME} with letters, digits and _ for an environment variable, or $${ for the text ${"),
        ("${PATH", "write ${NAME} with letters, digits and _ for an environment variable, or $${ for the text ${"),
    ])
    func `a variable that has no value is an error with its line`(value: String, expected: String) {
        #expect(
            Self.problems(
                "receiver:\n  data: '\(value)'\nagent:\n  state: s\n  sources: [{spool: s}]\n  to:\n    - '\(value)'\n")
                == ["f: line 2: receiver.data: \(expected)", "f: line 7: agent.to: \(expected)"])
    }

    @Test(arguments: [
        ("listn", "listen"), ("lsiten", "listen"), ("LISTEN", "listen"), ("metrics_", "metrics"), ("dta", "data"),
        ("xyz", nil), ("retentoin", "retention"),
    ])
    func `the nearest name has few other letters`(name: String, expected: String?) {
        #expect(NearestName.find(name, in: ["data", "listen", "metrics", "retention"]) == expected)
    }
}

/// A provider of another registry is configured like Waybill's own.
@Suite struct ExampleConfigurationTests {
    private static let yaml = "receiver: {data: d, exports: [{provider: example, options: {users: on}}]}\n"

    @Test func `its name and its options are keys of an export`() throws {
        let file = ConfigurationFile(yaml: Self.yaml, directory: ".", providers: .withExample)
        #expect(file.problems.isEmpty)
        let export = try #require(file.receiver?.exports.first)
        #expect(export.provider == Destination(Example.self) && export.example.includesUsers)
        let keys = ConfigurationTable.options(of: export.provider)
        #expect(keys.map(\.facts.key) == ["options.users"] && keys.map { $0.show(export) } == ["on"])
    }

    @Test func `a wrong option is a problem, and so is its name in the standard registry`() {
        let wrong = Self.yaml.replacing("users: on", with: "user: on")
        #expect(ConfigurationFile(yaml: wrong, directory: ".", providers: .withExample).problems.count == 1)
        #expect(
            ConfigurationFile(yaml: Self.yaml, directory: ".").problems.map(\.text)
                == ["there is no provider \"example\"; choose one of: \(Destination.list)"])
    }
}

@Suite struct MessagesPageTests {
    @Test func `the page is what the notices say`() throws {
        let page =
            #filePath.split(separator: "/").dropLast(3).reduce("") { "\($0)/\($1)" } + "/Documentation/messages.md"
        let bytes = try #require(try POSIXFileSystem().contents(of: page))
        #expect(
            String(decoding: bytes, as: UTF8.self) == MessagesPage.text,
            "run: waybill explain --page > Documentation/messages.md")
    }

    @Test(arguments: [
        ("recevier", "did you mean waybill receiver?"), ("agnet", "did you mean waybill agent?"), ("receiver", nil),
        ("--help", nil), ("help", nil), ("zzzzzz", nil), ("", nil),
    ])
    func `a misspelled command is recognized`(word: String, expected: String?) {
        #expect(WaybillCommand.advice(for: word) == expected)
    }
}

@Suite struct ConfigurationTableTests {
    private static let page =
        #filePath.split(separator: "/").dropLast(3).reduce("") { "\($0)/\($1)" }
        + "/Protocol/configuration.md"

    @Test func `the page is what the table says`() throws {
        let bytes = try #require(try POSIXFileSystem().contents(of: Self.page))
        #expect(
            String(decoding: bytes, as: UTF8.self) == ConfigurationPage.text,
            "run: waybill configuration --page > Protocol/configuration.md")
    }

    @Test func `the sample is a good file, and so is each example in its comments`() {
        #expect(ConfigurationFile(yaml: ConfigurationPage.sample, directory: ".").problems.isEmpty)
        let lines = ConfigurationPage.sample.split(separator: "\n").compactMap { line -> String? in
            let indent = line.prefix { $0 == " " }
            guard line.dropFirst(indent.count).hasPrefix("#") else { return String(line) }
            let text = line.dropFirst(indent.count + 1)
            let isComment = text.hasPrefix(" ") && !text.hasPrefix("  ") || text.hasPrefix("  #")
            // The short form of a section that follows, and a key that excludes another one.
            return isComment || text == "tls: on" || text == "  ca: ca.pem" ? nil : String(indent + text)
        }
        let file = ConfigurationFile(yaml: lines.joined(separator: "\n"), directory: ".")
        #expect(
            file.problems.map { $0.text(in: "f") } == ["ga4.yaml: line 1: file: does not exist; correct the path"])
        #expect(file.agent?.sources.count == 2 && file.receiver?.retention.dayCountMax == 400)
    }

    private static func changes(_ old: String, _ new: String) -> [String] {
        let old = ConfigurationFile(yaml: old, directory: ".").receiver ?? .defaults
        let new = ConfigurationFile(yaml: new, directory: ".").receiver ?? .defaults
        return ConfigurationTable.changes(from: old, old, to: new).map {
            $0.needsRestart ? "restart \($0)" : $0.description
        }
    }

    @Test func `a reload names each changed key with its old and new value`() {
        let old = "receiver: {data: d, exports: [{provider: csv, zone: UTC}, {provider: ga4}]}\n"
        let new = """
            receiver:
              data: d
              listen: 127.0.0.1:1
              retention: {days: 3}
              archive: {cut_off: "05:00", zone: Asia/Seoul}
              exports:
                - {provider: csv, zone: Asia/Seoul, cut_off: "06:00", env: [prod], options: {millis: on}}
                - {provider: syslog}
            """
        #expect(Self.changes(old, old).isEmpty)
        #expect(
            Self.changes(old, new) == [
                "restart receiver.listen: 127.0.0.1:4390 -> 127.0.0.1:1",
                "restart receiver.archive.zone: UTC -> Asia/Seoul",
                "receiver.archive.cut_off: 04:00 -> 05:00",
                "receiver.retention.days: keep all -> 3",
                "receiver.exports.csv.zone: UTC -> Asia/Seoul",
                "receiver.exports.csv.cut_off: 04:00 -> 06:00",
                "receiver.exports.csv.env: dev, internal, prod -> prod",
                "receiver.exports.csv.options.millis: off -> on",
                "restart receiver.exports.syslog: absent -> present",
                "restart receiver.exports.ga4: present -> absent",
            ])
    }

    @Test func `a change of every key is reported, once`() throws {
        for key in ConfigurationTable.receiver where !["exports", "agents_file"].contains(key.facts.key) {
            let started = ReceiverConfiguration.defaults
            var new = started
            switch key.facts.key {
            case "data": new.dataDirectory = "x"
            case "listen": new.listen.port = 1
            case "name": new.name += "x"
            case "metrics": new.status.metrics = NetworkAddress(host: "h", port: 1)
            case "status_socket": new.status.socket = "x"
            case "status_token_file": new.status.tokenFile = "x"
            case "connections": new.connectionCountMax += 1
            case "tls.certificate": new.certificate = "x"
            case "tls.key": new.privateKey = "x"
            case "tls.client_ca": new.clientAuthorities = "x"
            case "tls.crl": new.revocations = "x"
            case "stop_seconds": new.stopPatience += .seconds(1)
            case "insecure": new.isInsecure = true
            case "audit": new.audit = "x"
            case "agents": new.agents = [Principal(name: "x")]
            case "archive.zone": new.archiveZone = try TimeZoneRules(named: "Asia/Seoul", from: POSIXFileSystem())
            case "archive.cut_off": new.archiveCutOffSecond += 60
            case "retention.days": new.retention.dayCountMax = 1
            case "retention.gib": new.retention.byteCountMax = 1 << 30
            case "retention.free_gib": new.retention.freeByteCountMin = 1 << 30
            case "retention.only": new.retention.condition = .delivered
            case "retention.apps": new.retention.apps = ["a": RetentionLimit(dayCountMax: 1)]
            case "retention.unsealed_days": new.retention.unsealedDayCountMax = 1
            case "retention.quarantine": new.retention.quarantine.dayCountMax = 1
            case "retention.dead": new.retention.dead.dayCountMax = 1
            case "retention.set_aside": new.retention.setAside.dayCountMax = 1
            case "journal.gib": new.unreadJournal.byteCountMax = 1 << 30
            case "journal.hours": new.unreadJournal.ageMax = .seconds(3600)
            case "journal.retention_hours": new.journalRetention += .seconds(3600)
            case "reserve_mib": new.reserveByteCount += 1 << 20
            case "memory.admission_mib": new.admissionByteCount += 1 << 20
            case "memory.descriptions_mib": new.descriptionByteCount += 1 << 20
            case "limits.silent_connections": new.quotas.silentConnectionCountMax += 1
            case "limits.streams": new.quotas.streamCountMax += 1
            case "limits.apps": new.partitionQuotas.appCountMax += 1
            case "limits.days": new.partitionQuotas.dayCountMax += 1
            case "memory.feed_mib": new.feedByteCount += 1 << 20
            case "piece.mib": new.pieceByteCount += 1 << 20
            case "piece.seconds": new.pieceInterval += .seconds(1)
            case "projections": new.projections = .none
            case "proxied.listen": new.proxied.place = .socket("/p")
            case "proxied.from": new.proxied.proxies = ["::1"]
            case "proxied.group": new.proxied.group = "g"
            case "proxied.tls": new.proxied.usesTLS = true
            case "proxied.connections": new.proxied.connectionCountMax += 1
            default: Issue.record("\(key.facts.key) has no case here")
            }
            let changes = ConfigurationTable.changes(from: started, started, to: new)
            #expect(changes.map(\.key) == ["receiver.\(key.facts.key)"])
            // TLS that is turned on, as here, needs a restart whatever the key.
            let needsRestart = key.facts.applies == .restart || key.facts.section == "tls"
            #expect(changes.map(\.needsRestart) == [needsRestart], "\(key.facts.key)")
        }
    }

    @Test func `a merger has a receiver's keys without connections, and keys of its bucket`() throws {
        let own = ["checkpoint_hours", "pieces_days", "limits.principal_days"]
        let keys = ConfigurationTable.merger.map(\.facts.key)
        #expect(Set(keys).subtracting(own).isSubset(of: ConfigurationTable.receiver.map(\.facts.key)))
        #expect(Set(keys).isSuperset(of: own) && Set(keys).isDisjoint(with: ["listen", "agents", "tls.key"]))
        let started = MergerConfiguration.defaults
        let yaml = """
            merger:
              data: d
              name: m1
              checkpoint_hours: 5
              limits: {days: 7, principal_days: {web: 9}}
              retention: {days: 3}
              exports: [{provider: csv}]
            """
        let file = ConfigurationFile(yaml: yaml, directory: "/")
        let merger = try #require(file.merger)
        #expect(file.problems.isEmpty && merger.partitionQuotas.dayCountMaxOfPrincipals == ["web": 9])
        #expect(
            Set(ConfigurationTable.changes(from: started, started, to: merger).map(\.description)).isSuperset(of: [
                "merger.checkpoint_hours: 24 -> 5", "merger.retention.days: keep all -> 3",
                "merger.limits.principal_days: `limits.days` -> {web: 9}", "merger.exports.csv: absent -> present",
            ]))
    }

    @Test func `a value from the environment is shown as the file writes it`() {
        let changes = Self.changes(
            "receiver: {data: d, metrics: 'h:1'}\n", "receiver: {data: 'd${PATH}', metrics: 'h:1'}\n")
        #expect(changes == ["restart receiver.data: d -> d${PATH}"])
    }

    @Test func `every key has one row`() {
        for keys in [
            ConfigurationTable.receiver.map(\.facts.key), ConfigurationTable.export.map(\.facts.key),
            ConfigurationTable.agent.map(\.facts.key), ConfigurationTable.source.map(\.facts.key),
            ConfigurationTable.merger.map(\.facts.key),
        ] {
            #expect(Set(keys).count == keys.count)
        }
    }
}
