package import WaybillSystem

/// A file system on a ``MemoryDisk``, the disk itself or a process on it, for a test that looks into it.
package protocol MemoryFiles: FileSystem {
    var memory: MemoryDisk { get }
}

extension MemoryFiles {
    /// A file's bytes; `nil` when no file is there.
    package func bytes(of path: String) -> [UInt8]? {
        self.memory.look(at: path) { $0.kind == .regular ? $0.bytes : nil } ?? nil
    }

    /// How many bytes of a file survive a power cut, as long as its name does.
    package func durableByteCount(of path: String) -> Int? { self.memory.look(at: path) { $0.durable.count } }

    package func isLocked(_ path: String) -> Bool { self.memory.look(at: path) { !$0.locks.isEmpty } ?? false }

    /// The names in a directory, sorted.
    package func names(in directory: String) -> [String] {
        self.memory.look(at: directory) { $0.children.map(\.name) } ?? []
    }

    /// Every file at or below `path`, sorted, by its whole path.
    package func files(below path: String) -> [(path: String, bytes: [UInt8])] {
        self.memory.look(at: path) { $0.files(at: path) } ?? []
    }

    /// Every file at or below `path`, by its whole path.
    package func tree(_ path: String) -> [String: [UInt8]] {
        Dictionary(uniqueKeysWithValues: self.files(below: path).map { ($0.path, $0.bytes) })
    }

    /// The whole blocks of a file that are NUL are holes.
    package func seekData(_ file: FileID, from offset: Int) throws(FileSystemError) -> Int? {
        guard let bytes = self.memory.node(of: file)?.bytes, offset < bytes.count else { return nil }
        guard let data = bytes[offset...].firstIndex(where: { $0 != 0 }) else { return nil }
        let block = 4096
        return max(offset, data / block * block)
    }

    /// Gives a file these bytes, as if it had always been there; makes the directories above it.
    package func place(_ path: String, _ bytes: [UInt8]) { self.memory.place(path, bytes) }
}
