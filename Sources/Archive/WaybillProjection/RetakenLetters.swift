package import WaybillData
package import WaybillSystem

/// The refused events of a day that were exported after all, by `waybill replay --refused`: `dead/retaken` in the day's
/// folder has one line for each.
///
///     5f1c0d…e2\n      the digest of the dead letter's line, 32 hexadecimal digits
///
/// The checkpoint that has the records of the events has the length of this file, so each event is in both or in neither.
package struct RetakenLetters: Hashable, Sendable {
    private var digests: Set<Digest128>

    package static let fileName = "retaken"

    package static var none: RetakenLetters { RetakenLetters(digests: []) }

    private init(digests: Set<Digest128>) {
        self.digests = digests
    }

    /// Reads the file of a partition; what is no digest is left out.
    ///
    /// - Parameter lengths: the certain lengths of the export's files, by path.
    package init(
        of partition: String, root: String, lengths: [String: Int], files: some FileSystem
    ) throws(FileSystemError) {
        self.digests = []
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

    package var isEmpty: Bool { self.digests.isEmpty }

    /// Whether the event of a dead letter was exported after all.
    ///
    /// - Parameter letter: its line, without the line feed.
    package func contains(_ letter: UnsafeRawBufferPointer) -> Bool {
        !self.digests.isEmpty && self.digests.contains(Self.digest(of: letter))
    }

    package func contains(_ digest: Digest128) -> Bool { self.digests.contains(digest) }

    package static func digest(of letter: UnsafeRawBufferPointer) -> Digest128 {
        Digest128([letter])
    }

    package static func line(of digest: Digest128) -> [UInt8] {
        Array(digest.text.utf8) + [0x0A]
    }
}
