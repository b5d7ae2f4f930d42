package import WaybillSystem

extension MemoryDisk {
    package func realPath(of path: String) throws(FileSystemError) -> String? {
        self.mutex.withLock { _ in self.real(path) }
    }

    private func real(_ path: String) -> String? {
        var node = self.root
        var real = ""
        for component in path.split(separator: "/") {
            guard let next = node.names[String(component)] else { return nil }
            real += "/" + component
            node = next
            guard let target = next.target else { continue }
            guard let aim = self.find(target), let found = self.real(target) else { return nil }
            node = aim
            real = found
        }
        return real
    }

    /// Gives a file or folder, or a link itself, an owner, a group and permissions.
    package func own(_ path: String, by owner: UInt32, _ group: UInt32 = 0, permissions: UInt16) {
        self.mutex.withLock { _ in
            guard let node = self.find(Path.parent(of: path))?.names[Path.name(of: path)] else {
                preconditionFailure("nothing is at \(path)")
            }
            (node.owner, node.group, node.permissions) = (owner, group, permissions)
        }
    }
}
