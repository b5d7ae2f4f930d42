internal import NIOCore
internal import NIOPosix
package import WaybillSystem

/// Describes why a connection failed or ended, using the system's messages.
package enum ConnectionFailure {
    /// Host, port, and the error of each of the host's addresses; identical errors are listed once.
    package static func text(of error: any Error, to address: NetworkAddress) -> String {
        "cannot connect to \(address): \(self.reasons(of: error))"
    }

    /// The errors of each address of a host; identical ones once.
    package static func reasons(of error: any Error) -> String {
        var reasons: [String] = []
        for error in Self.causes(of: error) {
            let reason = Self.reason(of: error)
            if !reasons.contains(reason) { reasons.append(reason) }
        }
        return reasons.joined(separator: ", ")
    }

    private static func causes(of error: any Error) -> [any Error] {
        guard let error = error as? NIOConnectionError else { return [error] }
        if !error.connectionErrors.isEmpty { return error.connectionErrors.map(\.error) }
        let lookup: (any Error)? = error.dnsAError ?? error.dnsAAAAError
        return [lookup ?? error]
    }

    /// The text for one error.
    package static func reason(of error: any Error) -> String {
        switch error {
        case let error as IOError: Errno.message(error.errnoCode)
        case let error as SocketAddressError.UnknownHost: error.errorDescription
        case ChannelError.connectTimeout(let limit): "no answer within \(limit.nanoseconds / 1_000_000_000) s"
        default: "\(error)"
        }
    }
}
