package import WaybillSystem

extension FileSystem {
    /// Bytes of an open file; fewer at its end.
    package func bytes(of file: FileID, at offset: Int, count: Int) throws(FileSystemError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let found = try self.readFully(file, at: offset, into: &bytes)
        bytes.removeLast(count - found)
        return bytes
    }

    /// Bytes of a file; fewer at its end.
    package func bytes(at path: String, offset: Int, count: Int) throws(FileSystemError) -> [UInt8] {
        let file = try self.open(path, .read)
        defer { self.close(file) }
        return try self.bytes(of: file, at: offset, count: count)
    }

    /// Reads a range of a file piece by piece; stops early at the end of the file.
    package func visit(
        _ file: FileID, _ range: Range<Int>, _ body: (UnsafeRawBufferPointer) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var position = range.lowerBound
        while position < range.upperBound {
            let wanted = min(buffer.count, range.upperBound - position)
            let count = try self.readFully(
                file, at: position, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]))
            if count == 0 { return }
            try body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            position += count
        }
    }

    /// Whether a file has all bytes of a range, the last of which ends a line, and no NUL where there can be none.
    ///
    /// After a power cut, bytes that were not synced are missing, NULs, or any others.
    package func hasLines(
        at path: String, in range: Range<Int>, mayHaveNULs: Bool
    ) throws(FileSystemError) -> Bool {
        let file = try self.open(path, .read)
        defer { self.close(file) }
        var end = range.lowerBound
        var (isTorn, lastByte) = (false, UInt8(0))
        try self.visit(file, range) { (piece) throws(FileSystemError) in
            end += piece.count
            lastByte = piece.last ?? lastByte
            if !mayHaveNULs, piece.contains(0) { isTorn = true }
        }
        return !isTorn && end == range.upperBound && lastByte == 0x0A
    }

    /// The end of the last whole line in a file's first `end` bytes.
    package func lineEnd(of path: String, upTo end: Int) throws(FileSystemError) -> Int {
        guard end > 0, try self.status(at: path) != nil else { return 0 }
        let file = try self.open(path, .read)
        defer { self.close(file) }
        var upper = end
        while upper > 0 {
            let lower = max(0, upper - (256 << 10))
            var found: Int?
            var position = lower
            try self.visit(file, lower..<upper) { (piece) throws(FileSystemError) in
                if let last = piece.lastIndex(of: 0x0A) { found = position + last + 1 }
                position += piece.count
            }
            if let found { return found }
            upper = lower
        }
        return 0
    }
}
