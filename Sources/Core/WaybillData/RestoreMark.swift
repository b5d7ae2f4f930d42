package import WaybillSystem

/// The file in the root of a data directory that `waybill restore` is filling; it is created first and removed last.
///
/// What such a directory has is a part of a journal: no one may start on it.
package enum RestoreMark {
    package static let name = "restore.state"

    package static func path(in root: String) -> String { Path.join(root, self.name) }

    /// The names that the file may have, also after a crash in a commit.
    package static var names: [String] { StateImage.suffixes.map { self.name + $0 } }

    package static func isPresent(in root: String, _ files: some FileSystem) throws(FileSystemError) -> Bool {
        for name in self.names where try files.status(at: Path.join(root, name)) != nil { return true }
        return false
    }
}

/// What a restored data directory says to those who send exports: what they had sent is not known.
///
///     state/restored.state      id=<16 hex digits> through=2026-11-25
///
/// - SeeAlso: `Protocol/formats/delivery.md`, section 5.
package struct RestoredDays: Hashable, Sendable {
    /// Of this restore: a decision about an earlier one says nothing about it.
    package let id: String
    /// The last day of which the lost directory may have sent events.
    package let through: CalendarDay

    package init(id: String, through: CalendarDay) {
        (self.id, self.through) = (id, through)
    }

    private static func path(in data: DataDirectory<some FileSystem>) -> String { data.statePath("restored") }

    /// `nil` for a directory that was not restored from a bucket.
    ///
    /// - Throws: also if the file is there and cannot be read: then no one knows what was sent.
    package static func read(in data: DataDirectory<some FileSystem>) throws(FileSystemError) -> RestoredDays? {
        let path = self.path(in: data)
        guard let image = try StateImage.read(path, files: data.files) else { return nil }
        guard let id = image.entries["id"], let through = image.entries["through"].flatMap({ CalendarDay($0) }) else {
            throw FileSystemError(
                "read", path: path, errno: Errno.damaged, detail: "it does not say which days may have been sent")
        }
        return RestoredDays(id: id, through: through)
    }

    package func write(in data: DataDirectory<some FileSystem>) throws(FileSystemError) {
        var state = try StateStore(path: Self.path(in: data), files: data.files)
        try state.commit(["id": self.id, "through": self.through.description])
    }
}
