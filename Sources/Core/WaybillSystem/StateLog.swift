/// A durable map from text to text, held only in its file: the agent's registry, and the base of a ``StateStore``.
///
///     waybill-state 1 LF                  once, at the head of the file
///     "+" SP key SP value LF              sets one entry
///     "-" SP key LF                       removes one entry
///     "=" SP count SP crc LF              commits the `count` lines before it; CRC-32 of their bytes, 8 hex digits
///
/// A commit is all or nothing: recovery reads complete commits up to the first torn or damaged one, so it always
/// returns an earlier state. The log is rewritten as one commit when it has grown to four times its content; the old
/// file is kept next to it as `.previous` and is used when the new one cannot be read. A failed commit may still be on
/// the disk, and what opening finds may not be durable: the next commit rewrites the whole state.
///
/// The entries found by opening are returned once, and the caller keeps the whole state, so that it is in memory in one
/// place at most. A rewrite is passed in parts, each written before the next is made.
///
/// - SeeAlso: `Protocol/formats/state.md`.
package struct StateLog<Files: FileSystem>: ~Copyable {
    package let recovery: StateRecovery
    /// Whether the disk may hold a state other than the last committed one.
    package private(set) var isUncertain = false

    package let path: String
    private let files: Files
    private var found: [String: String]
    private var log: FileID?
    private var logByteCount = 0

    /// A whole state being written; ends with ``StateLog/finish(_:)`` or the first error.
    package struct Rewrite {
        fileprivate let file: FileID
        /// Bytes that are not written yet.
        fileprivate var bytes: [UInt8]
        fileprivate var byteCount = 0
        fileprivate var lineCount = 0
        fileprivate var checksum = CRC32()
    }

    private static var head: String { "waybill-state 1\n" }
    /// Below this size the log is never rewritten.
    private static var rewriteByteCountMin: Int { 64 << 10 }

    /// Opens or creates the state at `path`; its directory must exist.
    package init(path: String, files: Files) throws(FileSystemError) {
        self.path = path
        self.files = files
        var recovery = StateRecovery()
        var entries: [String: String] = [:]
        for candidate in StateImage.paths(path) {
            guard let bytes = try files.contents(of: candidate, byteCountMax: 1 << 30), !bytes.isEmpty else { continue }
            guard let image = StateImage(bytes: bytes, head: Self.head) else {
                // If there is no other file, a process died in the first commit; the next commit overwrites the file.
                if candidate == path + ".tmp", try files.status(at: path + ".previous") == nil,
                    recovery.damagedPaths.isEmpty
                {
                    continue
                }
                let aside = try Self.setAside(candidate, files)
                recovery.damagedPaths.append(aside)
                continue
            }
            entries = image.entries
            recovery.entryCount = entries.count
            recovery.tornByteCount = bytes.count - image.validByteCount
            recovery.isPrevious = candidate != path
            // A process that died may have written it to the kernel without a sync.
            self.isUncertain = true
            break
        }
        self.found = entries
        self.recovery = recovery
    }

    deinit {
        if let log { self.files.close(log) }
    }

    /// The keys of the entries that opening found, until these are taken.
    package var keys: Dictionary<String, String>.Keys { self.found.keys }

    /// The entries that opening found; empty from the second call on.
    package mutating func takeEntries() -> [String: String] {
        let entries = self.found
        self.found = [:]
        return entries
    }

    /// Whether the file holds the last committed state, so that a commit can be appended; false after any error.
    package var isAppended: Bool { self.log != nil }

    /// Whether to append `lines`, to a state that has `liveByteCount` bytes with them; if not, rewrite the whole state.
    ///
    /// - Parameter spareByteCount: how much longer the file may be, where a rewrite would come too often.
    package func takes(_ lines: StateLines, liveByteCount: Int, spareByteCount: Int = 0) -> Bool {
        // The commit line is at most this long.
        let byteCount = self.logByteCount + lines.bytes.count + Self.commitByteCountMax
        return self.isAppended && byteCount <= max(Self.rewriteByteCountMin, 4 * liveByteCount) + spareByteCount
    }

    private static var commitByteCountMax: Int { 32 }

    /// Appends changes and makes them durable together.
    package mutating func append(_ lines: consuming StateLines) throws(FileSystemError) {
        try self.appendUnsynchronized(lines)
        try self.synchronize()
    }

    /// Appends changes as one commit, which survives the end of the process, and a power failure only after
    /// ``synchronize()``.
    package mutating func appendUnsynchronized(_ lines: consuming StateLines) throws(FileSystemError) {
        guard let log else { preconditionFailure("a log that is not open must be rewritten") }
        let commitLine = Self.commitLine(count: lines.count, CRC32.checksum(of: lines.bytes))
        lines.bytes.append(contentsOf: commitLine)
        do throws(FileSystemError) {
            try self.files.writeAll(log, lines.bytes)
            self.logByteCount += lines.bytes.count
        } catch {
            self.distrustLog()
            throw error
        }
    }

    /// Makes everything that was appended durable.
    package mutating func synchronize() throws(FileSystemError) {
        guard let log else { preconditionFailure("a log that is not open must be rewritten") }
        do throws(FileSystemError) {
            try self.files.synchronize(log)
        } catch {
            self.distrustLog()
            throw error
        }
    }

    // MARK: The whole state

    package mutating func beginRewrite() throws(FileSystemError) -> Rewrite {
        do throws(FileSystemError) {
            let file = try self.files.open(self.path + ".tmp", .replace)
            return Rewrite(file: file, bytes: Array(Self.head.utf8))
        } catch {
            self.distrustLog()
            throw error
        }
    }

    /// Writes a part of the whole state.
    package mutating func write(_ lines: StateLines, to rewrite: inout Rewrite) throws(FileSystemError) {
        // The last part is written together with the commit line.
        if rewrite.lineCount > 0 { try self.flush(&rewrite) }
        rewrite.checksum.update(lines.bytes)
        rewrite.lineCount += lines.count
        rewrite.bytes.append(contentsOf: lines.bytes)
    }

    /// Makes the written state durable in place of the old one.
    package mutating func finish(_ rewrite: Rewrite) throws(FileSystemError) {
        var rewrite = rewrite
        rewrite.bytes += Self.commitLine(count: rewrite.lineCount, rewrite.checksum.value)
        try self.flush(&rewrite)
        do throws(FileSystemError) {
            try self.files.synchronize(rewrite.file)
            if try self.files.status(at: self.path) != nil {
                try self.files.rename(self.path, to: self.path + ".previous")
            }
            try self.files.rename(self.path + ".tmp", to: self.path)
            try self.files.synchronizeDirectory(Path.parent(of: self.path))
        } catch {
            self.abandon(rewrite)
            throw error
        }
        if let log { self.files.close(log) }
        self.log = rewrite.file
        self.logByteCount = rewrite.byteCount
        self.isUncertain = false
    }

    private mutating func flush(_ rewrite: inout Rewrite) throws(FileSystemError) {
        do throws(FileSystemError) {
            try self.files.writeAll(rewrite.file, rewrite.bytes)
            rewrite.byteCount += rewrite.bytes.count
            rewrite.bytes.removeAll(keepingCapacity: true)
        } catch {
            self.abandon(rewrite)
            throw error
        }
    }

    /// The open log may already be `.previous`, which is used last.
    private mutating func abandon(_ rewrite: Rewrite) {
        self.files.close(rewrite.file)
        self.distrustLog()
    }

    /// It is unknown what reached the disk; only a new file makes it certain again.
    private mutating func distrustLog() {
        if let log { self.files.close(log) }
        self.log = nil
        self.isUncertain = true
    }

    private static func commitLine(count: Int, _ checksum: UInt32) -> [UInt8] {
        Array("= \(count) \(Hexadecimal.text(checksum, digitCount: 8))\n".utf8)
    }

    private static func setAside(_ path: String, _ files: Files) throws(FileSystemError) -> String {
        var number = 1
        while try files.status(at: "\(path).damaged-\(number)") != nil { number += 1 }
        let aside = "\(path).damaged-\(number)"
        try files.rename(path, to: aside)
        return aside
    }
}

