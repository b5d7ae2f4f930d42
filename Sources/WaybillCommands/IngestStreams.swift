import WaybillIngest
import WaybillMetrics
import WaybillReceiver
import WaybillSystem
import WaybillTLS
import WaybillTail

extension ConfigurationTable {
    @KeyList<DoorConfiguration> static var ingestStreams: [ConfigurationKey<DoorConfiguration>] {
        ConfigurationKey(
            "receiver", in: "streams", .address, optional: \.streams.receiver,
            example: "collector.example.com:\(UsualPort.receiver)",
            "Take streams of Waybill's own clients (`/v1/streams`), and forward each request to this receiver.")
        ConfigurationKey(
            "agent", in: "streams", .text(rule: AgentName.rule, isValid: { AgentName($0) != nil }), \.streams.agent,
            default: "the host's name", example: "door-1",
            "The door's name at the receiver; each of its connections adds a number.")
        ConfigurationKey(
            "token_file", in: "streams", .file, optional: \.streams.tokenFile, default: "required with `receiver`",
            example: "door.token", "The file with the door's own token; its principal has `may_forward: true`.")
        ConfigurationKey(
            "agents_file", in: "streams", .file, optional: \.streams.agentsFile, default: "required with `receiver`",
            example: "agents.yaml",
            "The clients that are let in: the receiver's `agents_file`. Clients show a token of it, or a device's key.")
        ConfigurationKey("tls", in: "streams", .flag, \.streams.usesTLS, "Use TLS to the receiver.")
        ConfigurationKey(
            "ca", in: "streams", .file, optional: \.streams.authorities, default: "the system's authorities",
            example: "ca.pem", "Use TLS to the receiver, and trust only these authorities (PEM).")
        ConfigurationKey(
            "connections", in: "streams", .integer(1...256), \.streams.connectionCountMax,
            "Connections to the receiver; each carries one request at a time.")
        ConfigurationKey(
            "answer_seconds", in: "streams", .duration(1...300, unit: .seconds(1)), \.streams.answerDuration,
            unit: "seconds",
            "How long a request may wait for the receiver; beyond it clients are asked to repeat (503).")
        ConfigurationKey(
            "insecure", in: "streams", .flag, \.streams.isInsecure,
            "Take tokens without TLS at an address that other machines reach.")
    }
}

extension ConfigurationFile {
    /// What the door needs to forward streams; `nil` if it takes none.
    static func streams(
        _ ingest: DoorConfiguration, _ section: inout ConfigurationSection
    ) -> StreamsConfiguration? {
        let streams = ingest.streams
        guard let receiver = streams.receiver else {
            if streams.agentsFile != nil || streams.tokenFile != nil {
                section.complain("streams.receiver", "is missing: name the receiver that streams are forwarded to")
            }
            return nil
        }
        if ingest.shareByteCountMax < StreamsConfiguration.bodyByteCountMax {
            section.complain("address_mib", "has no room for one batch of a stream; make it larger")
        }
        var configuration = StreamsConfiguration(receiver: receiver, agent: streams.agent)
        guard let agentsFile = streams.agentsFile else {
            section.complain("streams.agents_file", "is missing: name the receiver's list of agents")
            return nil
        }
        guard let tokenFile = streams.tokenFile else {
            section.complain("streams.token_file", "is missing: the receiver lets nobody forward without a token")
            return nil
        }
        if ingest.certificate == nil, !streams.isInsecure, !LocalRequest.isLoopbackName(ingest.listen.host) {
            section.complain(
                "streams.insecure",
                "clients' tokens would be in the clear: set tls, listen on a loopback address, or set it on")
        }
        configuration.tokenFile = tokenFile
        configuration.connectionCountMax = streams.connectionCountMax
        configuration.answerDuration = streams.answerDuration
        if streams.usesTLS || streams.authorities != nil {
            configuration.tls = TLSClientConfiguration(authorities: streams.authorities)
        }
        let (list, problems) = Self.agents(inFile: agentsFile, requiresCertificates: nil)
        section.add(problems)
        configuration.agents = list?.principals ?? []
        configuration.agentsFiles = list?.files ?? []
        configuration.readAgents = {
            let (list, problems) = Self.agents(inFile: agentsFile, requiresCertificates: nil)
            guard let list, problems.isEmpty else { return .unusable(problems.map { $0.text(in: agentsFile) }) }
            return .read(list.principals, files: list.files)
        }
        return configuration
    }
}
