#if canImport(Glibc)
    internal import Glibc
#endif

/// A mount on which a call has not returned.
package struct HangingMount: Hashable, Sendable {
    package let path: String
    /// When the call began.
    package let since: MonotonicTime

    package init(path: String, since: MonotonicTime) {
        self.path = path
        self.since = since
    }
}

/// Which calls may never return, and the threads that make them: one for each mount that another host or a program
/// answers for (``MountTable``).
///
/// A path is followed link by link, and each step is compared with the mounts before it is touched. So nothing here
/// waits for a mount, and a call on a local disk is never made in another thread. Where there is no such mount, a call
/// costs one load.
///
/// What hangs without being such a mount, as a disk that fails, hangs its caller.
package final class RemoteMounts: Sendable {
    /// What a path leads to, as far as that needs no look at a remote mount.
    private enum Lead {
        case local(String)
        case remote(MountTable.Mount)
    }

    private struct Seat {
        let mount: MountTable.Mount
        let route: MountRoute
    }

    private struct State: Sendable {
        var table = MountTable()
        var seats: [Seat] = []
        /// Of the files that are open on remote mounts.
        var files: [FileID: MountRoute] = [:]
        /// Where folders lead, as of the last refresh.
        var folders: [PathKey: Lead] = [:]
    }

    /// A thread that hangs cannot be ended; with more mounts than this, the rest share the last thread.
    package static let threadCountMax = 16
    /// So many folders are remembered until the next refresh.
    private static let folderCountMax = 1024
    /// As many links in a row as the kernel follows (`path_resolution(7)`).
    private static let linkCountMax = 40

    private let source: any MountSource
    private let patience: @Sendable () -> Duration
    private let own: String
    private let isGuarding = Atomic(false)
    private let state = Lock(State())

    /// - Parameters:
    ///   - patience: how long a call may take.
    ///   - own: a folder in which the caller waits for each call; empty for none.
    package init(
        except own: String = "", _ source: any MountSource = SystemMounts(),
        patience: @escaping @Sendable () -> Duration = { .seconds(1) }
    ) {
        self.source = source
        self.patience = patience
        self.own = own.isEmpty ? "" : Path.join(own, "")
        self.refresh(POSIXClock().monotonicTime())
    }

    deinit {
        self.state.withLock { state in
            for seat in state.seats { seat.route.thread.end() }
        }
    }

    /// Takes the mounts as they are now, and makes calls again on those that answer.
    package func refresh(_ now: MonotonicTime) {
        let text = self.source.changed()
        guard text != nil || self.isGuarding.load(ordering: .relaxed) else { return }
        self.state.withLock { state in
            state.folders.removeAll(keepingCapacity: true)
            if let text { state.table = MountTable(text) }
            state.seats.removeAll { seat in
                let isIdle = seat.route.thread.settle(now)
                guard isIdle, !state.table.contains(seat.mount),
                    !state.files.values.contains(where: { $0.thread === seat.route.thread })
                else { return false }
                seat.route.thread.end()
                return true
            }
            self.isGuarding.store(!state.table.isEmpty || !state.seats.isEmpty, ordering: .relaxed)
        }
    }

    /// The mounts that do not answer.
    package var hanging: [HangingMount] {
        guard self.isGuarding.load(ordering: .relaxed) else { return [] }
        return self.state.withLock { state in
            state.seats.compactMap { seat in
                guard let hang = seat.route.thread.hang else { return nil }
                // A mount that is no more keeps its thread, and nothing waits for it.
                let isThere = hang.mount == seat.mount.path ? state.table.contains(seat.mount) : true
                return isThere ? HangingMount(path: hang.mount, since: hang.since) : nil
            }
        }
    }

    /// The mount that a path leads to, if it does not answer.
    package func hangingMount(of path: String) -> String? {
        self.route(at: path)?.thread.hang?.mount
    }

    // MARK: Routes

    /// The thread for calls at a path; `nil` for a path that leads to no remote mount.
    func route(at path: String, followsLast: Bool = true) -> MountRoute? {
        guard self.isGuarding.load(ordering: .relaxed), self.own.isEmpty || !path.utf8.starts(with: self.own.utf8)
        else { return nil }
        return self.state.withLock { state in
            let whole = Path.isAbsolute(path) ? path : Path.join(self.source.target(of: "/proc/self/cwd") ?? "/", path)
            guard whole.utf8.count > 1 else { return nil }
            let folder = self.folder(Path.parent(of: whole), &state)
            guard case .local(let real) = folder else { return self.route(folder, &state) }
            return self.route(
                self.lead(to: Path.name(of: whole), from: real, state.table, followsLast: followsLast), &state)
        }
    }

    /// The same for a name in an open folder, to which no link leads.
    func route(of name: String, in folder: FileID) -> MountRoute? {
        guard self.isGuarding.load(ordering: .relaxed) else { return nil }
        return self.state.withLock { state in
            if let route = state.files[folder] { return route }
            guard let real = self.source.target(of: "/proc/self/fd/\(folder.rawValue)") else { return nil }
            return self.route(self.lead(to: name, from: real, state.table, followsLast: false), &state)
        }
    }

    /// The same for an open file.
    func route(of file: FileID) -> MountRoute? {
        guard self.isGuarding.load(ordering: .relaxed) else { return nil }
        return self.state.withLock { $0.files[file] }
    }

    func opened(_ file: FileID, on route: MountRoute) {
        self.state.withLock { $0.files[file] = route }
    }

    /// The file is closed next.
    func closing(_ file: FileID) -> MountRoute? {
        guard self.isGuarding.load(ordering: .relaxed) else { return nil }
        return self.state.withLock { $0.files.removeValue(forKey: file) }
    }

    private func route(_ lead: Lead, _ state: inout State) -> MountRoute? {
        guard case .remote(let mount) = lead else { return nil }
        if let seat = state.seats.first(where: { $0.mount == mount }) { return seat.route }
        if state.seats.count >= Self.threadCountMax, let last = state.seats.last {
            return MountRoute(thread: last.route.thread, mount: mount.path, patience: self.patience)
        }
        let route = MountRoute(thread: MountThread(), mount: mount.path, patience: self.patience)
        state.seats.append(Seat(mount: mount, route: route))
        return route
    }

    // MARK: Paths

    private func folder(_ path: String, _ state: inout State) -> Lead {
        let key = PathKey(path)
        if let known = state.folders[key] { return known }
        let lead = self.lead(to: path, from: "/", state.table, followsLast: true)
        if state.folders.count >= Self.folderCountMax { state.folders.removeAll(keepingCapacity: true) }
        state.folders[key] = lead
        return lead
    }

    /// Follows a path from a folder that is not a link and in no remote mount.
    private func lead(to path: String, from folder: String, _ table: MountTable, followsLast: Bool) -> Lead {
        var real = folder
        var rest = Array(Path.components(of: path).reversed())
        var linkCount = 0
        while let name = rest.popLast() {
            if name == "." { continue }
            if name == ".." {
                real = Path.parent(of: real)
                continue
            }
            let next = Path.join(real, String(name))
            if let mount = table[next] { return .remote(mount) }
            guard followsLast || !rest.isEmpty, linkCount < Self.linkCountMax, let target = self.source.target(of: next)
            else {
                real = next
                continue
            }
            linkCount += 1
            if Path.isAbsolute(target) { real = "/" }
            rest += Path.components(of: target).reversed()
        }
        return .local(real)
    }
}

