package import WaybillSystem

/// Keeps the files that a start cannot use, instead of deleting them.
///
///     data/set-aside/archive/env=prod/bundle=…/date=…/part-00001.ndjson.1         a whole file or folder
///                                                 part-00001.ndjson@4096.1     a file's content from that offset on
package struct SetAside<Files: FileSystem> {
    private let root: String
    private let files: Files

    /// The folder's name below the data directory.
    package static var folder: String { "set-aside" }

    package init(root: String, files: Files) {
        self.root = root
        self.files = files
    }

    /// Moves a file or folder.
    ///
    /// - Parameter path: below the root.
    /// - Returns: its new path below the root.
    package func move(_ path: String) throws(FileSystemError) -> String {
        let target = try self.unused(path)
        try self.files.rename(Path.join(self.root, path), to: Path.join(self.root, target))
        try self.files.synchronizeDirectory(Path.parent(of: Path.join(self.root, target)))
        return target
    }

    /// Copies a file's content from `offset` on.
    ///
    /// - Returns: its new path below the root.
    package func copyTail(of path: String, from offset: Int) throws(FileSystemError) -> String {
        let target = try self.unused("\(path)@\(offset)")
        let source = try self.files.open(Path.join(self.root, path), .read)
        defer { self.files.close(source) }
        let copy = try self.files.open(Path.join(self.root, target), .appendNew)
        defer { self.files.close(copy) }
        try self.files.narrow(copy, like: source)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var position = offset
        while true {
            let count = try self.files.readFully(source, at: position, into: buffer)
            if count == 0 { break }
            try self.files.writeAll(copy, UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            position += count
        }
        try self.files.synchronize(copy)
        try self.files.synchronizeDirectory(Path.parent(of: Path.join(self.root, target)))
        return target
    }

    private func unused(_ path: String) throws(FileSystemError) -> String {
        let target = Path.join(Self.folder, path)
        try self.files.createDirectories(Path.parent(of: Path.join(self.root, target)))
        var number = 1
        while try self.files.status(at: Path.join(self.root, "\(target).\(number)")) != nil { number += 1 }
        return "\(target).\(number)"
    }
}
