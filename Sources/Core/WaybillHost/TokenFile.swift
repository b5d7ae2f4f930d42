package import WaybillSystem

/// A file with a token: the one that an agent shows, read at each connection, or the one that `GET /status` asks for.
package struct TokenFile: Hashable, Sendable {
    /// Shorter tokens could be guessed.
    package static let byteCountMin = 16
    package static let byteCountMax = 4096

    package let path: String

    package init(path: String) {
        self.path = path
    }

    /// Why a token cannot be used; never contains it.
    package enum Failure: Error, Hashable, Sendable, CustomStringConvertible {
        case missing(path: String)
        case unreadable(FileSystemError)
        case tooShort(source: String)
        case tooLong(source: String)
        case notText(source: String)

        package var description: String {
            switch self {
            case .missing(let path): "there is no token file \(path); make one: (umask 077; waybill token > \(path))"
            case .unreadable(let error): "the token cannot be read: \(error)"
            case .tooShort(let source):
                "the token in \(source) has fewer than \(TokenFile.byteCountMin) bytes; make one with: waybill token"
            case .tooLong(let source): "\(source) has more than \(TokenFile.byteCountMax) bytes and is not a token"
            case .notText(let source):
                "the token in \(source) has spaces or control characters; it must be one line of printable ASCII"
            }
        }
    }

    package func read(on files: some FileSystem) throws(Failure) -> Secret {
        let bytes: [UInt8]?
        do throws(FileSystemError) {
            bytes = try files.contents(of: self.path, byteCountMax: Self.byteCountMax + 2)
        } catch {
            throw .unreadable(error)
        }
        guard let bytes else { throw .missing(path: self.path) }
        return try Self.token(in: bytes, of: self.path)
    }

    /// The token in a text, which may end in line breaks.
    ///
    /// - Parameter source: names the text in errors.
    package static func token(in bytes: [UInt8], of source: String) throws(Failure) -> Secret {
        var bytes = bytes[...]
        while bytes.last == UInt8(ascii: "\n") || bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        guard bytes.count <= Self.byteCountMax else { throw .tooLong(source: source) }
        guard bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else { throw .notText(source: source) }
        guard bytes.count >= Self.byteCountMin, let token = Secret(String(decoding: bytes, as: UTF8.self)) else {
            throw .tooShort(source: source)
        }
        return token
    }
}
