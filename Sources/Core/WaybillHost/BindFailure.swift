internal import NIOCore
internal import WaybillSystem

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Why an address cannot be listened on, for the operator.
package enum BindFailure {
    package static func text(of error: any Error) -> String {
        guard let error = error as? IOError else { return "\(error)" }
        return switch error.errnoCode {
        case EADDRNOTAVAIL: "no interface of this host has this address"
        case EADDRINUSE: "another process listens there (ss -ltnp shows which)"
        case EACCES: "this user may not listen there; ports below 1024 need CAP_NET_BIND_SERVICE"
        default: Errno.message(error.errnoCode)
        }
    }
}
