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

    var sources: [AgentSource] {
        switch self {
        case .usual: [Self.spool, Self.logs("/*.log*")]
        case .turned: [Self.logs("/*.log*"), Self.logs("/*.none"), Self.spool]
        case .split: [Self.spool, Self.logs("/*.log", "/*.log.*")]
        case .spoolAlone: [Self.spool]
        case .logsAlone: [Self.logs("/*.log*")]
        }
    }

    private static let spool = AgentSource(
        files: .spool(directory: SimulatedAgent.spool), environment: "prod", bundle: "com.example.shop")

    private static func logs(_ patterns: String...) -> AgentSource {
        AgentSource(
            files: .files(patterns: patterns.map { SimulatedAgent.logs + $0 }), environment: "prod",
            bundle: "com.example.web", timeMember: "time", nameMember: "name")
    }
}
