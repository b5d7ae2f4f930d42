internal import WaybillSystem

/// Looks at a part of the files: at what a hint names, and at what was written to within the last minutes.
extension Tail {
    /// Called with each folder just before it is listed, so that whatever comes later in it is a hint.
    package typealias Enter = (_ folder: String, _ isPolled: Bool) -> Void

    mutating func beginLook(_ now: TailTime) {
        self.scanCount &+= 1
        self.looks.time = now
        self.looks.realFolder = nil
    }

    /// Whether files were written to within the last minutes.
    package var hasFreshFiles: Bool {
        !self.looks.fresh.isEmpty || self.successions.isWaiting || !self.waitingHoles.isEmpty
    }
    /// Whether one look takes all of them.
    package var areFreshFilesWhole: Bool { self.looks.fresh.isWhole }

    /// The links to files that were looked at since the last call.
    package mutating func takeLinks() -> [String] {
        let links = self.looks.links
        self.looks.links = []
        return links
    }

    /// Remembers a file that is a link, so that the folders behind it are watched.
    mutating func noteLink(_ path: String, source: Int) {
        guard self.sources[source].followsLinks else { return }
        do throws(FileSystemError) {
            if try self.files.status(ofEntry: path)?.kind == .link { self.looks.links.append(path) }
        } catch {
            // What can be said of the file is said where it is read.
        }
    }

    /// Remembers a file that was just found, unless it was there before the start: then its next change counts.
    mutating func noteFound(_ key: StreamKey) {
        if self.scanCount > 1 { self.looks.fresh.note(key, self.looks.time.monotonic) }
    }

    /// Looks for files of every source, everywhere or in one folder and below it.
    mutating func walk(within scope: String?, _ now: TailTime, _ enter: Enter) {
        for source in self.sources.indices {
            let isPolled = self.sources[source].isPolled
            var expansion = GlobPattern.Expansion()
            self.patterns[source].expand(
                on: self.files, self.sources[source].linkRule, within: scope, into: &expansion,
                enter: { enter($0, isPolled) }
            ) { path in
                self.observe(path, source: source, now)
                self.noteLink(path, source: source)
            }
            for link in expansion.links { self.notices.refuse(link, .folderLink) }
            for failure in expansion.failures {
                self.notices.complain(failure.path, .unreadable(path: failure.path, failure))
            }
            for folder in expansion.directories { self.looks.folders.insert(PathKey(folder)) }
        }
    }

    /// Checks the files at these paths again, and these folders with everything below them.
    package mutating func pathsChanged(
        _ paths: [String], folders: [String] = [], _ now: TailTime, enter: Enter = { _, _ in }
    ) {
        let known = Set(paths.filter { self.looks.folders.contains(PathKey($0)) }.map { PathKey($0) })
        let changed = known.union(folders.map { PathKey($0) })
        self.beginLook(now)
        var lost = self.foldersChanged(changed, now, enter)
        for path in paths where !known.contains(PathKey(path)) {
            let before = self.table.key(at: path)
            if let source = self.source(of: path) { self.observe(path, source: source, now) }
            guard let before, self.table.contains(before), self.table[before].scanSeen != self.scanCount,
                self.table[before].reach == .path
            else { continue }
            if self.checkPath(before, now) == .lost { lost.append(before) }
        }
        self.retryFaulty(now)
        self.settleLost(&lost, now)
        self.settleSuccessions(now)
        self.settleHoles(now)
        self.settleReleased()
    }

    /// Looks at what is in these folders, and below them.
    ///
    /// - Returns: the files that were there and are not any more.
    private mutating func foldersChanged(_ folders: Set<PathKey>, _ now: TailTime, _ enter: Enter) -> [StreamKey] {
        guard !folders.isEmpty else { return [] }
        // A folder that was not known has no files that could be missing.
        let mayMiss = self.looks.folders.contains { Self.isWithin($0.text, folders) }
        for folder in folders.map(\.text).sorted() {
            self.walk(within: folder == "/" || folder == "." ? nil : folder, now, enter)
        }
        guard mayMiss else { return [] }
        var lost: [StreamKey] = []
        var verdicts: [PathKey: Bool] = [:]
        for key in self.table.keys where self.table[key].scanSeen != self.scanCount && self.table[key].reach == .path {
            let folder = self.table[key].place.folder
            let isWithin = verdicts[folder] ?? Self.isWithin(Path.parent(of: self.table[key].path), folders)
            verdicts[folder] = isWithin
            if isWithin, self.checkPath(key, now) == .lost { lost.append(key) }
        }
        return lost
    }

    /// Whether a folder is one of these, or below one.
    private static func isWithin(_ folder: String, _ folders: Set<PathKey>) -> Bool {
        var folder = folder
        while true {
            if folders.contains(PathKey(folder)) { return true }
            let parent = Path.parent(of: folder)
            guard parent.utf8.count < folder.utf8.count else { return false }
            folder = parent
        }
    }

    /// Checks the files that were written to within the last minutes, those that changed last first.
    package mutating func checkFreshFiles(_ now: TailTime) {
        self.beginLook(now)
        let keys = self.looks.fresh.due(now.monotonic) { self.table.contains($0) && self.table[$0].reach != .gone }
        var lost: [StreamKey] = []
        for key in keys where self.table.contains(key) && self.table[key].scanSeen != self.scanCount {
            let file = self.table[key]
            switch file.reach {
            case .replaced, .gone: break
            case .path:
                if self.source(of: file.path) == file.source {
                    self.observe(file.path, source: file.source, now)
                    guard self.table.contains(key), self.table[key].scanSeen != self.scanCount,
                        self.table[key].reach == .path
                    else { continue }
                }
                if self.checkPath(key, now) == .lost { lost.append(key) }
            case .descriptor: self.checkDescriptor(key)
            }
        }
        self.settleLost(&lost, now)
        self.settleSuccessions(now)
        self.settleHoles(now)
        self.settleReleased()
    }
}
