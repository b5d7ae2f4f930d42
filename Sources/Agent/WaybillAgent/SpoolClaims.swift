package import WaybillSystem
internal import WaybillTail

/// The spools that this agent ships, each locked: two agents that ship one spool would send its lines twice.
///
/// A spool that does not exist yet is claimed once it does. The folder itself is locked, which takes a descriptor. Where
/// a process may not have as many, spools take turns:
///
///     claim ─▶ claimed ─▶ pass, when nothing is left of it or its time is over ─▶ waiting ─▶ claim …
///
/// A spool that waits is not shipped, and may be another agent's.
package struct SpoolClaims<Files: FileSystem>: ~Copyable {
    private let files: Files
    private var spools: [GlobPattern]
    /// How many are claimed at once; less once the process had no descriptor left.
    private var countMax: Int
    private var locks: [FileIdentity: FileID] = [:]
    /// The folders that are locked, by each of their names.
    private var claimed: [PathKey: FileIdentity] = [:]
    /// Those that wait for a descriptor, the one that has waited longest first.
    package private(set) var waiting: [String] = []
    /// Those that have had a turn in this round.
    private var served: Set<PathKey> = []
    /// Whether folders could not be listed for want of descriptors.
    private var isBlind = false

    /// - Parameters:
    ///   - spools: folders, or patterns of folders.
    ///   - countMax: how many are claimed at once, at least 1.
    package init(_ spools: [String], countMax: Int = .max, on files: Files) {
        self.files = files
        self.countMax = max(1, countMax)
        self.spools = spools.map { GlobPattern($0) }
    }

    deinit {
        for lock in self.locks.values { self.files.close(lock) }
    }

    /// Whether spools are not claimed for want of descriptors.
    package var isShort: Bool { self.isBlind || !self.waiting.isEmpty }

    /// How many are claimed.
    package var count: Int { self.locks.count }

    /// The folders that may be shipped; `nil`: all, because each that exists is claimed.
    package var allowed: Set<PathKey>? { self.isShort ? Set(self.claimed.keys) : nil }

    /// Claims the spools that exist; a folder with several names is claimed once.
    ///
    /// - Throws: when another agent ships a spool. A spool that cannot be read is neither claimed nor shipped, and one
    ///   for which no descriptor is left waits.
    package mutating func claim() throws(FileSystemError) {
        let (paths, isWhole) = self.present()
        if isWhole, !self.waiting.isEmpty {
            // What is gone must not keep others waiting.
            let present = Set(paths.map { PathKey($0) })
            self.claimed = self.claimed.filter { present.contains($0.key) }
            let found = Set(self.claimed.values)
            self.release { !found.contains($0) }
        }
        try self.claim(paths)
    }

    /// - Parameter isTrial: whether those that must wait are locked for a moment, to see that no other agent ships them.
    private mutating func claim(_ paths: [String], isTrial: Bool = false) throws(FileSystemError) {
        guard !self.isBlind else { return }
        let present = Set(paths.map { PathKey($0) })
        let former = self.waiting.filter { present.contains(PathKey($0)) }
        let isFormer = Set(former.map { PathKey($0) })
        self.waiting = []
        for path in former + paths.filter({ !isFormer.contains(PathKey($0)) }) {
            guard try !self.claim(path, isTrial: isTrial) else { continue }
            self.waiting.append(path)
        }
        if self.waiting.isEmpty { self.served = [] }
    }

    /// The folders that the patterns match, and whether every folder on the way could be listed.
    private mutating func present() -> (paths: [String], isWhole: Bool) {
        self.isBlind = false
        var paths: [String] = []
        var isWhole = true
        for spool in self.spools {
            var expansion = GlobPattern.Expansion()
            spool.expand(on: self.files, into: &expansion)
            paths += expansion.paths
            isWhole = isWhole && expansion.failures.isEmpty
            if expansion.failures.contains(where: { $0.code == .tooManyFiles }) { self.isBlind = true }
        }
        return (paths, isWhole)
    }

    /// Claims these spools instead of the former ones; those of both stay claimed throughout.
    ///
    /// - Throws: when another agent ships a new one; then nothing changes.
    package mutating func replace(with spools: [String]) throws(FileSystemError) {
        let former = (
            spools: self.spools, locks: self.locks, claimed: self.claimed, waiting: self.waiting, isBlind: self.isBlind
        )
        self.spools = spools.map { GlobPattern($0) }
        do throws(FileSystemError) {
            try self.claim(self.present().paths, isTrial: true)
        } catch {
            // What waited before and is claimed now waits again.
            self.release { former.locks[$0] == nil }
            self.spools = former.spools
            self.claimed = former.claimed.filter { self.locks[$0.value] != nil }
            self.waiting = former.waiting
            self.isBlind = former.isBlind
            throw error
        }
        var kept: Set<FileIdentity> = []
        for path in self.present().paths {
            do throws(FileSystemError) {
                if let status = try self.files.status(at: path) { kept.insert(status.identity) }
            } catch {
                // Which folder this is cannot be told now: every claim stays.
                return
            }
        }
        guard !self.isBlind else { return }
        self.release { !kept.contains($0) }
        self.claimed = self.claimed.filter { kept.contains($0.value) }
    }

    private mutating func release(where isReleased: (FileIdentity) -> Bool) {
        for (identity, lock) in self.locks where isReleased(identity) {
            self.files.close(lock)
            self.locks[identity] = nil
        }
    }

    /// - Returns: whether no descriptor is lacking for it.
    private mutating func claim(_ directory: String, isTrial: Bool) throws(FileSystemError) -> Bool {
        let identity: FileIdentity
        let lock: FileID
        do throws(FileSystemError) {
            guard let status = try self.files.status(at: directory), status.kind == .directory else { return true }
            identity = status.identity
            if self.locks[identity] != nil {
                self.claimed[PathKey(directory)] = identity
                return true
            }
            self.claimed[PathKey(directory)] = nil
            guard isTrial || self.locks.count < self.countMax else { return false }
            // A folder that is a link is not shipped.
            lock = try self.files.open(directory, .folder)
        } catch {
            guard error.code == .tooManyFiles else { return true }
            self.countMax = max(1, self.locks.count)
            return false
        }
        do throws(FileSystemError) {
            guard try self.files.lock(lock, .exclusive) else {
                throw FileSystemError("lock", path: directory, errno: Errno.inUse)
            }
        } catch {
            self.files.close(lock)
            // Nothing of it is read either, before another look.
            if error.code == .hanging { return true }
            throw error
        }
        guard self.locks.count < self.countMax else {
            self.files.close(lock)
            return false
        }
        self.locks[identity] = lock
        self.claimed[PathKey(directory)] = identity
        return true
    }

    // MARK: Turns

    /// Whether spools wait that have had no turn in this round.
    package var hasUnserved: Bool {
        self.isBlind || self.waiting.contains { !self.served.contains(PathKey($0)) }
    }

    /// Lets every spool have a turn again.
    package mutating func beginRound() {
        self.served = []
    }

    /// Releases claims, so that the next ``claim()`` gives them to spools that wait; no more than these can use.
    ///
    /// - Parameter isOver: whether the turn of a spool is over.
    /// - Returns: whether a claim was released.
    package mutating func pass(where isOver: (_ folder: PathKey) -> Bool) -> Bool {
        var rest = self.waiting.count { !self.served.contains(PathKey($0)) }
        var names: [FileIdentity: [PathKey]] = [:]
        for (folder, identity) in self.claimed { names[identity, default: []].append(folder) }
        var isPassed = false
        for (identity, folders) in names where rest > 0 && folders.allSatisfy(isOver) {
            self.release { $0 == identity }
            for folder in folders { self.claimed[folder] = nil }
            self.served.formUnion(folders)
            rest -= 1
            isPassed = true
        }
        return isPassed
    }
}
