package import WaybillSystem

extension DataDirectory {
    /// Writes files to the disk once more, and makes their names durable.
    ///
    /// After a failed sync the kernel marks the pages as clean: they can be read until the power fails, and no later sync
    /// writes them. So bytes that no checkpoint vouches for are copied, and the copy takes the file's name.
    ///
    /// - Parameter paths: below the root; missing files are left out.
    package func rewrite(_ paths: some Sequence<String>) throws(FileSystemError) {
        var folders: Set<String> = []
        for path in paths {
            let path = Path.join(self.root, path)
            guard try self.files.status(at: path) != nil else { continue }
            try self.rewrite(path)
            var folder = Path.parent(of: path)
            while folder.utf8.count >= self.root.utf8.count, folders.insert(folder).inserted {
                folder = Path.parent(of: folder)
            }
        }
        for folder in folders.sorted() { try self.files.synchronizeDirectory(folder) }
    }

    private func rewrite(_ path: String) throws(FileSystemError) {
        let temporary = path + ".tmp"
        let source = try self.files.open(path, .read)
        defer { self.files.close(source) }
        do throws(FileSystemError) {
            let copy = try self.files.open(temporary, .replace)
            defer { self.files.close(copy) }
            try self.files.narrow(copy, like: source)
            let byteCount = try self.files.status(source).byteCount
            try self.files.visit(source, 0..<byteCount) { (piece) throws(FileSystemError) in
                try self.files.writeAll(copy, piece)
            }
            try self.files.synchronize(copy)
        } catch {
            // A part of a copy only takes room.
            if try self.files.status(at: temporary) != nil { try self.files.unlink(temporary) }
            throw error
        }
        try self.files.rename(temporary, to: path)
    }
}
