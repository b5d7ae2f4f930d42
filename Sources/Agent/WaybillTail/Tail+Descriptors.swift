internal import WaybillSystem

/// Opens files and limits the number of open ones; files that can be reopened are closed first.
extension Tail {
    enum OpenOutcome {
        case opened(FileID)
        /// The path leads to another file; the next scan finds this one.
        case lost
        /// Another file has this path and inode now, and is followed instead.
        case replaced
        /// No descriptor is free for it; retried after the next scan.
        case noRoom
        /// The file could not be opened; retried after the next scan.
        case failed
    }

    /// The descriptor to read from; `nil` if there is none now.
    mutating func openFile(_ key: StreamKey, _ now: TailTime) -> FileID? {
        switch self.open(key) {
        case .opened(let descriptor): return descriptor
        case .replaced, .noRoom, .failed: return nil
        case .lost:
            var lost = [key]
            self.settleLost(&lost, now)
            return nil
        }
    }

    mutating func open(_ key: StreamKey) -> OpenOutcome {
        if let descriptor = self.table[key].descriptor {
            self.openFiles.use(key)
            return .opened(descriptor)
        }
        guard self.table[key].reach == .path else {
            self.waitForScan(key)
            return .failed
        }
        guard self.makeRoom() else {
            self.waitForScan(key)
            return .noRoom
        }
        let path = self.table[key].path
        do throws(FileSystemError) {
            guard let descriptor = try self.openUntrusted(path, self.table[key]) else {
                self.waitForScan(key)
                return .failed
            }
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
        } catch  where error.code == .tooManyFiles {
            if self.lowerOpenFileCount() { return self.open(key) }
            self.waitForScan(key)
            return .noRoom
        } catch {
            self.readFailed(key, error)
            return .failed
        }
    }

    /// Opens a file with unread bytes, if the limit allows, so that its deletion does not lose them.
    mutating func hold(_ key: StreamKey) {
        guard self.table[key].descriptor == nil, !self.openFiles.isFull else { return }
        // An error is found and reported by the read.
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
        self.openFiles.use(key)
        return .opened(descriptor)
    }

    private mutating func waitForScan(_ key: StreamKey) {
        guard !self.table[key].isFaulty else { return }
        self.table[key].isFaulty = true
        self.queues.faulty.append(key)
    }

    mutating func closeDescriptor(_ key: StreamKey) {
        guard let descriptor = self.table[key].descriptor else { return }
        self.table[key].descriptor = nil
        self.openFiles.remove(key)
        self.files.close(descriptor)
    }

    /// Closes the least recently used files until one more may be open; never one whose bytes would be lost.
    private mutating func makeRoom() -> Bool {
        while self.openFiles.isFull {
            var spare: StreamKey?
            // No closure: this is done for each file that is opened.
            for key in self.openFiles.keys where self.table[key].isDescriptorSpare {
                spare = key
                break
            }
            guard let victim = spare else { return false }
            switch self.table[victim].reach {
            case .descriptor where self.successions.departures.isOpen(victim):
                self.closeDescriptor(victim)
                self.table[victim].reach = .path
                self.table[victim].isUndecided = true
            case .descriptor: self.vanished(victim)
            case .path, .replaced, .gone: self.closeDescriptor(victim)
            }
        }
        return true
    }

    /// Has fewer files open from here on, because the process has no descriptor left.
    ///
    /// - Returns: whether a file was closed; each time the number is less than before.
    @discardableResult
    mutating func lowerOpenFileCount() -> Bool {
        let before = self.openFiles.count
        if self.openFiles.lower() { self.notices.append(.fewDescriptors(count: self.openFiles.countMax)) }
        _ = self.makeRoom()
        return self.openFiles.count < before
    }
}

extension TailLimits {
    /// How many files an agent holds open at most, if nothing else is configured.
    package static var openFileCountUsual: Int { 512 }
    /// With a lower limit of descriptors, an agent does not start.
    package static var descriptorCountMin: Int { 24 }
    /// Descriptors for connections, name lookups, the registry and folders.
    private static var descriptorCountKept: Int { 8 }

    /// Lowers the number of open files to what the process may have besides those that are open already.
    package mutating func fit(descriptorCountMax: Int, openCount: Int) {
        let room = Self.room(descriptorCountMax: descriptorCountMax, openCount: openCount)
        self.openFileCountMax = max(1, min(room, self.openFileCountMax))
    }

    /// How many descriptors are left for files and spools.
    package static func room(descriptorCountMax: Int, openCount: Int) -> Int {
        descriptorCountMax - openCount - Self.descriptorCountKept
    }
}
