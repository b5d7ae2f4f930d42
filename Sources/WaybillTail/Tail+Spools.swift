package import WaybillSystem

/// Follows a part of the spools, where a process has too few descriptors to claim all of them.
extension Tail {
    /// The folders with segments that are followed.
    package var spoolsAtWork: Set<PathKey> {
        var folders: Set<PathKey> = []
        for key in self.table.keys where self.table[key].isSegment {
            folders.insert(PathKey(Path.parent(of: self.table[key].path)))
        }
        return folders
    }

    /// Follows the segments in these folders only; `nil`: in all that the sources name.
    ///
    /// Nothing in the others may be on its way. A segment that is set aside keeps its entry in the registry.
    ///
    /// - Returns: the streams that are not followed any more.
    package mutating func follow(spools: Set<PathKey>?) -> [StreamKey] {
        self.allowedSpools = spools
        guard spools != nil else { return [] }
        var setAside: [StreamKey] = []
        for key in self.table.keys where self.table[key].isSegment && self.table[key].reach == .path {
            let file = self.table[key]
            guard self.isLeftToWait(file.path, source: file.source) else { continue }
            self.setAside(key, source: self.sources[file.source].name)
            setAside.append(key)
        }
        return setAside
    }

    /// Whether a path is in a spool that is not followed now.
    func isLeftToWait(_ path: String, source: Int) -> Bool {
        guard let allowedSpools, self.sources[source].isSpool else { return false }
        return !allowedSpools.contains(PathKey(Path.parent(of: path)))
    }
}
