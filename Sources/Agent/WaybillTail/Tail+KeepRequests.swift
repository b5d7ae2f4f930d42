internal import WaybillSpool
internal import WaybillSystem

/// What the writers of spools were last seen to ask for, by folder.
struct KnownKeepRequests {
    /// How long what was read is used.
    private static let ageMax = Duration.seconds(5)

    private var keepRequests: [PathKey: Duration] = [:]
    private var readAt: MonotonicTime?

    /// Forgets what was read some seconds ago.
    mutating func refresh(_ now: MonotonicTime) {
        if let readAt, now - readAt < Self.ageMax { return }
        self.readAt = now
        self.keepRequests.removeAll(keepingCapacity: true)
    }

    /// How long shipped segments are to stay in a folder; `nil`: to be read.
    subscript(_ folder: PathKey) -> Duration? {
        get { self.keepRequests[folder] }
        set { self.keepRequests[folder] = newValue }
    }
}

/// Honours what spools ask for: that shipped segments stay for a while, whatever this agent's own limit of age is.
///
/// A request is looked for when a segment of its folder is shipped or may be too old, and remembered for some seconds; so a
/// folder without one costs one `fstatat(2)` in this time, and only while its segments are shipped.
extension Tail {
    /// With less space than this, nothing is kept because a spool asks for it.
    private static var keepFreeByteCountMin: Int { 64 << 20 }

    /// How long the writer of a spool wants shipped segments to stay; zero if it does not.
    mutating func keepRequest(of folder: FileID, at directory: String) throws(FileSystemError) -> Duration {
        let key = PathKey(directory)
        if let keepRequest = self.keeping.keepRequests[key] { return keepRequest }
        let keepRequest = try self.readKeepRequest(in: folder, at: Path.join(directory, KeepRequest.name))
        self.keeping.keepRequests[key] = keepRequest
        return keepRequest
    }

    private mutating func readKeepRequest(in folder: FileID, at path: String) throws(FileSystemError) -> Duration {
        do throws(FileSystemError) {
            guard let entry = try self.files.status(of: KeepRequest.name, in: folder),
                try self.isKeepRequest(entry, in: folder, at: path)
            else { return .zero }
            let file = try self.files.open(KeepRequest.name, in: folder)
            defer { self.files.close(file) }
            guard try self.isKeepRequest(try self.files.status(file), in: folder, at: path) else { return .zero }
            var bytes = [UInt8](repeating: 0, count: KeepRequest.byteCountMax + 1)
            let count = try self.files.readFully(file, at: 0, into: &bytes)
            return KeepRequest(parsing: Array(bytes[..<count]))?.duration ?? .zero
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

    /// Whether a file may be a request: it is of those who may write to the spool, as a segment must be, and not too long.
    private mutating func isKeepRequest(
        _ status: FileStatus, in folder: FileID, at path: String
    ) throws(FileSystemError) -> Bool {
        guard status.kind == .link || status.kind == .regular && status.byteCount <= KeepRequest.byteCountMax else {
            return false
        }
        guard let refusal = FileRefusal(ofSegment: status, in: try self.files.status(folder)) else { return true }
        self.notices.refuse(path, refusal)
        return false
    }

    /// How long these kept segments must stay, by their folder; zero on a disk that is full.
    mutating func keepRequests(of paths: [String]) -> [PathKey: Duration] {
        var keepRequests: [PathKey: Duration] = [:]
        for path in paths {
            let directory = Path.parent(of: path)
            let key = PathKey(directory)
            guard keepRequests[key] == nil else { continue }
            // Nothing goes for its age while that is unknown.
            keepRequests[key] = KeepRequest.durationMax
            do throws(FileSystemError) {
                guard let folder = try self.openSpool(of: path) else { continue }
                defer { self.files.close(folder) }
                let keepRequest = try self.keepRequest(of: folder, at: directory)
                let freeByteCount = try keepRequest > .zero ? self.files.space(at: directory).freeByteCount : 0
                keepRequests[key] = freeByteCount < Self.keepFreeByteCountMin ? .zero : keepRequest
            } catch {
                self.notices.complain(directory, .unreadable(path: directory, error))
            }
        }
        return keepRequests
    }
}