/// The result of opening a state.
package struct StateRecovery: Hashable, Sendable {
    /// Entries read.
    package var entryCount = 0
    /// Bytes after the last complete commit that were left out; a crash during a commit leaves some.
    package var tornByteCount = 0
    /// Where files without a usable state were set aside.
    package var damagedPaths: [String] = []
    /// Whether the state comes from the file before the last rewrite.
    package var isPrevious = false

    /// The damage found, for logs; empty when there is none.
    package var notes: [String] {
        var notes: [String] = []
        if self.tornByteCount > 0 {
            notes.append("\(self.tornByteCount) bytes of the checkpoint hold no whole commit and are left out")
        }
        notes += self.damagedPaths.map { "a checkpoint that cannot be read was set aside as \($0)" }
        if self.isPrevious { notes.append("the checkpoint before the last rewrite is used") }
        return notes
    }
}

/// The lines of one commit.
package struct StateLines: Sendable {
    package fileprivate(set) var bytes: [UInt8] = []
    package private(set) var count = 0

    package init() {}

    /// The bytes of an entry in the file.
    package static func byteCount(of key: String, _ value: String) -> Int {
        key.utf8.count + value.utf8.count + 4
    }

    package mutating func set(_ key: String, _ value: String) {
        Self.check(key)
        precondition(!value.utf8.contains(0x0A), "a value holds no LF: \(key)")
        self.bytes.append(contentsOf: "+ \(key) \(value)\n".utf8)
        self.count += 1
    }

    package mutating func remove(_ key: String) {
        Self.check(key)
        self.bytes.append(contentsOf: "- \(key)\n".utf8)
        self.count += 1
    }

    private static func check(_ key: String) {
        precondition(!key.utf8.contains { $0 == 0x20 || $0 == 0x0A }, "a key holds no space and no LF: \(key)")
    }
}

extension FileSystem {
    /// Appends all of an array.
    package func writeAll(_ file: FileID, _ bytes: [UInt8]) throws(FileSystemError) {
        try bytes.withBytes { (buffer) throws(FileSystemError) in try self.writeAll(file, buffer) }
    }
}
