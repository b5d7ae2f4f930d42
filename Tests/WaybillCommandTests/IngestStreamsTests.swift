import Testing
import WaybillIngest
import WaybillReceiver
import WaybillSystem
import WaybillTLS
import WaybillTestSupport

@testable import WaybillCommands

/// `streams` in the section `ingest`.
@Suite struct IngestStreamsTests {
    private static let agents = """
        agents:
          - {name: phones, tokens: "sha256:\(String(repeating: "ab", count: 32))", devices: on}
          - {name: web, certificates: [web.example.com]}

        """

    private static func file(_ streams: String, listen: String = "127.0.0.1:4380", in folder: String)
        -> ConfigurationFile
    {
        ConfigurationFile(
            yaml: "ingest:\n  listen: \(listen)\n  spool: s\n  quarantine: q\n  streams: {\(streams)}\n",
            directory: folder)
    }

    private static func folder<Result>(_ body: (String) throws -> Result) throws -> Result {
        let folder = try makeFolder()
        defer { removeFolder(folder) }
        try POSIXFileSystem().replace("\(folder)/agents.yaml", with: Array(Self.agents.utf8))
        return try body(folder)
    }

    private static let good = "receiver: collector.example.com:4390, token_file: t, agents_file: agents.yaml"

    @Test func `the receiver's list is taken, also with certificates, which only the receiver can ask for`() throws {
        try Self.folder { folder in
            let file = Self.file(
                "\(Self.good), agent: door-1, ca: ca.pem, connections: 3, answer_seconds: 7", in: folder)
            #expect(file.problems.map { $0.text(in: "f") } == [])
            let streams = try #require(file.ingestStreams)
            #expect(streams.receiver == NetworkAddress(host: "collector.example.com", port: 4390))
            #expect(streams.agent == "door-1" && streams.tokenFile == "\(folder)/t")
            #expect(streams.tls?.authorities == "\(folder)/ca.pem")
            #expect(streams.agents.map(\.name) == ["phones", "web"])
            #expect(streams.connectionCountMax == 3 && streams.answerDuration == .seconds(7))
            #expect(file.ingest?.text.hasSuffix("with 0 keys, and streams for collector.example.com:4390") == true)
        }
    }

    @Test func `without a receiver no streams are taken`() throws {
        try Self.folder { folder in
            #expect(Self.file("connections: 3", in: folder).ingestStreams == nil)
        }
    }

    @Test(arguments: [
        ("receiver: r:1, token_file: t", "127.0.0.1:1", "streams.agents_file: is missing"),
        ("receiver: r:1, agents_file: agents.yaml", "127.0.0.1:1", "streams.token_file: is missing"),
        ("token_file: t", "127.0.0.1:1", "streams.receiver: is missing"),
        (good, "0.0.0.0:1", "streams.insecure: clients' tokens would be in the clear"),
        ("receiver: r:1, token_file: t, agents_file: none.yaml", "localhost:1", "does not exist"),
    ])
    func `what is missing is said`(streams: String, listen: String, problem: String) throws {
        try Self.folder { folder in
            let problems = Self.file(streams, listen: listen, in: folder).problems.map { $0.text(in: "f") }
            #expect(problems.count == 1 && problems[0].contains(problem), "\(problems)")
        }
    }

    @Test func `an address has room for one batch`() throws {
        try Self.folder { folder in
            let problems = { (yaml: String) in
                let text = "ingest:\n  spool: s\n  quarantine: q\n  body_kib: 1024\n\(yaml)"
                return ConfigurationFile(yaml: text, directory: folder).problems.map { $0.text(in: "f") }
            }
            #expect(problems("  address_mib: 2\n") == [])
            #expect(problems("  address_mib: 3\n  streams: {\(Self.good)}\n") == [])
            let found = problems("  address_mib: 2\n  streams: {\(Self.good)}\n")
            #expect(found.count == 1 && found[0].contains("address_mib: has no room for one batch"), "\(found)")
        }
    }

    @Test func `an address that others reach is taken if that is said`() throws {
        try Self.folder { folder in
            let file = Self.file("\(Self.good), insecure: on", listen: "0.0.0.0:1", in: folder)
            #expect(file.problems.isEmpty && file.ingestStreams != nil)
        }
    }
}
