internal import NIOSSL

/// BoringSSL's name for an error, such as `CERTIFICATE_VERIFY_FAILED`.
///
///     "Error: 268435581 error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED at <file>:<line>"
///
/// NIOSSL does not expose the number; the rest of the text does not help an operator.
enum BoringSSLReason {
    /// The names, separated by commas; empty for an error from elsewhere.
    static func list(of error: any Error) -> String {
        switch error {
        case NIOSSLError.handshakeFailed(let error), NIOSSLError.shutdownFailed(let error): Self.list(error)
        case let error as BoringSSLError: Self.list(error)
        case let error as NIOSSLError: "\(error)"
        default: ""
        }
    }

    private static func list(_ error: BoringSSLError) -> String {
        switch error {
        case .sslError(let stack), .unknownError(let stack), .invalidSNIName(let stack), .failedToSetALPN(let stack):
            stack.map { Self.words("\($0)") }.joined(separator: ", ")
        case .noError, .zeroReturn, .wantRead, .wantWrite, .wantConnect, .wantAccept, .wantX509Lookup,
            .wantCertificateVerify, .syscallError:
            "\(error)"
        }
    }

    private static func words(_ text: String) -> String {
        let parts = text.split(separator: "OPENSSL_internal:", maxSplits: 1)
        if parts.count == 2 { return String(parts[1].prefix { $0 != " " }) }
        return text.hasPrefix("Error:") ? String(text.dropFirst(6).drop { $0 == " " }) : text
    }
}
