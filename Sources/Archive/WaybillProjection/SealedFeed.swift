internal import WaybillData
package import WaybillSystem

/// Finds each new revision of a sealed day once, and remembers in a cursor which it has handed out.
///
///     a pass: archive/env=…/bundle=…/date=…/manifest.json ─▶ same inode, size and time as remembered ─▶ nothing
///             exports/…/env=…/date=…/manifest.json        ─▶ else: read ─▶ announced ─▶ handed out ─▶ remembered
///
/// A pass costs one `stat` for each day, and reads only days that changed; in memory is one entry for each day, of at most
/// 1 KiB. It changes nothing below the data directory.
///
/// The order of durable steps, for one line:
///
///     commit: the line that is about to be handed out, and the length of the file that takes it, if it is one
///     the line is handed out
///     commit: the day's revision, together with the next line's announcement
///
/// So a process that died leaves at most one line of which it is not known whether it was handed out. If a file takes
/// the lines, its length tells; a torn line is completed. Else the line is handed out once more, marked as a repetition.
///
/// - SeeAlso: `Protocol/formats/sealed.md`.
package struct SealedFeed<Files: FileSystem>: ~Copyable {
    /// Where lines go, as far as it can be asked how many bytes it has.
    package struct Output: Hashable, Sendable {
        package let identity: FileIdentity
        package let byteCount: Int

        package init(identity: FileIdentity, byteCount: Int) {
            self.identity = identity
            self.byteCount = byteCount
        }

        fileprivate var text: String { "\(self.identity.device):\(self.identity.inode):\(self.byteCount)" }

        fileprivate init?(text: some StringProtocol) {
            let numbers = text.split(separator: ":")
            guard numbers.count == 3, let device = UInt64(numbers[0]), let inode = UInt64(numbers[1]),
                let byteCount = Int(numbers[2])
            else { return nil }
            self.init(identity: FileIdentity(device: device, inode: inode), byteCount: byteCount)
        }
    }

    /// What must be written for the line that a process announced before it died.
    package enum Rest: Hashable, Sendable {
        /// These bytes: all of the line, or what is missing of it.
        case bytes([UInt8])
        /// The line, marked as a repetition: it may have been handed out.
        case again([UInt8])
    }

    private let root: String
    private let files: Files
    private var state: StateStore<Files>
    /// What the next commit remembers.
    private var done: [String: String?] = [:]

    private static var announcedKey: String { "announced" }

    /// Opens or creates the cursor; its folder must exist.
    package init(data: String, cursor: String, files: Files) throws(FileSystemError) {
        var state = try StateStore(path: cursor, files: files)
        try state.settle()
        self.root = data
        self.files = files
        self.state = state
    }

    package var recovery: StateRecovery { self.state.recovery }

    // MARK: Lines

    /// What is left of the line that was announced last; `nil` if it was handed out, or there is none.
    package mutating func rest(_ output: Output?) throws(FileSystemError) -> Rest? {
        guard let text = self.state.entries[Self.announcedKey] else { return nil }
        let fields = text.split(separator: " ", maxSplits: 4)
        guard fields.count == 5 else {
            try self.state.commit([Self.announcedKey: String?.none])
            return nil
        }
        let line = Array(fields[4].utf8)
        self.done = [String(fields[0]): fields[1...2].joined(separator: " "), Self.announcedKey: String?.none]
        guard let output, let before = Output(text: fields[3]), before.identity == output.identity,
            before.byteCount <= output.byteCount
        else { return .again(line) }
        let written = output.byteCount - before.byteCount
        guard written < line.count + 1 else {
            try self.confirm()
            return nil
        }
        return .bytes(Array((line + [0x0A])[written...]))
    }

    /// Records that a line is about to be handed out; what was handed out before is remembered with it.
    package mutating func announce(_ found: Found, _ output: Output?) throws(FileSystemError) {
        let line = String(decoding: found.day.line, as: UTF8.self)
        let value = "\(found.day.id) \(found.stamp)"
        var changes = self.done
        changes[Self.announcedKey] = "\(found.day.path) \(value) \(output?.text ?? "-") \(line)"
        try self.state.commit(changes)
        self.done = [found.day.path: value, Self.announcedKey: String?.none]
    }

    /// Remembers what was handed out.
    package mutating func confirm() throws(FileSystemError) {
        try self.state.commit(self.done)
        self.done = [:]
    }

    /// A line marked as a repetition.
    package static func marked(_ line: [UInt8]) -> [UInt8] {
        Array(line.dropLast()) + Array(",\"again\":true}".utf8)
    }

    // MARK: A pass

    /// A day to hand out.
    package struct Found {
        package let day: DayRevision
        fileprivate let stamp: String
    }

    /// Looks at every day once, in the order of paths, and calls `take` for each that has a revision not handed out.
    ///
    /// - Parameter take: returns whether to continue; it announces and hands out.
    /// - Returns: whether the pass was finished.
    package mutating func pass(
        _ take: (inout SealedFeed, Found) throws(FileSystemError) -> Bool
    ) throws(FileSystemError) -> Bool {
        var knownCount = 0
        for (top, depth) in [("archive", 3), ("exports", 3)] {
            guard try self.visit(top, depth: depth, &knownCount, take) else { return false }
        }
        if !self.done.isEmpty { try self.confirm() }
        if knownCount < self.state.entries.count { try self.forgetDeleted() }
        return true
    }

    /// - Parameter depth: how many folders lie between this one and the files.
    private mutating func visit(
        _ path: String, depth: Int, _ knownCount: inout Int,
        _ take: (inout SealedFeed, Found) throws(FileSystemError) -> Bool
    ) throws(FileSystemError) -> Bool {
        guard depth > 0 else { return try self.visitDay(path, &knownCount, take) }
        let folder = Path.join(self.root, path)
        guard try self.files.status(ofEntry: folder)?.kind == .directory else { return true }
        for name in try self.files.list(folder).sorted() {
            // Folders of a replay that is not finished, and files next to the days, are no days.
            if name.hasPrefix(".") || (depth < 3 && !name.contains("=")) { continue }
            guard try self.visit("\(path)/\(name)", depth: depth - 1, &knownCount, take) else { return false }
        }
        return true
    }

    private mutating func visitDay(
        _ path: String, _ knownCount: inout Int, _ take: (inout SealedFeed, Found) throws(FileSystemError) -> Bool
    ) throws(FileSystemError) -> Bool {
        let manifest = Path.join(Path.join(self.root, path), DayFolder.manifestName)
        let known = self.state.entries[path]
        if known != nil { knownCount += 1 }
        guard let status = try self.files.status(ofEntry: manifest), status.kind == .regular else { return true }
        let stamp = "\(status.identity.inode):\(status.byteCount):\(status.modified)"
        let parts = known?.split(separator: " ")
        if let parts, parts.count == 2, parts[1] == stamp { return true }
        guard let day = try DayRevision(path: path, root: self.root, files: self.files) else { return true }
        if let parts, parts.first.map(String.init) == day.id {
            // The same manifest in another file, as after a restore from a backup.
            self.done[path] = "\(day.id) \(stamp)"
            return true
        }
        return try take(&self, Found(day: day, stamp: stamp))
    }

    /// Forgets days whose folder retention has deleted: the cursor grows only with the data directory.
    private mutating func forgetDeleted() throws(FileSystemError) {
        var changes: [String: String?] = [:]
        for path in self.state.entries.keys where path.contains("/") {
            if try self.files.status(ofEntry: Path.join(self.root, path)) == nil {
                changes.updateValue(nil, forKey: path)
            }
        }
        try self.state.commit(changes)
    }
}
