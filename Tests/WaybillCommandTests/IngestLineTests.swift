import Testing
import WaybillIngest
import WaybillReceiver
import WaybillSystem

@testable import WaybillCommands

/// `line` in the section `ingest`, and `proxied` in `receiver`, to which it leads.
@Suite struct IngestLineTests {
    private static func file(_ line: String, listen: String = "127.0.0.1:4380") -> ConfigurationFile {
        ConfigurationFile(
            yaml: "ingest:\n  listen: \(listen)\n  spool: s\n  quarantine: q\n  line: {\(line)}\n",
            directory: "/etc/waybill")
    }

    @Test func `tunnels lead to an address or a socket`() throws {
        let file = Self.file("receiver: collector.example.com:4396, ca: ca.pem, connections: 3")
        #expect(file.problems.map { $0.text(in: "f") } == [])
        let line = try #require(file.ingest?.line)
        #expect(line.receiver == .address(NetworkAddress(host: "collector.example.com", port: 4396)))
        #expect(line.authorities == "/etc/waybill/ca.pem")
        #expect(line.connectionCountMax == 3)
        #expect(file.ingest?.text.hasSuffix("with 0 keys, and tunnels to collector.example.com:4396") == true)
        #expect(Self.file("receiver: /run/waybill/line.sock").problems.isEmpty)
        #expect(Self.file("connections: 3").ingest?.line.receiver == nil)
        #expect(Self.file("receiver: r:1, insecure: on", listen: "0.0.0.0:1").problems.isEmpty)
    }

    @Test(arguments: [
        ("receiver: r:1", "0.0.0.0:1", "line.insecure: agents' tokens would be in the clear"),
        ("receiver: collector", "localhost:1", "line.receiver: must be HOST:PORT or an absolute path"),
        ("agents_file: a.yaml", "localhost:1", "agents_file"),
    ])
    func `what is wrong is said`(line: String, listen: String, problem: String) {
        let problems = Self.file(line, listen: listen).problems.map { $0.text(in: "f") }
        #expect(problems.count == 1 && problems[0].contains(problem), "\(problems)")
    }

    @Test func `the section that was before names the new one`() {
        let file = ConfigurationFile(
            yaml: "ingest:\n  spool: s\n  quarantine: q\n  streams: {receiver: r:1}\n", directory: "/etc/waybill")
        let told = "streams: is gone: agents reach the receiver through `line`"
        #expect(file.problems.contains { $0.text(in: "f").contains(told) })
    }

    private static func receiver(_ proxied: String, _ more: String = "") -> ConfigurationFile {
        ConfigurationFile(
            yaml: "receiver:\n  data: d\n  proxied: {\(proxied)}\n\(more)", directory: "/etc/waybill")
    }

    @Test(
        arguments: [
            ("listen: 127.0.0.1:4396, from: [127.0.0.1]", nil),
            ("listen: /run/waybill/line.sock, group: waybill-door", nil),
            ("listen: 4396", "proxied.listen: must be HOST:PORT or an absolute path"),
            ("listen: 127.0.0.1:4396", "proxied.from: is missing"),
            ("listen: 127.0.0.1:4396, from: [proxy.example.com]", "proxied.from: proxy.example.com is not an address"),
            ("from: [127.0.0.1]", "proxied.listen: is missing"),
            ("listen: 127.0.0.1:4396, from: [10.0.0.0/8], group: g", "proxied.group: is for a socket"),
            ("listen: 127.0.0.1:4396, from: ['::1'], tls: on", "proxied.tls: needs tls.certificate"),
        ] as [(String, String?)])
    func `a proxied listener names its proxies`(proxied: String, problem: String?) {
        let problems = Self.receiver(proxied).problems.map { $0.text(in: "f") }
        #expect(problems.count == (problem == nil ? 0 : 1), "\(problems)")
        if let problem, let found = problems.first { #expect(found.contains(problem)) }
    }

    @Test func `tokens do not cross a network to proxies in the clear`() throws {
        let open = "listen: 0.0.0.0:4396, from: [10.0.0.0/8]"
        let agents = "  agents: [{name: a, tokens: 'sha256:\(String(repeating: "ab", count: 32))'}]\n"
        let configuration = try #require(Self.receiver(open, agents).receiver)
        #expect(configuration.insecurity?.contains("0.0.0.0 in clear text") == true)
        #expect(try #require(Self.receiver(open).receiver).insecurity == nil, "without tokens nothing is told")
    }
}
