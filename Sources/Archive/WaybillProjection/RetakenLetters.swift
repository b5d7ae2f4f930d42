package import WaybillData
package import WaybillSystem

/// The refused events of a day that were exported after all, by `waybill replay --refused`: `dead/retaken` in the day's
/// folder has one line for each.
///
///     5f1c0d…e2\n      the digest of the dead letter's line, 32 hexadecimal digits
///
/// The checkpoint that has the records of the events has the length of this file, so each event is in both or in neither.
package struct RetakenLetters: Hashable, Sendable {
    private var digests: Set<Digest128> = []

    package static let fileName = "retaken"

    /// Reads the file of a partition; other lines are left out.
    ///
    /// - Parameter lengths: the certain lengths of the export's files, by path.
    package init(
        of partition: String, root: String, lengths: [String: Int], files: some FileSystem
    ) throws(FileSystemError) {
        let path = Self.path(in: partition)
        guard let byteCount = lengths[path], byteCount > 0, try files.status(at: Path.join(root, path)) != nil else {
            return
        }
        var reader = try LineReader(
            path: Path.join(root, path), byteCount: byteCount, lineByteCountMax: 64, files: files)
        while let line = try reader.next() {
            if let digest = Digest128(text: line.bytes) { self.digests.insert(digest) }
        }
    }

    package static func path(in partition: String) -> String { "\(partition)/dead/\(Self.fileName)" }

    /// The digest of a dead letter whose event was exported after all; `nil` for any other.
    ///
    /// - Parameter letter: its line, without the line feed.
    package func digest(ofTaken letter: UnsafeRawBufferPointer) -> Digest128? {
        guard !self.digests.isEmpty else { return nil }
        let digest = Self.digest(of: letter)
        return self.digests.contains(digest) ? digest : nil
    }

    package func contains(_ digest: Digest128) -> Bool { self.digests.contains(digest) }

    package static func digest(of letter: UnsafeRawBufferPointer) -> Digest128 {
        Digest128([letter])
    }

    package static func line(of digest: Digest128) -> [UInt8] {
        Array(digest.text.utf8) + [0x0A]
    }

    /// Says what is wrong with a file of digests, up to so many lines.
    ///
    /// - Parameters:
    ///   - path: below `root`.
    ///   - letters: the digests of the day's letters that are in the file; `nil`: some letters are deleted.
    package static func verify(
        _ path: String, upTo byteCount: Int, letters: Set<Digest128>?, root: String, files: some FileSystem
    ) throws(FileSystemError) -> [Problem] {
        var problems: [Problem] = []
        var digests: Set<Digest128> = []
        var reader = try LineReader(
            path: Path.join(root, path), byteCount: byteCount, lineByteCountMax: 64, files: files)
        while problems.count < Self.problemCountMax, let line = try reader.next() {
            let digest = Digest128(text: line.bytes)
            let isNew = digest.map { digests.insert($0).inserted } ?? false
            let text: String? =
                if digest == nil {
                    "the line is not the digest of a dead letter"
                } else if !isNew {
                    "the line is there twice"
                } else if let digest, let letters, !letters.contains(digest) {
                    "no dead letter of the day has this digest"
                } else { nil }
            guard let text else { continue }
            problems.append(
                Problem(.damaged, path, at: line.range.lowerBound, byteCount: line.range.count, text))
        }
        return problems
    }

    private static var problemCountMax: Int { 100 }
}
