internal import WaybillSpool
internal import WaybillSystem

/// What the writers of spools were last seen to ask for, by folder.
struct KnownWishes {
    /// How long what was read is used.
    private static let ageMax = Duration.seconds(5)

    private var wishes: [PathKey: Duration] = [:]
    private var readAt: MonotonicTime?

    /// Forgets what was read some seconds ago.
    mutating func refresh(_ now: MonotonicTime) {
        if let readAt, now - readAt < Self.ageMax { return }
        self.readAt = now
        self.wishes.removeAll(keepingCapacity: true)
    }

    /// How long shipped segments are to stay in a folder; `nil`: to be read.
    subscript(_ folder: PathKey) -> Duration? {
        get { self.wishes[folder] }
        set { self.wishes[folder] = newValue }
    }
}

/// Honours what spools ask for: that shipped segments stay for a while, whatever this agent's own limit of age is.
///
/// A wish is looked for when a segment of its folder is shipped or may be too old, and remembered for some seconds; so a
/// folder without one costs one `fstatat(2)` in this time, and only while its segments are shipped.
extension Tail {
    /// With less space than this, nothing is kept because a spool asks for it.
    private static var wishFreeByteCountMin: Int { 64 << 20 }

    /// How long the writer of a spool wants shipped segments to stay; zero if it does not.
    mutating func wish(of folder: FileID, at directory: String) throws(FileSystemError) -> Duration {
        let key = PathKey(directory)
        if let wish = self.keeping.wishes[key] { return wish }
        let wish = try self.readWish(in: folder, at: Path.join(directory, KeepWish.name))
        self.keeping.wishes[key] = wish
        return wish
    }

    private mutating func readWish(in folder: FileID, at path: String) throws(FileSystemError) -> Duration {
        do throws(FileSystemError) {
            guard let entry = try self.files.status(of: KeepWish.name, in: folder),
                try self.isWish(entry, in: folder, at: path)
            else { return .zero }
            let file = try self.files.open(KeepWish.name, in: folder)
            defer { self.files.close(file) }
            guard try self.isWish(try self.files.status(file), in: folder, at: path) else { return .zero }
            var bytes = [UInt8](repeating: 0, count: KeepWish.byteCountMax + 1)
            let count = try self.files.readFully(file, at: 0, into: &bytes)
            return KeepWish(parsing: Array(bytes[..<count]))?.duration ?? .zero
        } catch {
            switch error.code {
            case .missing: return .zero
            case .link:
                self.notices.refuse(path, .link)
                return .zero
            case .permission:
                self.notices.complain(path, .unreadable(path: path, error))
                return .zero
            default: throw error
            }
        }
    }

    /// Whether a file may be a wish: it is of those who may write to the spool, as a segment must be, and not too long.
    private mutating func isWish(
        _ status: FileStatus, in folder: FileID, at path: String
    ) throws(FileSystemError) -> Bool {
        guard status.kind == .link || status.kind == .regular && status.byteCount <= KeepWish.byteCountMax else {
            return false
        }
        guard let refusal = FileRefusal(ofSegment: status, in: try self.files.status(folder)) else { return true }
        self.notices.refuse(path, refusal)
        return false
    }

    /// How long these kept segments must stay, by their folder; zero on a disk that is full.
    mutating func wishes(of paths: [String]) -> [PathKey: Duration] {
        var wishes: [PathKey: Duration] = [:]
        for path in paths {
            let directory = Path.parent(of: path)
            let key = PathKey(directory)
            guard wishes[key] == nil else { continue }
            // Nothing goes for its age while that is unknown.
            wishes[key] = KeepWish.durationMax
            do throws(FileSystemError) {
                guard let folder = try self.openSpool(of: path) else { continue }
                defer { self.files.close(folder) }
                let wish = try self.wish(of: folder, at: directory)
                let freeByteCount = try wish > .zero ? self.files.space(at: directory).freeByteCount : 0
                wishes[key] = freeByteCount < Self.wishFreeByteCountMin ? .zero : wish
            } catch {
                self.notices.complain(directory, .unreadable(path: directory, error))
            }
        }
        return wishes
    }
}
