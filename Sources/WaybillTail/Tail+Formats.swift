internal import WaybillSystem

/// Recognises foreign files that are no NDJSON when they are first read, and leaves out those that have no lines at all.
extension Tail {
    /// Judges the head of a file whose stream is not known yet; one without lines is refused and forgotten.
    mutating func isSuitable(
        _ key: StreamKey, _ descriptor: FileID, _ head: UnsafeRawBufferPointer
    ) throws(FileSystemError) -> Bool {
        guard let format = ForeignFormat(head: head) else { return true }
        let path = self.table[key].path
        guard format == .compressed else {
            self.notices.recognized(format, of: path)
            return true
        }
        self.leftOut.insert(try self.files.status(descriptor), inScan: self.scanCount)
        self.notices.refuseCompressed(path)
        self.forget(key)
        return false
    }
}
