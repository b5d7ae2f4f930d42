/// The state after all complete commits in a file.
package struct StateImage: Sendable {
    package private(set) var entries: [String: String] = [:]
    /// The length of the complete commits.
    package private(set) var validByteCount = 0

    /// The suffixes that a state's file may have, in order of preference: a process may have died during a rewrite.
    package static let suffixes = ["", ".tmp", ".previous"]

    package static func paths(_ path: String) -> [String] {
        self.suffixes.map { path + $0 }
    }

    /// Reads the state at `path` like a ``StateStore``, but changes nothing; `nil` when there is none.
    package static func read(_ path: String, files: some FileSystem) throws(FileSystemError) -> StateImage? {
        for candidate in self.paths(path) {
            guard let bytes = try files.contents(of: candidate, byteCountMax: 1 << 30) else { continue }
            if let image = StateImage(bytes: bytes) { return image }
        }
        return nil
    }

    /// Reads complete commits up to the first torn or damaged one; `nil` when the head or the first commit is invalid.
    package init?(bytes: [UInt8], head: String = "waybill-state 1\n") {
        guard bytes.starts(with: head.utf8) else { return nil }
        var start = head.utf8.count
        var position = start
        var pending: [(key: String, value: String?)] = []
        var commitCount = 0
        scan: while let end = bytes[position...].firstIndex(of: 0x0A) {
            let line = bytes[position..<end]
            guard line.count >= 3, line[position + 1] == 0x20 else { break scan }
            let body = line.dropFirst(2)
            switch line[position] {
            case UInt8(ascii: "+"):
                guard let space = body.firstIndex(of: 0x20) else { break scan }
                pending.append(
                    (
                        String(decoding: body[..<space], as: UTF8.self),
                        String(decoding: body[(space + 1)...], as: UTF8.self)
                    ))
            case UInt8(ascii: "-"):
                pending.append((String(decoding: body, as: UTF8.self), nil))
            case UInt8(ascii: "="):
                let checksum = CRC32.checksum(of: bytes[start..<position])
                let expected = "\(pending.count) \(Hexadecimal.text(checksum, digitCount: 8))"
                guard body.elementsEqual(expected.utf8) else { break scan }
                for (key, value) in pending { self.entries[key] = value }
                pending.removeAll(keepingCapacity: true)
                start = end + 1
                self.validByteCount = start
                commitCount += 1
            default:
                break scan
            }
            position = end + 1
        }
        if commitCount == 0 { return nil }
    }
}
