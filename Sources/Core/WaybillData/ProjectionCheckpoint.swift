package import WaybillSystem

/// What the checkpoint of a projection says: how far it has read the journal, and how long its files are for certain.
///
/// Read without changing anything, for a data directory in use.
package struct ProjectionCheckpoint: Sendable {
    /// Below the data directory.
    package let path: String
    package let position: JournalPosition
    package let entries: [String: String]
    /// By path below the data directory; see ``FileSet``.
    package let lengths: [String: Int]

    /// Verifies the bytes of a checkpoint.
    ///
    /// - Returns: the last complete commit, `nil` if it has none or does not say how far it is; and what is wrong.
    package static func verify(
        _ bytes: [UInt8], at path: String
    ) -> (checkpoint: ProjectionCheckpoint?, problems: [Problem]) {
        guard let image = StateImage(bytes: bytes) else {
            return (nil, [Problem(.damaged, path, at: 0, byteCount: bytes.count, "it has no complete commit")])
        }
        var problems: [Problem] = []
        if image.validByteCount < bytes.count {
            problems.append(
                Problem(
                    .damaged, path, at: image.validByteCount, byteCount: bytes.count - image.validByteCount,
                    "the last commit is incomplete; a start uses the state before it"))
        }
        guard let position = image.entries["position"].flatMap({ Int($0) }) else {
            return (nil, problems + [Problem(.damaged, path, "it has no position in the journal")])
        }
        var lengths: [String: Int] = [:]
        let prefix = FileSet<POSIXFileSystem>.keyPrefix
        for (key, value) in image.entries where key.hasPrefix(prefix) {
            let file = String(key.dropFirst(prefix.utf8.count))
            let length = Int(value) ?? -1
            if length < 0 { problems.append(Problem(.damaged, path, "it has no length for \(file)")) }
            lengths[file] = max(0, length)
        }
        let checkpoint = ProjectionCheckpoint(
            path: path, position: JournalPosition(position), entries: image.entries, lengths: lengths)
        return (checkpoint, problems)
    }
}

extension StateImage {
    /// What is wrong with the bytes of a state that is not a projection's; `nil` if all of its commits are whole.
    package static func problem(in bytes: [UInt8], at path: String) -> Problem? {
        let valid = StateImage(bytes: bytes)?.validByteCount ?? 0
        guard valid < bytes.count else { return nil }
        return Problem(
            .damaged, path, at: valid, byteCount: bytes.count - valid,
            valid == 0 ? "it has no complete commit" : "a commit is torn or its checksum does not match")
    }
}
