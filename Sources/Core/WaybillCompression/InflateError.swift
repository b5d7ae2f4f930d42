/// Why a payload does not match its header.
package enum InflateError: Error, Hashable, Sendable {
    /// The payload is not zlib, or is damaged.
    case corrupt
    /// The stream is truncated.
    case truncated
    /// The stream inflates to more than declared; how much more is not checked.
    case tooLong
    /// The stream inflates to less than declared.
    case tooShort(byteCount: Int)
    /// Bytes follow the end of the stream.
    case trailingBytes(byteCount: Int)

    /// A name from a closed set, for metrics and messages.
    package var code: String {
        switch self {
        case .corrupt: "payload-corrupt"
        case .truncated: "payload-truncated"
        case .tooLong: "payload-too-long"
        case .tooShort: "payload-too-short"
        case .trailingBytes: "payload-trailing-bytes"
        }
    }
}
