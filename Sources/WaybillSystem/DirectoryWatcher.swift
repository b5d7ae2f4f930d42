#if canImport(Glibc)
    internal import Glibc
#endif

/// Hints about what changed in folders (`inotify(7)`); only a scan is authoritative.
///
/// Without inotify, or without a free watch, there are no hints and scans are more frequent.
package struct DirectoryWatcher: ~Copyable {
    /// What the system reported.
    package enum Hint: Hashable, Sendable {
        /// Something happened at these paths.
        case paths([String])
        /// The queue overflowed, or a watched folder itself is gone: look at everything.
        case everything
    }

    #if canImport(Glibc)
        private let descriptor: Int32
        private var directories: [Int32: String] = [:]
        private var watches: [String: Int32] = [:]
        private var buffer = [UInt8](repeating: 0, count: 64 << 10)
    #endif
    /// Folders that could not be watched because the limit of watches is reached.
    package private(set) var unwatchedCount = 0
    /// Folders that could not be watched because this user may not read them.
    package private(set) var deniedFolders: [String] = []
    /// Folders that could not be watched for whatever reason, for instance because they are gone.
    private var failureCount = 0

    package init() {
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

    /// Whether every folder is watched.
    package var isComplete: Bool {
        self.file != nil && self.failureCount == 0
    }

    /// Watches these folders and no others.
    package mutating func watch(_ directories: [String]) {
        #if canImport(Glibc)
            guard self.descriptor >= 0 else { return }
            let wanted = Set(directories)
            for (directory, watch) in self.watches where !wanted.contains(directory) {
                inotify_rm_watch(self.descriptor, watch)
                self.watches[directory] = nil
                self.directories[watch] = nil
            }
            self.unwatchedCount = 0
            self.deniedFolders = []
            self.failureCount = 0
            let events =
                IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF
            for directory in directories where self.watches[directory] == nil {
                let watch = inotify_add_watch(self.descriptor, directory, UInt32(events))
                if watch >= 0 {
                    self.watches[directory] = watch
                    self.directories[watch] = directory
                } else {
                    self.failureCount += 1
                    if errno == EACCES {
                        self.deniedFolders.append(directory)
                    } else if errno != ENOENT {
                        self.unwatchedCount += 1
                    }
                }
            }
        #endif
    }

    /// Reads the gathered hints; `nil` when there are none.
    package mutating func read() -> Hint? {
        #if canImport(Glibc)
            var paths: Set<String> = []
            var mustScan = false
            while true {
                let count = Glibc.read(self.descriptor, &self.buffer, self.buffer.count)
                guard count > 0 else { break }
                var position = 0
                // struct inotify_event: int wd; uint32_t mask, cookie, len; char name[len]
                while position + 16 <= count {
                    let (watch, mask, length) = self.buffer.withUnsafeBytes { bytes in
                        (
                            bytes.loadUnaligned(fromByteOffset: position, as: Int32.self),
                            bytes.loadUnaligned(fromByteOffset: position + 4, as: UInt32.self),
                            Int(bytes.loadUnaligned(fromByteOffset: position + 12, as: UInt32.self))
                        )
                    }
                    let name = self.buffer[(position + 16)..<min(count, position + 16 + length)].prefix { $0 != 0 }
                    position += 16 + length
                    if mask & UInt32(IN_Q_OVERFLOW) != 0 { mustScan = true }
                    guard let directory = self.directories[watch] else { continue }
                    if mask & UInt32(IN_IGNORED) != 0 {
                        self.directories[watch] = nil
                        self.watches[directory] = nil
                        mustScan = true
                    } else if name.isEmpty {
                        mustScan = true
                    } else {
                        paths.insert(Path.join(directory, String(decoding: name, as: UTF8.self)))
                    }
                }
            }
            if mustScan { return .everything }
            return paths.isEmpty ? nil : .paths(paths.sorted())
        #else
            return nil
        #endif
    }
}
