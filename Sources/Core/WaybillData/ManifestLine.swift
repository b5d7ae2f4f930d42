internal import WaybillCompression
internal import WaybillJSON
internal import WaybillSystem

/// The line of a manifest, whose last member is the checksum of all that is before it.
///
///     {"provider":"ga4",…,"gz_sha256":"5f70…","crc32":"0d3c91ab"}
///
/// So a changed byte is found in members, too, that no other file confirms.
package enum ManifestLine {
    private static let start = Array(",\"crc32\":\"".utf8)
    private static let end = Array("\"}\n".utf8)
    private static var digitCount: Int { 8 }

    /// A manifest's line, with its LF.
    ///
    /// - Parameter json: one object, without an LF.
    package static func sealed(_ json: [UInt8]) -> [UInt8] {
        let body = json.dropLast()
        let checksum = Self.checksum(body)
        return body + self.start + Hexadecimal.text(checksum, digitCount: self.digitCount).utf8 + self.end
    }

    /// Whether a line is as it was written; `nil` if an earlier version wrote it, without a checksum.
    package static func isIntact(_ line: [UInt8]) -> Bool? {
        guard let members = JSONValue(line)?.members, let last = members.last else { return false }
        let count = self.start.count + self.digitCount + self.end.count
        guard let value = last.value.string, value.utf8.count == self.digitCount, line.count > count else {
            return last.name == "crc32" ? false : nil
        }
        let body = line.dropLast(count)
        return line.elementsEqual(
            body + self.start + Hexadecimal.text(Self.checksum(body), digitCount: self.digitCount).utf8 + self.end)
    }

    /// What is wrong with the line of a manifest that can be read.
    package static func problems(in line: [UInt8], at path: String) -> [Problem] {
        guard Self.isIntact(line) == false else { return [] }
        return [Problem(.damaged, path, at: 0, byteCount: line.count, "it does not match the checksum in it")]
    }

    /// The problem of bytes that cannot be read as a manifest.
    package static func unreadable(_ bytes: [UInt8], at path: String) -> Problem {
        Problem(.damaged, path, at: 0, byteCount: bytes.count, "it is not a readable manifest")
    }

    private static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.withUnsafeBytes { FrameChecksum.checksum(continuing: 0, $0) }
    }
}
