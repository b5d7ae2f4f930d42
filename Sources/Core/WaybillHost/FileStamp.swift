package import WaybillSystem

/// What changes when a file is written or replaced.
package struct FileStamp: Hashable, Sendable {
    package let path: String
    private let identity: FileIdentity?
    private let byteCount: Int
    private let modified: Int64

    /// The stamp of a file that is there, or of one that is missing or cannot be looked at.
    package init(_ path: String, on files: some FileSystem) {
        self.path = path
        var status: FileStatus?
        do throws(FileSystemError) {
            status = try files.status(at: path)
        } catch {
            // It cannot be read either; reading says why.
            status = nil
        }
        self.identity = status?.identity
        self.byteCount = status?.byteCount ?? 0
        self.modified = status?.modified ?? 0
    }
}
