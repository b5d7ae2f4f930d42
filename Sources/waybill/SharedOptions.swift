public import ArgumentParser
public import Logging
import WaybillAgent
import WaybillExport
import WaybillProtocol
import WaybillSystem
import WaybillTail

/// How much a service tells.
struct LogOptions: ParsableArguments {
    @Option(help: "How much to log: debug, info, notice, warning or error.")
    var logLevel: Logger.Level = .info
}

extension Logger.Level: @retroactive ExpressibleByArgument {}
extension CalendarDay: ExpressibleByArgument {
    /// Reads `YYYY-MM-DD`.
    public init?(argument: String) {
        self.init(argument)
    }
}
extension DeploymentEnvironment: ExpressibleByArgument {}
extension NetworkAddress: ExpressibleByArgument {
    /// Reads `HOST:PORT`.
    public init?(argument: String) {
        self.init(argument)
    }
}

/// Reads options that need more than a type.
enum OptionReader {
    static func provider(_ name: String) throws -> ProviderID {
        do {
            return try ProviderID(named: name)
        } catch {
            throw ValidationError("\(error)")
        }
    }

    /// A list such as `ga4,csv`; `none` for an empty one.
    static func providers(_ list: String) throws -> [ProviderID] {
        if list == "none" { return [] }
        let providers = try list.split(separator: ",").map { try self.provider(String($0)) }
        guard !providers.isEmpty, Set(providers).count == providers.count else {
            throw ValidationError("--exports names each provider once, or is none")
        }
        return providers
    }

    static func zone(_ name: String) throws -> TimeZoneRules {
        do {
            return try TimeZoneRules(named: name, from: POSIXFileSystem())
        } catch {
            throw ValidationError("\(error)")
        }
    }

    /// The token from the environment; an argument would show in the list of processes.
    static var token: Secret? {
        ProcessEnvironment["WAYBILL_TOKEN"].flatMap(Secret.init)
    }
}
