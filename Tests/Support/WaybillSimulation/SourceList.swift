internal import WaybillAgent
internal import WaybillTail

/// What the configuration file of a simulated agent names.
enum SourceList: CaseIterable, Sendable {
    /// The spool and the logs.
    case usual
    /// The same in another order, and one without files between them.
    case turned
    /// The logs by two patterns in place of one.
    case split
    /// Without the logs, or without the spool.
    case spoolAlone, logsAlone

    func sources(spool directory: String) -> [AgentSource] {
        let spool = AgentSource(
            files: .spool(directory: directory), environment: "prod", bundle: "com.example.shop")
        return switch self {
        case .usual: [spool, Self.logs("/*.log*")]
        case .turned: [Self.logs("/*.log*"), Self.logs("/*.none"), spool]
        case .split: [spool, Self.logs("/*.log", "/*.log.*")]
        case .spoolAlone: [spool]
        case .logsAlone: [Self.logs("/*.log*")]
        }
    }

    /// Logs behind links: the one is what a kubelet makes, the other two are an operator's.
    static var linked: AgentSource {
        var source = Self.logs("/containers/*.log", "/current/*.log", "/pinned.log", below: SimulatedAgent.links)
        source.followsLinks = true
        return source
    }

    private static func logs(_ patterns: String..., below folder: String = SimulatedAgent.logs) -> AgentSource {
        AgentSource(
            files: .files(patterns: patterns.map { folder + $0 }), environment: "prod",
            bundle: "com.example.web", timeMember: "time", nameMember: "name")
    }
}
