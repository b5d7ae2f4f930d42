internal import WaybillProtocol
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

/// Two files of one segment's name.
extension Tail {
    /// Whether a segment that is followed gives way to another file of its name.
    ///
    /// One whose place another file has does: a mirror replaces what has grown. So does a copy that ended earlier: sealed at
    /// its end, it would leave the rest to no stream. Only a copy, for another spool may be another user's.
    mutating func givesWay(_ key: StreamKey, to path: String, _ status: FileStatus) -> Bool {
        let file = self.table[key]
        guard file.reach == .path, self.leads(file.path, to: file.identity) else { return true }
        guard case .segment(let id) = file.origin,
            self.notices.complain(path, .duplicateSegment(StreamID(unchecked: id), path: path))
        else { return false }
        return file.phase == .following && status.byteCount > file.byteCount && self.isBeginning(key, of: path)
    }

    /// Whether another file begins with all bytes of a segment.
    private mutating func isBeginning(_ key: StreamKey, of path: String) -> Bool {
        do throws(FileSystemError) {
            guard case .opened(let descriptor) = self.open(key),
                let other = try self.openUntrusted(path, self.table[key])
            else { return false }
            defer { self.files.close(other) }
            let byteCount = try self.files.status(descriptor).byteCount
            var own = [UInt8](repeating: 0, count: min(byteCount, 64 << 10))
            var others = own
            var offset = 0
            while offset < byteCount {
                let count = try self.files.readFully(descriptor, at: offset, into: &own)
                guard count > 0, try self.files.readFully(other, at: offset, into: &others) >= count,
                    own[..<count] == others[..<count]
                else { return false }
                offset += count
            }
            return true
        } catch {
            self.notices.complain(path, .unreadable(path: path, error))
            return false
        }
    }
}
