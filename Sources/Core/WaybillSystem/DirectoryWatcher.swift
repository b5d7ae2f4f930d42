internal import CWaybillSystem

#if canImport(Glibc)
    internal import Glibc
#endif

/// Hints about what changed in folders (`inotify(7)`); only a look at the files is authoritative.
///
/// The kernel watches inodes, this type watches paths: a folder that is renamed and made again, mounted over or reached
/// by a link that changed is another inode at the same path. So every look adds the watch of each folder again, which
/// costs one call and changes nothing if the inode is the same, and ``check()`` does it between looks.
///
///     beginLook ─▶ watch(folder) ─▶ the folder is listed ─▶ watch(links:) ─▶ endLook: what was not named is dropped
///
/// A folder is watched before it is listed: what comes between the two is a hint. A link's file changes where it lies, so
/// the folders on the way of each link are watched too, and a change there is a hint about the link.
///
/// Hints are not complete where other hosts, other processes or other mounts write unseen: see ``FolderWatch/isBlind``.
/// Without inotify, or without a free watch, there are no hints. Looks are then more frequent.
package struct DirectoryWatcher: ~Copyable {
    /// What the system reported.
    package enum Hint: Hashable, Sendable {
        /// Something happened at these paths, and these folders came, went or were replaced with all that is in them.
        case changes(paths: [String], folders: [String] = [])
        /// The queue overflowed: look at everything.
        case everything
    }

    #if canImport(Glibc)
        private let descriptor: Int32
        /// The folders behind each of the kernel's numbers: one inode may have several paths.
        private var numbers: [Int32: [PathKey]] = [:]
        private var buffer = [UInt8](repeating: 0, count: 64 << 10)
    #endif
    private let mounts: RemoteMounts?
    private var folders: [PathKey: FolderWatch] = [:]
    /// The number of the present look.
    private var round: UInt32 = 0
    private var summary = WatchSummary()

    /// - Parameter mounts: make the calls that may never return; without them, the caller waits for each.
    package init(_ mounts: RemoteMounts? = nil) {
        self.mounts = mounts
        #if canImport(Glibc)
            self.descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
        #endif
    }

    #if canImport(Glibc)
        deinit {
            if self.descriptor >= 0 { close(self.descriptor) }
        }
    #endif

    /// The file to wait on; `nil` when there are no hints.
    package var file: FileID? {
        #if canImport(Glibc)
            self.descriptor >= 0 ? FileID(rawValue: self.descriptor) : nil
        #else
            nil
        #endif
    }

    /// Whether a change in any folder is a hint.
    package var isComplete: Bool {
        self.file != nil && self.summary.isComplete
    }

    /// Folders that could not be watched because the limit of watches is reached.
    package var unwatchedCount: Int { self.summary.unwatchedCount }
    /// Folders that could not be watched because this user may not read them.
    package var deniedFolders: [String] { self.summary.denied }
    /// Folders in which the system does not see every change.
    package var blindFolders: [String] { self.summary.blind }

    // MARK: Mounts

    /// Takes the mounts as they are now; see ``RemoteMounts/refresh(_:)``.
    package func refreshMounts(_ now: MonotonicTime) { self.mounts?.refresh(now) }

    /// The mounts that do not answer.
    package var hangingMounts: [HangingMount] { self.mounts?.hanging ?? [] }

    /// The mount that a path leads to, if it does not answer.
    package func hangingMount(of path: String) -> String? { self.mounts?.hangingMount(of: path) }

    // MARK: Watching

    /// Begins a look at everything.
    package mutating func beginLook() {
        self.round &+= 1
    }

    /// Watches a folder that is about to be listed; one that does not exist is watched once it does.
    ///
    /// - Parameter isPolled: whether its changes are looked for as if there were no hints.
    package mutating func watch(_ folder: String, isPolled: Bool) {
        guard self.file != nil else { return }
        let key = PathKey(folder)
        self.folders[key, default: FolderWatch()].list(in: self.round, isPolled: isPolled)
        _ = self.add(key)
    }

    /// Watches the folders that these links lead through.
    ///
    /// - Returns: those of which a folder was not watched before: what happened there until now was no hint.
    package mutating func watch(links: [String]) -> [String] {
        guard self.file != nil else { return [] }
        return links.filter { self.watch(link: $0) }
    }

    /// Ends a look: folders that it did not name are watched no more.
    package mutating func endLook() {
        var summary = WatchSummary()
        for key in Array(self.folders.keys) {
            guard let folder = self.folders[key]?.settled(in: self.round) else {
                self.remove(key)
                continue
            }
            self.folders[key] = folder
            summary.count(folder, at: key.text)
        }
        self.summary = summary
    }

    private mutating func remove(_ key: PathKey) {
        self.detach(key)
        self.folders[key] = nil
    }

    /// Looks whether each path still leads to the folder that is watched for it, and watches the one it leads to now.
    ///
    /// - Returns: what changed; `nil` for nothing.
    package mutating func check() -> Hint? {
        var changes = Changes()
        for key in Array(self.folders.keys) where self.add(key) { self.note(key, in: &changes) }
        return changes.hint
    }

    #if canImport(Glibc)
        private static var events: UInt32 {
            UInt32(
                IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF
                    | IN_MOVE_SELF) | UInt32(IN_ONLYDIR)
        }

        /// Adds the watch of a folder, again or for the first time.
        ///
        /// - Returns: whether the path leads to another folder than before, or to none.
        private mutating func add(_ key: PathKey) -> Bool {
            guard let former = self.folders[key] else { return false }
            let route = self.mounts?.route(at: key.text)
            guard let (number, failure) = self.number(of: key.text, on: route) else {
                // Nothing is known of it now, and what is watched stays watched.
                if former.number == nil { self.folders[key]?.failure = .hanging }
                self.summary.isComplete = false
                return false
            }
            if former.number == number { return false }
            self.detach(key)
            self.folders[key]?.failure = failure
            if number >= 0 {
                self.folders[key]?.number = number
                self.folders[key]?.isBlind = route != nil || FileSystemType.isBlind(at: key.text)
                self.numbers[number, default: []].append(key)
            }
            if self.folders[key]?.isComplete == false { self.summary.isComplete = false }
            return former.number != nil || number >= 0
        }

        /// The kernel's number of a folder's watch, or -1 and why there is none; `nil` if its mount does not answer.
        private func number(
            of path: String, on route: MountRoute?
        ) -> (number: Int32, failure: FolderWatch.Failure?)? {
            let descriptor = self.descriptor
            let watch: @Sendable () -> (Int32, FolderWatch.Failure?) = {
                let number = inotify_add_watch(descriptor, path, Self.events)
                return (number, number >= 0 ? nil : FolderWatch.Failure(errno))
            }
            guard let route else { return watch() }
            do throws(FileSystemError) {
                return try route.call("watch", path) { watch() }
            } catch {
                return nil
            }
        }

        /// Ends the watch of a folder, unless it has another path too.
        private mutating func detach(_ key: PathKey) {
            guard let number = self.folders[key]?.number else { return }
            self.folders[key]?.number = nil
            self.numbers[number]?.removeAll { $0 == key }
            guard self.numbers[number]?.isEmpty ?? false else { return }
            self.numbers[number] = nil
            inotify_rm_watch(self.descriptor, number)
        }
    #else
        private mutating func add(_ key: PathKey) -> Bool { false }
        private mutating func detach(_ key: PathKey) {}
    #endif

    // MARK: Links

    /// As many links in a row as the kernel follows (`path_resolution(7)`).
    private static var linkCountMax: Int { 40 }

    private mutating func watch(link: String) -> Bool {
        var path = link
        var isNew = false
        for _ in 0..<Self.linkCountMax {
            guard let target = self.target(of: path) else { break }
            path = Path.isAbsolute(target) ? target : Path.join(Path.parent(of: path), target)
            let key = PathKey(Path.parent(of: path))
            let isFirst = self.folders[key]?.isLed(in: self.round) != true
            if self.folders[key, default: FolderWatch()].lead(link, by: Path.name(of: path), in: self.round) {
                isNew = true
            }
            // Once a look, however many links lead to the folder.
            if isFirst, self.add(key) { isNew = true }
        }
        return isNew
    }

    /// What a link says; `nil` for anything else, and if its mount does not answer.
    private func target(of path: String) -> String? {
        guard let route = self.mounts?.route(at: path, followsLast: false) else {
            return SymbolicLink.target(of: path)
        }
        do throws(FileSystemError) {
            return try route.call("readLink", path) { SymbolicLink.target(of: path) }
        } catch {
            return nil
        }
    }

    // MARK: Hints

    /// What a read or a check found.
    private struct Changes {
        var paths: Set<PathKey> = []
        var folders: Set<PathKey> = []

        var hint: Hint? {
            guard !self.paths.isEmpty || !self.folders.isEmpty else { return nil }
            return .changes(paths: self.paths.map(\.text).sorted(), folders: self.folders.map(\.text).sorted())
        }
    }

    /// Notes that a folder came, went or was replaced.
    private func note(_ key: PathKey, in changes: inout Changes) {
        guard let folder = self.folders[key] else { return }
        if folder.isListed { changes.folders.insert(key) }
        for links in folder.links.values { changes.paths.formUnion(links) }
    }

    /// Reads the gathered hints; `nil` when there are none.
    package mutating func read() -> Hint? {
        #if canImport(Glibc)
            var changes = Changes()
            var replaced: Set<PathKey> = []
            var mustScan = false
            while true {
                let count = Glibc.read(self.descriptor, &self.buffer, self.buffer.count)
                guard count > 0 else { break }
                var position = 0
                // struct inotify_event: int wd; uint32_t mask, cookie, len; char name[len]
                while position + 16 <= count {
                    let (number, mask, length) = self.buffer.withUnsafeBytes { bytes in
                        (
                            bytes.loadUnaligned(fromByteOffset: position, as: Int32.self),
                            bytes.loadUnaligned(fromByteOffset: position + 4, as: UInt32.self),
                            Int(bytes.loadUnaligned(fromByteOffset: position + 12, as: UInt32.self))
                        )
                    }
                    let name = self.buffer[(position + 16)..<min(count, position + 16 + length)].prefix { $0 != 0 }
                    position += 16 + length
                    if mask & UInt32(IN_Q_OVERFLOW) != 0 { mustScan = true }
                    if name.isEmpty {
                        replaced.formUnion(self.numbers[number] ?? [])
                    } else {
                        self.happened(
                            to: String(decoding: name, as: UTF8.self), isFolder: mask & UInt32(IN_ISDIR) != 0,
                            in: number, &changes)
                    }
                }
            }
            for key in replaced {
                // The folder is gone from the path: another one may be there, or comes later.
                self.detach(key)
                _ = self.add(key)
                self.note(key, in: &changes)
            }
            return mustScan ? .everything : changes.hint
        #else
            return nil
        #endif
    }

    #if canImport(Glibc)
        private func happened(to name: String, isFolder: Bool, in number: Int32, _ changes: inout Changes) {
            for key in self.numbers[number] ?? [] {
                guard let folder = self.folders[key] else { continue }
                if folder.isListed {
                    let path = PathKey(key.text == "." ? name : Path.join(key.text, name))
                    if isFolder { changes.folders.insert(path) } else { changes.paths.insert(path) }
                }
                changes.paths.formUnion(folder.links[PathKey(name)] ?? [])
            }
        }
    #endif
}

