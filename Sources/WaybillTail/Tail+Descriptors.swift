internal import WaybillSystem

/// Opens files, and keeps at most so many open; those that can be opened again are closed first.
extension Tail {
    enum OpenOutcome {
        case opened(FileID)
        /// The path leads elsewhere; the next scan finds out where the file is.
        case lost
        /// Another file has path and inode now, and is followed in this one's place.
        case replaced
        /// Could not be opened now; tried again after the next scan.
        case failed
    }

    /// The descriptor to read from, `nil` when there is none now.
    mutating func openFile(_ key: StreamKey, _ now: TailTime) -> FileID? {
        switch self.open(key) {
        case .opened(let descriptor): return descriptor
        case .replaced, .failed: return nil
        case .lost:
            var lost = [key]
            self.settleLost(&lost, now)
            return nil
        }
    }

    mutating func open(_ key: StreamKey) -> OpenOutcome {
        self.useCount += 1
        if let descriptor = self.table[key].descriptor {
            self.table[key].lastUse = self.useCount
            return .opened(descriptor)
        }
        guard self.table[key].reach == .path, self.makeRoom() else {
            self.waitForScan(key)
            return .failed
        }
        let path = self.table[key].path
        do throws(FileSystemError) {
            let descriptor = try self.files.open(path, .read)
            let status: FileStatus
            do throws(FileSystemError) {
                status = try self.files.status(descriptor)
            } catch {
                self.files.close(descriptor)
                throw error
            }
            return self.opened(key, descriptor, status)
        } catch  where error.errno == Errno.noEntry {
            self.waitForScan(key)
            return .lost
        } catch {
            self.readFailed(key, error)
            return .failed
        }
    }

    /// Opens a file that has unread bytes while there is room, so that nobody can delete them under us.
    mutating func hold(_ key: StreamKey) {
        guard self.table[key].descriptor == nil, self.openKeys.count < self.limits.openFileCountMax else { return }
        // What goes wrong is found out and reported by the read.
        _ = self.open(key)
    }

    private mutating func opened(_ key: StreamKey, _ descriptor: FileID, _ status: FileStatus) -> OpenOutcome {
        guard status.identity == self.table[key].identity else {
            self.files.close(descriptor)
            self.waitForScan(key)
            return .lost
        }
        let birth = self.table[key].birth
        if !self.table[key].isSegment, birth != 0, status.birth != birth {
            self.files.close(descriptor)
            self.replaced(key, by: status)
            return .replaced
        }
        self.table[key].birth = status.birth
        self.table[key].descriptor = descriptor
        self.table[key].lastUse = self.useCount
        self.openKeys.append(key)
        return .opened(descriptor)
    }

    private mutating func waitForScan(_ key: StreamKey) {
        guard !self.table[key].isFaulty else { return }
        self.table[key].isFaulty = true
        self.faulty.append(key)
    }

    mutating func closeDescriptor(_ key: StreamKey) {
        guard let descriptor = self.table[key].descriptor else { return }
        self.table[key].descriptor = nil
        if let index = self.openKeys.firstIndex(of: key) { self.openKeys.swapAt(index, self.openKeys.count - 1) }
        self.openKeys.removeLast()
        self.files.close(descriptor)
    }

    /// Closes the file that was not used for longest, if there are too many; never one whose bytes would be lost.
    private mutating func makeRoom() -> Bool {
        guard self.openKeys.count >= self.limits.openFileCountMax else { return true }
        var victim: StreamKey?
        for key in self.openKeys where self.table[key].isDescriptorSpare {
            if let best = victim, self.table[best].lastUse <= self.table[key].lastUse { continue }
            victim = key
        }
        guard let victim else { return false }
        if self.table[victim].reach == .descriptor {
            self.vanished(victim)
        } else {
            self.closeDescriptor(victim)
        }
        return true
    }
}
