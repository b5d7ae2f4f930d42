internal import WaybillData
internal import WaybillProtocol
internal import WaybillSpool
package import WaybillSystem

/// One finding of an inspection; its fields have stable names and a stable order.
package struct InspectItem: Hashable, Sendable {
    package enum Value: Hashable, Sendable {
        case text(String)
        case number(Int)
    }

    package struct Field: Hashable, Sendable {
        package let name: String
        package let value: Value
    }

    /// `file`, `directory`, `gzip`, `day`, `batch`, `group`, `open`, `skip`, `seal`, `entry`, `run`, `record`, `line`, `more`, `damage`,
    /// `unreadable`, `note`.
    package let kind: String
    package private(set) var fields: [Field] = []

    init(_ kind: String) {
        self.kind = kind
    }

    func with(_ name: String, _ text: String) -> InspectItem {
        var item = self
        item.fields.append(Field(name: name, value: .text(text)))
        return item
    }

    func with(_ name: String, _ number: Int) -> InspectItem {
        var item = self
        item.fields.append(Field(name: name, value: .number(number)))
        return item
    }
}

/// Reports the content of Waybill's files and folders, what is damaged, and what a start would keep.
///
/// Files are recognized by their content; names matter only if two formats look alike. Nothing is written or locked.
/// Only one frame or line, one whole state store, and the names in one folder are in memory at a time.
package struct Inspector<Files: FileSystem> {
    /// How much is reported.
    package struct Limits: Sendable {
        /// Items of one file.
        package var itemCountMax = 20
        /// Files of a folder.
        package var fileCountMax = 200

        package init() {}

        package static var none: Limits {
            var limits = Limits()
            limits.itemCountMax = .max
            limits.fileCountMax = .max
            return limits
        }
    }

    let files: Files
    private let limits: Limits
    private let emit: (InspectItem) -> Void
    /// Whether anything is damaged.
    package private(set) var isDamaged = false
    /// Whether anything could not be read or does not exist.
    package private(set) var isUnreadable = false
    private var itemCount = 0
    /// Within a folder, the items of a file are left out.
    private var isBrief = false
    private var fileCount = 0

    package init(files: Files, limits: Limits = Limits(), emit: @escaping (InspectItem) -> Void) {
        self.files = files
        self.limits = limits
        self.emit = emit
    }

    /// Inspects a file or a folder.
    package mutating func inspect(_ path: String) {
        do throws(FileSystemError) {
            guard let status = try self.files.status(at: path) else {
                return self.unreadable(path, "it does not exist")
            }
            switch status.kind {
            case .regular: try self.inspectFile(path, status)
            case .directory: try self.inspectDirectory(path)
            case .other, .link: self.unreadable(path, "it is neither a file nor a folder")
            }
        } catch {
            self.unreadable(path, "\(error)")
        }
    }

    // MARK: Reporting

    private func unreadableItem(_ path: String, _ reason: String) -> InspectItem {
        InspectItem("unreadable").with("path", path).with("reason", reason)
    }

    private mutating func unreadable(_ path: String, _ reason: String) {
        self.isUnreadable = true
        self.emit(self.unreadableItem(path, reason))
    }

    mutating func damage(_ path: String, at offset: Int, byteCount: Int, _ reason: String, keeps: String) {
        self.isDamaged = true
        self.emit(
            InspectItem("damage").with("path", path).with("offset", offset).with("bytes", byteCount)
                .with("reason", reason).with("start", keeps))
    }

    /// Reports an item of a file; left out when the limit is exceeded.
    mutating func item(_ item: @autoclosure () -> InspectItem) {
        self.itemCount += 1
        if !self.isBrief, self.itemCount <= self.limits.itemCountMax { self.emit(item()) }
    }

    mutating func note(_ text: String) {
        self.emit(InspectItem("note").with("text", text))
    }

    private mutating func header(_ path: String, _ type: String, _ status: FileStatus) {
        self.itemCount = 0
        self.fileCount += 1
        guard !self.isBrief || self.fileCount <= self.limits.fileCountMax else { return }
        self.emit(InspectItem("file").with("path", path).with("type", type).with("bytes", status.byteCount))
    }

    private mutating func footer() {
        if !self.isBrief, self.itemCount > self.limits.itemCountMax {
            self.emit(InspectItem("more").with("count", self.itemCount - self.limits.itemCountMax))
        }
    }

    // MARK: Folders

    private mutating func inspectDirectory(_ path: String) throws(FileSystemError) {
        let names = try self.files.list(path)
        let set = Set(names)
        let type: String
        if set.contains("journal"), set.contains("state") || set.contains("archive") {
            type = "data-directory"
        } else if names.contains(where: { JournalPath.position(ofSegment: $0) != nil }) {
            type = "journal"
        } else if set.contains("registry.state") {
            type = "agent-state"
        } else if names.contains(where: { SegmentName(parsing: $0) != nil }) {
            type = "spool"
        } else {
            type = "folder"
        }
        var item = InspectItem("directory").with("path", path).with("type", type).with("entries", names.count)
        for lock in ["lock", "state/lock"] {
            if let owner = try self.owner(ofLock: Path.join(path, lock)) { item = item.with("in_use_by_pid", owner) }
        }
        self.emit(item)
        let wasBrief = self.isBrief
        self.isBrief = true
        self.visit(path, names)
        self.isBrief = wasBrief
        if !wasBrief, self.fileCount > self.limits.fileCountMax {
            self.emit(InspectItem("more").with("files", self.fileCount - self.limits.fileCountMax))
        }
    }

    private mutating func visit(_ path: String, _ names: [String]) {
        let segments = names.compactMap(JournalPath.position(ofSegment:)).sorted()
        for name in names {
            let child = Path.join(path, name)
            do throws(FileSystemError) {
                // A folder in use by a receiver changes while it is read.
                guard let status = try self.files.status(at: child) else { continue }
                switch status.kind {
                case .directory: self.visit(child, try self.files.list(child))
                case .regular:
                    let next = JournalPath.position(ofSegment: name).flatMap { own in segments.first { $0 > own } }
                    try self.inspectFile(child, status, nextSegment: next)
                case .other, .link: continue
                }
            } catch {
                self.unreadable(child, "\(error)")
            }
        }
    }

    /// The process that holds a lock file, according to the kernel's table; `nil` if it is free or unknown.
    package func owner(ofLock path: String) throws(FileSystemError) -> Int? {
        guard let status = try self.files.status(at: path), try self.files.status(at: "/proc/locks") != nil else {
            return nil
        }
        var reader = try LineReader(path: "/proc/locks", files: self.files)
        while let line = try reader.next() {
            // 1: FLOCK  ADVISORY  WRITE 4242 08:01:131090 0 EOF
            let fields = String(decoding: line.bytes, as: UTF8.self).split(separator: " ")
            guard fields.count >= 6, fields[1] == "FLOCK",
                fields[5].split(separator: ":").last.flatMap({ UInt64($0) })
                    == status.identity.inode
            else { continue }
            return Int(fields[4])
        }
        return nil
    }

    // MARK: Files

    private mutating func inspectFile(
        _ path: String, _ status: FileStatus, nextSegment: JournalPosition? = nil
    ) throws(FileSystemError) {
        let type = try self.type(of: path, status)
        self.header(path, type.name, status)
        switch type {
        case .empty, .install, .generation: break
        case .lock:
            if let owner = try self.owner(ofLock: path) { self.item(InspectItem("entry").with("held_by_pid", owner)) }
        case .gzip: try self.inspectGzip(path, status)
        case .dayManifest: try self.inspectDayManifest(path, status)
        case .journalSegment(let base):
            try self.inspectSegment(path, base: base, byteCount: status.byteCount, next: nextSegment)
        case .state: try self.inspectState(path)
        case .sources: try self.inspectSources(path, status)
        case .manifest: try self.inspectManifest(path, status)
        case .records where path.hasSuffix(".export"): try self.inspectEntries(path, status)
        case .ids, .heldIDs, .lines, .deadLetters, .records: try self.inspectLines(path, type)
        case .unknown:
            // In a folder, the file may belong to another program.
            if self.isBrief {
                self.note("\(path) is not a file of Waybill's")
            } else {
                self.damage(
                    path, at: 0, byteCount: status.byteCount, "it is not a file of Waybill's",
                    keeps: "nothing; a start sets it aside if it expects another file there")
            }
        }
        self.footer()
    }
}