/// What is known of one watched path.
private struct FolderWatch {
    /// Why a folder could not be watched.
    enum Failure: Hashable {
        /// It does not exist, or is not a folder.
        case missing
        case denied
        case limit
        /// Its mount does not answer.
        case hanging

        init(_ errno: Int32) {
            switch FileSystemError.Code(errno: errno) {
            case .missing, .notADirectory, .link: self = .missing
            case .permission: self = .denied
            default: self = .limit
            }
        }
    }

    /// The kernel's number of the watch; `nil` while there is none.
    var number: Int32?
    var failure: Failure?
    /// Whether it lies where the system does not see every change.
    var isBlind = false
    private var isPolled = false
    /// The links that lead through it, by the name that they lead to.
    private(set) var links: [PathKey: Set<PathKey>] = [:]
    /// Those of the look before.
    private var formerLinks: [PathKey: Set<PathKey>] = [:]
    private var listedIn: UInt32?
    private var ledIn: UInt32?

    /// Whether files are looked for in it.
    var isListed: Bool { self.listedIn != nil }

    var isComplete: Bool {
        switch self.failure {
        case .denied, .limit, .hanging: false
        // Its creation is found by the next check.
        case .missing, nil: !self.isBlind && !self.isPolled
        }
    }

    /// Whether a link was noted in this look.
    func isLed(in round: UInt32) -> Bool { self.ledIn == round }

