package import WaybillSystem

/// How long a spool's writer wants shipped segments to stay in the spool, so that it can read them again.
///
///     <spool>/keep.json     {"seconds":600}
///
/// The agent keeps them for at least so long. The file is read strictly: who may write to the folder can ask for a day
/// at most, and for nothing else.
///
/// - SeeAlso: `Protocol/formats/spool.md`, section 8.
package struct KeepRequest: Hashable, Sendable {
    package static let name = "keep.json"
    /// A longer file is not a request.
    package static let byteCountMax = 64
    package static let durationMax = Duration.seconds(86_400)

    private static let head = "{\"seconds\":"
    private static let tail = "}\n"

    /// In whole seconds, at most ``durationMax``.
    package let duration: Duration

    package init(_ duration: Duration) {
        self.duration = .seconds(min(max(.zero, duration), Self.durationMax).components.seconds)
    }

    /// `nil` for any other bytes.
    package init?(parsing bytes: [UInt8]) {
        let (head, tail) = (Array(Self.head.utf8), Array(Self.tail.utf8))
        guard bytes.count <= Self.byteCountMax, bytes.count > head.count + tail.count, bytes.starts(with: head),
            bytes.suffix(tail.count).elementsEqual(tail)
        else { return nil }
        let digits = bytes[head.count..<(bytes.count - tail.count)]
        guard digits.count <= 9, digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let seconds = Int(String(decoding: digits, as: UTF8.self))
        else { return nil }
        self.init(.seconds(seconds))
    }

    /// What the file holds.
    package var bytes: [UInt8] {
        Array("\(Self.head)\(self.duration.components.seconds)\(Self.tail)".utf8)
    }

    /// Leaves the request in a spool's folder; when this returns, it is durable.
    package func write(to directory: String, on files: some FileSystem) throws(FileSystemError) {
        let path = Path.join(directory, Self.name)
        let kind = try files.status(ofEntry: path)?.kind
        let present = try kind == .regular ? files.contents(of: path, byteCountMax: Self.byteCountMax + 1) : nil
        guard present != self.bytes else {
            // The process that wrote it may have died before its name was durable.
            return try files.synchronizeDirectory(directory)
        }
        try files.replace(path, with: self.bytes)
    }
}
