internal import NIOCore
internal import NIOPosix
package import WaybillProtocol
package import WaybillSystem

/// Describes why a connection failed or ended, using the system's messages.
package enum ConnectionFailure {
    /// Host, port, and the error of each of the host's addresses; identical errors are listed once.
    package static func text(of error: any Error, to address: NetworkAddress) -> String {
        var reasons: [String] = []
        for error in Self.causes(of: error) {
            let reason = Self.reason(of: error)
            if !reasons.contains(reason) { reasons.append(reason) }
        }
        return "cannot connect to \(address): \(reasons.joined(separator: ", "))"
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

extension SenderSession.Failure {
    /// What it means for the next attempt.
    var cause: Reconnection.Cause {
        switch self {
        case .refused(.token, _), .refused(.version, _): .hopeless
        case .receiverLeft: .broken
        case .refused, .ackOutOfRange, .unexpected, .unknownStream, .version, .wire: .refused
        }
    }

    /// For the operator.
    package var text: String {
        switch self {
        case .refused(let code, let text): "the receiver refuses: \(text) (\(code.rawValue))"
        case .receiverLeft: "the receiver is stopping"
        case .ackOutOfRange(let stream, let offset):
            "the receiver acknowledged byte \(offset.rawValue) of stream \(stream.rawValue), which was not sent"
        case .unexpected(let text): "protocol violation: \(text)"
        case .unknownStream(let stream): "protocol violation: stream \(stream.rawValue) was not opened"
        case .version(let version): "the receiver chose version \(version), which this agent does not speak"
        case .wire(let error): "protocol violation: \(error.text)"
        }
    }
}