    mutating func list(in round: UInt32, isPolled: Bool) {
        self.isPolled = self.listedIn == round ? self.isPolled || isPolled : isPolled
        self.listedIn = round
    }

    /// Notes a link that leads to a name in it.
    ///
    /// - Returns: whether the link is new; its changes until now were no hints.
    mutating func lead(_ link: String, by name: String, in round: UInt32) -> Bool {
        if self.ledIn != round {
            self.formerLinks = self.links
            self.links.removeAll()
            self.ledIn = round
        }
        let (name, link) = (PathKey(name), PathKey(link))
        let isKnown = self.formerLinks[name]?.contains(link) ?? false
        return self.links[name, default: []].insert(link).inserted && !isKnown
    }

    /// What is left of it after a look that named it, or not.
    consuming func settled(in round: UInt32) -> FolderWatch? {
        if self.listedIn != round {
            self.listedIn = nil
            self.isPolled = false
        }
        self.formerLinks.removeAll()
        if self.ledIn != round {
            self.ledIn = nil
            self.links.removeAll()
        }
        return self.listedIn == nil && self.ledIn == nil ? nil : self
    }
}

/// What a look found about all watches.
private struct WatchSummary {
    /// More folders are only counted.
    static let nameCountMax = 1000

    var isComplete = true
    var unwatchedCount = 0
    var denied: [String] = []
    var blind: [String] = []

