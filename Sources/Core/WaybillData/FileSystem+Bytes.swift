package import WaybillSystem

extension FileSystem {
    /// Bytes of an open file; fewer at its end.
    package func bytes(of file: FileID, at offset: Int, count: Int) throws(FileSystemError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let found = try self.readFully(file, at: offset, into: &bytes)
        bytes.removeLast(count - found)
        return bytes
    }
}
