package import WaybillSystem

/// Reads the state of spool folders and segments; keeps no file open.
package enum SpoolReader {
    /// The segments in a folder, sorted; other names are ignored.
    package static func segments(
        in directory: String, on files: some FileSystem
    ) throws(FileSystemError) -> [SegmentName] {
        try files.list(directory).compactMap(SegmentName.init(parsing:)).sorted()
    }

    /// Bytes after the last LF among a file's first `byteCount`: the torn last line of a writer that died.
    package static func tornByteCount(
        of file: FileID, byteCount: Int, on files: some FileSystem
    ) throws(FileSystemError) -> Int {
        var end = byteCount
        var chunk = [UInt8](repeating: 0, count: min(64 << 10, max(1, byteCount)))
        while end > 0 {
            let start = max(0, end - chunk.count)
            let filled = try self.read(file, start..<end, into: &chunk, on: files)
            if let last = chunk[..<filled].lastIndex(of: UInt8(ascii: "\n")) {
                return byteCount - (start + last + 1)
            }
            end = start
        }
        return byteCount
    }

    private static func read(
        _ file: FileID, _ range: Range<Int>, into chunk: inout [UInt8], on files: some FileSystem
    ) throws(FileSystemError) -> Int {
        try chunk.withMutableBytes { (buffer) throws(FileSystemError) in
            try files.readFully(
                file, at: range.lowerBound, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<range.count]))
        }
    }
}