    mutating func count(_ folder: FolderWatch, at path: String) {
        if !folder.isComplete { self.isComplete = false }
        switch folder.failure {
        case .denied: if self.denied.count < Self.nameCountMax { self.denied.append(path) }
        case .limit: self.unwatchedCount += 1
        case .hanging: break
        case .missing, nil: if folder.isBlind, self.blind.count < Self.nameCountMax { self.blind.append(path) }
        }
    }
}

/// The kinds of file systems by their numbers (`statfs(2)`, `linux/magic.h`).
package enum FileSystemType {
    /// Those in which files change without an event on this machine: other hosts and servers write to them, or programs
    /// write below them.
    private static let blind: Set<UInt32> = [
        0x6969,  // NFS
        0x517B, 0xFF53_4D42, 0xFE53_4D42,  // SMB, CIFS, SMB 2
        0x6573_5546,  // FUSE, virtiofs
        0x0102_1997,  // 9p
        0x794C_7630,  // overlay, whose layers may change
        0x5346_414F, 0x6B41_4653,  // AFS
        0x00C3_6400,  // Ceph
        0x7375_7245,  // Coda
        0x0BD0_0BD0,  // Lustre
        0x0116_1970,  // GFS2
        0x7461_636F,  // OCFS2
        0x786F_4256,  // VirtualBox's shared folders
        0xF15F,  // eCryptfs
    ]

    /// Those of them that lie on this machine's own disks, with its own locks.
    private static let own: Set<UInt32> = [0x794C_7630, 0xF15F]

    package static func isBlind(_ type: UInt32) -> Bool { self.blind.contains(type) }

    /// Whether others may lock files in it, unseen by this machine.
    package static func isShared(_ type: UInt32) -> Bool { self.blind.contains(type) && !self.own.contains(type) }

    static func isShared(at path: String) -> Bool { self.isShared(waybill_file_system_type(path)) }

    /// Whether a path lies in such a file system.
    static func isBlind(at path: String) -> Bool { self.isBlind(waybill_file_system_type(path)) }
}
