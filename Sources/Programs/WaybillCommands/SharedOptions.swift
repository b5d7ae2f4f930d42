import ArgumentParser
import WaybillAgent
import WaybillExport
import WaybillHost
import WaybillProtocol
import WaybillReceiver
import WaybillSystem
import WaybillTail

extension CalendarDay: ExpressibleByArgument {
    /// Reads `YYYY-MM-DD`.
    public init?(argument: String) {
        self.init(argument)
    }
}
/// Reads options that need more than a type.
enum OptionReader {
    /// Reads `HOST:PORT`.
    static func address(_ text: String) throws -> NetworkAddress {
        if let address = NetworkAddress(text) { return address }
        let port = text.lastIndex(of: ":").flatMap { Int(text[text.index(after: $0)...]) }
        throw ValidationError(
            port == nil ? "it must be HOST:PORT, as in 127.0.0.1:4390 or [::1]:4390" : "a port is 0 to 65535")
    }

    static func provider(_ name: String) throws -> Destination {
        do {
            return try Destination(named: name)
        } catch {
            throw ValidationError("\(error)")
        }
    }

    /// The export with this name in a configuration file; without a file, a built-in provider with its defaults.
    static func export(_ name: String, config: String?) throws -> ExportOptions {
        guard let config else { return ExportOptions(provider: try self.provider(name)) }
        let exports = try ConfigurationFile.load(config).host?.exports ?? []
        guard let options = exports.first(where: { $0.provider.rawValue == name }) else {
            let names = exports.map(\.provider.rawValue).joined(separator: ", ")
            throw ValidationError("\(config) has no export \"\(name)\"; it has: \(names.isEmpty ? "none" : names)")
        }
        return options
    }

    /// A list such as `ga4,csv`; `none` for an empty one.
    static func exports(_ list: String) throws -> [ExportOptions] {
        if list == "none" { return [] }
        let providers = try list.split(separator: ",").map { try self.provider(String($0)) }
        guard !providers.isEmpty, Set(providers).count == providers.count else {
            throw ValidationError("--exports must name each provider once, or be none")
        }
        return providers.map { ExportOptions(provider: $0) }
    }

    /// - Parameter name: `nil`: each keeps its own.
    static func setZone(_ name: String?, of exports: inout [ExportOptions]) throws {
        guard let zone = try name.map(Self.zone) else { return }
        for index in exports.indices { exports[index].zone = zone }
    }

    static func zone(_ name: String) throws -> TimeZoneRules {
        do {
            return try TimeZoneRules(named: name, from: POSIXFileSystem())
        } catch {
            throw ValidationError("\(error)")
        }
    }

    /// The token that agents must show, which must not be easy to guess.
    static var receiverToken: Secret? {
        get throws {
            let token = self.token
            guard token.map({ $0.revealed.utf8.count >= TokenDigest.tokenByteCountMin }) ?? true else {
                throw ValidationError(
                    "WAYBILL_TOKEN has fewer than \(TokenDigest.tokenByteCountMin) bytes; make one with: waybill token")
            }
            return token
        }
    }

    /// This program and its version, as peers are told.
    static var software: String { "waybill/\(packageVersion)" }

    /// The token in a file; `nil` without a file.
    static func statusToken(_ path: String?) throws -> Secret? {
        guard let path else { return nil }
        do throws(TokenFile.Failure) {
            return try TokenFile(path: path).read(on: POSIXFileSystem())
        } catch {
            throw ValidationError("\(error)")
        }
    }

    /// The token from the environment; an argument would show in the list of processes.
    static var token: Secret? {
        ProcessEnvironment["WAYBILL_TOKEN"].flatMap(Secret.init)
    }
}
