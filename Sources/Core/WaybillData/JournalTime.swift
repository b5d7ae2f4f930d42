package import WaybillSystem

/// The last time of receipt that a journal has; reads while a receiver writes.
package enum JournalTime {
    /// - Returns: `nil` if the last segment has none, or if there is no journal.
    package static func last(in directory: String, files: some FileSystem) throws(FileSystemError) -> WallTime? {
        guard try files.status(at: directory)?.kind == .directory,
            let segment = try JournalPath.segments(in: directory, files).last,
            let status = try files.status(at: JournalPath.segment(segment, in: directory))
        else { return nil }
        var scanner = try SegmentScanner(
            segment: segment, in: directory, limit: JournalPosition(segment.rawValue + status.byteCount), files: files)
        return try scanner.lastTime()
    }
}
