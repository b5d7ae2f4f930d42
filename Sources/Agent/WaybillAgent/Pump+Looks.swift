internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// What the pump looks at, when ``ScanSchedule`` or a hint says so.
extension Pump where Hints: ~Copyable {
    /// Looks at what a hint names.
    mutating func take(_ hint: DirectoryWatcher.Hint?, _ now: TailTime) {
        switch hint {
        case .changes(let paths, let folders):
            // A new folder may be a spool, which is claimed before it is shipped.
            guard folders.isEmpty || self.claim() else { return }
            Self.entering(&self.tail, &self.hints) { tail, enter in
                tail.pathsChanged(paths, folders: folders, now, enter: enter)
            }
            self.watchLinks(now)
            // A network's file system may have been mounted: looks are more frequent from now on.
            if !self.hints.isComplete, self.schedule.isComplete { self.schedule.hurry(now.monotonic) }
        case .everything: self.schedule.hurry(now.monotonic)
        case nil: break
        }
    }

    /// Looks at everything.
    mutating func scan(_ now: TailTime) {
        guard self.claim() else { return }
        self.hints.beginLook()
        Self.entering(&self.tail, &self.hints) { tail, enter in tail.scan(now, enter: enter) }
        self.watchLinks(now)
        self.hints.endLook()
        self.goal.lookedAtEverything()
        if self.schedule.isFirstLook {
            self.checkSources()
            self.goal.begin {
                Dictionary(
                    self.tail.streams.map { ($0, self.tail.position(of: $0).byteCount) }, uniquingKeysWith: max)
            }
        }
        self.reportPolling()
        self.tail.areHintsComplete = self.hints.isComplete
        self.schedule.lookedAtEverything(
            from: now.monotonic, to: self.clock.monotonicTime(), isComplete: self.hints.isComplete)
    }

    /// Looks at what was written to within the last minutes.
    mutating func checkFreshFiles(_ now: TailTime) {
        let isWhole = self.tail.areFreshFilesWhole
        self.tail.checkFreshFiles(now)
        self.watchLinks(now)
        self.schedule.lookedAtFreshFiles(from: now.monotonic, to: self.clock.monotonicTime(), isWhole: isWhole)
    }

    /// Looks whether each watched path still leads to the same folder.
    mutating func checkWatches(_ now: TailTime) {
        let start = self.clock.monotonicTime()
        let hint = self.hints.check()
        self.schedule.checkedWatches(from: start, to: self.clock.monotonicTime())
        guard hint != nil else { return }
        self.take(hint, now)
        self.goal.foundMore()
    }

    /// Watches the folders to which links lead that were looked at, and looks again where one was not watched yet.
    private mutating func watchLinks(_ now: TailTime) {
        let links = self.tail.takeLinks()
        guard !links.isEmpty else { return }
        let unseen = self.hints.watch(links: links)
        guard !unseen.isEmpty else { return }
        self.tail.pathsChanged(unseen, now)
        // A link that came to lead elsewhere just now.
        let again = self.tail.takeLinks()
        if !again.isEmpty { _ = self.hints.watch(links: again) }
    }

    /// Lets a look have each folder watched before it is listed.
    private static func entering(
        _ tail: inout Tail<Files>, _ hints: inout Hints, _ look: (inout Tail<Files>, Tail<Files>.Enter) -> Void
    ) {
        look(&tail) { folder, isPolled in hints.watch(folder, isPolled: isPolled) }
    }

    /// Claims the spools that exist.
    ///
    /// - Returns: whether no other agent ships one of them.
    private mutating func claim() -> Bool {
        do throws(FileSystemError) {
            try self.claims.claim()
            self.followClaimed()
            return true
        } catch {
            self.goal.fail(error)
            return false
        }
    }

    /// Logs once, each time it begins, that files are found by looking alone.
    private mutating func reportPolling() {
        guard !self.hints.isComplete, self.schedule.isComplete else { return }
        let all = self.tail.watchDirectories.count
        self.telemetry.polls(unwatchedCount: self.hints.file == nil ? all : self.hints.unwatchedCount)
        self.telemetry.foldersDenied(self.hints.deniedFolders)
        self.telemetry.foldersBlind(self.hints.blindFolders)
    }
}
