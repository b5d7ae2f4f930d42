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
}