/// Where calls on one mount are made.
package struct MountRoute: Sendable {
    let thread: MountThread
    let mount: String
    let patience: @Sendable () -> Duration

    /// Makes a call in the mount's thread; see ``MountThread/call(_:_:on:patience:undo:_:)``.
    func call<Value>(
        _ operation: String, _ path: String, undo: @escaping @Sendable (Value) -> Void = { _ in },
        _ body: @escaping @Sendable () throws(FileSystemError) -> Value
    ) throws(FileSystemError) -> Value {
        try self.thread.call(
            operation, path, on: self.mount, patience: self.patience(), undo: undo, body)
    }

    func close(_ body: @escaping @Sendable () -> Void) {
        self.thread.close(on: self.mount, patience: self.patience(), body)
    }
}

/// What the system says about mounts and links, without a look at a remote one.
package protocol MountSource: Sendable {
    /// `mountinfo`, if it is another one than at the last call; `nil` if not, or if it is unknown.
    func changed() -> [UInt8]?
    /// What a link says; `nil` for anything else.
    func target(of path: String) -> String?
}

/// The mounts of this process.
package final class SystemMounts: MountSource {
    #if canImport(Glibc)
        private let descriptor = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC)
        private let wasRead = Atomic(false)

        deinit {
            if self.descriptor >= 0 { close(self.descriptor) }
        }
    #endif

    package init() {}

    package func changed() -> [UInt8]? {
        #if canImport(Glibc)
            guard self.descriptor >= 0 else { return nil }
            // The kernel reports a change as an exceptional condition.
            var change = pollfd(fd: self.descriptor, events: Int16(POLLPRI), revents: 0)
            let hasChanged = poll(&change, 1, 0) > 0
            guard hasChanged || !self.wasRead.load(ordering: .relaxed) else { return nil }
            self.wasRead.store(true, ordering: .relaxed)
            var text: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 64 << 10)
            while true {
                let count = pread(self.descriptor, &buffer, buffer.count, off_t(text.count))
                guard count > 0 else { break }
                text += buffer[..<count]
            }
            return text
        #else
            return nil
        #endif
    }

    package func target(of path: String) -> String? { SymbolicLink.target(of: path) }
}

/// Symbolic links (`readlink(2)`).
enum SymbolicLink {
    /// What a link says; `nil` for anything else.
    static func target(of path: String) -> String? {
        #if canImport(Glibc)
            withUnsafeTemporaryAllocation(byteCount: Int(PATH_MAX), alignment: 1) { buffer in
                guard let base = buffer.baseAddress else { return nil }
                let count = readlink(path, base.assumingMemoryBound(to: CChar.self), buffer.count)
                return count > 0 ? String(decoding: buffer.prefix(count), as: UTF8.self) : nil
            }
        #else
            nil
        #endif
    }
}
