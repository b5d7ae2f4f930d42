/// Why a payload is not what its header says.
package enum InflateError: Error, Hashable, Sendable {
    /// Not zlib, or damaged.
    case corrupt
    /// The stream ends before its end.
    case truncated
    /// It holds more than was declared; how much more is not looked at.
    case tooLong
    /// It holds less than was declared.
    case tooShort(byteCount: Int)
    /// Bytes follow the end of the stream.
    case trailingBytes(byteCount: Int)

    /// A bounded word for metrics and messages.
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
