internal import WaybillProtocol
package import WaybillSystem

/// What a tail has to tell: notices in the order of events, each about a path once, and their counts since the start.
package struct TailNotices {
    /// So many problems are reported, for example in a folder with many bad files.
    static let complaintCountMax = 65_536

    /// Oldest first.
    private(set) var pending: [TailNotice] = []
    /// The losses, each also reported in a notice.
    package private(set) var loss = TailLoss()
    /// Files and folders that could not be read at the last attempt, by path.
    package private(set) var unreadable: Set<PathKey> = []
    /// How many foreign files had which format; compressed ones are among ``refusals``.
    package private(set) var formats: [ForeignFormat: Int] = [:]
    /// How many paths were refused.
    package private(set) var refusals: [FileRefusal: Int] = [:]
    /// Paths already reported.
    private var complaints: Set<PathKey> = []
    /// Compressed files that are not told yet, by folder.
    private var compressed: [PathKey: (first: String, count: Int)] = [:]

    /// Files that were not found again and may have had more lines, by the folders where they were looked for.
    private var unseen: [[String]: (first: String, count: Int)] = [:]
    /// How many such files there were.
    package private(set) var unseenEndCount = 0

    /// Whether something could not be opened because the process has no descriptor left.
    private var lacksDescriptors = false

    /// So many files are named that one look finds: at the start there may be 100,000.
    private static let discoveredCountMax = 1000
    private var discoveredCount = 0

    mutating func append(_ notice: TailNotice) {
        if case .discovered = notice {
            self.discoveredCount += 1
            guard self.discoveredCount <= Self.discoveredCountMax else { return }
        }
        self.pending.append(notice)
    }

    /// Returns the notices since the last call.
    mutating func take() -> [TailNotice] {
        self.tellCompressed()
        self.tellUnseen()
        let unnamedCount = self.discoveredCount - Self.discoveredCountMax
        if unnamedCount > 0 { self.pending.append(.moreDiscovered(count: unnamedCount)) }
        self.discoveredCount = 0
        let notices = self.pending
        self.pending = []
        return notices
    }

    /// Whether descriptors were lacking since the last call.
    mutating func takeLackOfDescriptors() -> Bool {
        defer { self.lacksDescriptors = false }
        return self.lacksDescriptors
    }

    /// Reports a problem once for each path; a lack of descriptors is none of the path's, nor is a mount that hangs.
    ///
    /// - Returns: whether this one is reported.
    @discardableResult
    mutating func complain(_ path: String, _ notice: TailNotice) -> Bool {
        if case .unreadable(_, let error) = notice {
            if self.unreadable.count < Self.complaintCountMax { self.unreadable.insert(PathKey(path)) }
            if error.code == .tooManyFiles {
                self.lacksDescriptors = true
                return false
            }
            if error.code == .hanging { return false }
        }
        if case .segmentUndeletable(_, _, let error) = notice, error.code == .hanging { return false }
        guard self.isFirst(path) else { return false }
        self.pending.append(notice)
        return true
    }

    private mutating func isFirst(_ subject: String) -> Bool {
        self.complaints.count < Self.complaintCountMax && self.complaints.insert(PathKey(subject)).inserted
    }

    /// Begins another look, which finds again what cannot be read.
    mutating func beginLook() {
        self.unreadable.removeAll(keepingCapacity: true)
    }

    /// Reports and counts a refused file, once for each path.
    mutating func refuse(_ path: String, _ refusal: FileRefusal) {
        guard self.complain(path, .refused(path: path, refusal)) else { return }
        self.refusals[refusal, default: 0] += 1
    }

    /// Refuses a compressed file; rotated logs whose names say it are told once for their folder.
    mutating func refuseCompressed(_ path: String) {
        guard ForeignFormat.isNameOfCompressed(Path.name(of: path)) else { return self.refuse(path, .compressed) }
        guard self.isFirst(path) else { return }
        self.refusals[.compressed, default: 0] += 1
        self.compressed[PathKey(Path.parent(of: path)), default: (path, 0)].count += 1
    }

    private mutating func tellCompressed() {
        guard !self.compressed.isEmpty else { return }
        for (folder, files) in self.compressed.sorted(by: { $0.key.text < $1.key.text })
        where self.isFirst("compressed:\(folder.text)") {
            self.pending.append(.compressed(folder: folder.text, first: files.first, count: files.count))
        }
        self.compressed = [:]
    }

    mutating func unseenEnd(of path: String, searched folders: [String]) {
        self.unseenEndCount += 1
        self.unseen[folders, default: (path, 0)].count += 1
    }

    private mutating func tellUnseen() {
        for (folders, files) in self.unseen.sorted(by: { $0.value.first < $1.value.first }) {
            self.pending.append(.unseenEnds(folders: folders, first: files.first, count: files.count))
        }
        self.unseen = [:]
    }

    /// Reports and counts a file that is shipped although its lines are probably no events, once for each path.
    mutating func recognized(_ format: ForeignFormat, of path: String) {
        guard self.isFirst("format:\(path)") else { return }
        self.formats[format, default: 0] += 1
        self.pending.append(.recognized(path: path, format))
    }

    /// Reports that NULs before a line are skipped, once for each content of a file.
    mutating func skipHole(_ id: StreamID, _ notice: TailNotice) {
        if self.isFirst("hole:\(id)") { self.pending.append(notice) }
    }

    /// Reports and counts lost bytes.
    mutating func lost(_ notice: TailNotice, _ byteCount: Int) {
        self.pending.append(notice)
        guard byteCount > 0 else { return }
        self.loss.byteCount += byteCount
        self.loss.occasionCount += 1
    }
}
