/// A small durable map from text to text: the agent's registry and the projections' checkpoints.
///
///     waybill-state 1 LF                  once, at the head of the file
///     "+" SP key SP value LF              sets one entry
///     "-" SP key LF                       removes one entry
///     "=" SP count SP crc LF              commits the `count` lines before it; CRC-32 of their bytes, 8 hex digits
///
/// A commit is all or nothing: recovery takes whole commits up to the first that is torn or damaged and stops there,
/// so what it returns is a state that once was. The log is rewritten as one commit when it has grown to four times
/// what it holds; the file before that stays beside it as `.previous` and serves when the new one cannot be read.
/// A commit that failed may be on the disk all the same, and what opening finds may not be: the next commit, or
/// ``settle()``, writes the whole state anew.
/// Keys hold no space and no LF, values no LF. Everything is in memory: tens of thousands of entries, not millions.
///
/// - SeeAlso: `Protocol/formats/state.md`.
package struct StateStore<Files: FileSystem>: ~Copyable {
    /// What opening found.
    package struct Recovery: Hashable, Sendable {
        /// Entries read.
        package var entryCount = 0
        /// Bytes behind the last whole commit that were left out; a crash during a commit leaves some.
        package var tornByteCount = 0
        /// Where a file that held no usable state was set aside.
        package var damagedPaths: [String] = []
        /// Whether the state comes from the file before the last rewrite.
        package var isPrevious = false

        /// What was found damaged, for logs; empty when all was well.
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

    /// What is committed.
    package private(set) var entries: [String: String]
    package let recovery: Recovery

    private let path: String
    private let files: Files
    private var log: FileID?
    private var logByteCount = 0
    private var liveByteCount = 0
    /// Whether the disk may hold another state than ``entries``.
    private var isUncertain = false

    private static var head: String { "waybill-state 1\n" }
    /// Below this the log is not rewritten, whatever it holds.
    private static var rewriteByteCountMin: Int { 64 << 10 }

    /// Opens or begins the state at `path`; its directory must exist.
    package init(path: String, files: Files) throws(FileSystemError) {
        self.path = path
        self.files = files
        var recovery = Recovery()
        var entries: [String: String] = [:]
        for candidate in StateImage.paths(path) {
            guard let bytes = try files.contents(of: candidate, byteCountMax: 1 << 30), !bytes.isEmpty else { continue }
            guard let image = StateImage(bytes: bytes, head: Self.head) else {
                // With no other file a process died in the first commit; the next one writes over what it left.
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
            // A process that died may have left what it wrote to the kernel alone.
            self.isUncertain = true
            break
        }
        self.entries = entries
        self.recovery = recovery
        self.liveByteCount = entries.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count + 4 }
    }

    deinit {
        if let log { self.files.close(log) }
    }

    /// Makes `changes` durable together (`nil` removes), then visible in ``entries``.
    ///
    /// After an error nothing has changed in ``entries``, while the disk may hold either state; the next commit writes
    /// the whole state anew.
    package mutating func commit(_ changes: [String: String?]) throws(FileSystemError) {
        var lines: [UInt8] = []
        var liveByteCount = self.liveByteCount
        // Sorted, so that the same changes give the same bytes.
        for (key, value) in changes.sorted(by: { $0.key < $1.key }) {
            precondition(!key.utf8.contains { $0 == 0x20 || $0 == 0x0A }, "a key holds no space and no LF: \(key)")
            let old = self.entries[key]
            if let old { liveByteCount -= key.utf8.count + old.utf8.count + 4 }
            if let value {
                precondition(!value.utf8.contains(0x0A), "a value holds no LF: \(key)")
                liveByteCount += key.utf8.count + value.utf8.count + 4
                lines.append(contentsOf: "+ \(key) \(value)\n".utf8)
            } else {
                lines.append(contentsOf: "- \(key)\n".utf8)
            }
        }
        guard !changes.isEmpty else { return }
        lines.append(contentsOf: Self.commitLine(of: lines, count: changes.count))
        if let log, self.logByteCount + lines.count <= max(Self.rewriteByteCountMin, 4 * liveByteCount) {
            try self.append(lines, to: log)
            self.apply(changes)
        } else {
            let before = self.entries
            self.apply(changes)
            do throws(FileSystemError) {
                try self.rewrite()
            } catch {
                self.entries = before
                throw error
            }
        }
        self.liveByteCount = liveByteCount
    }

    /// Makes ``entries`` durable where they may not be: after opening and after a commit that failed.
    ///
    /// Whoever acts on what opening found, or undoes what belonged to a commit that failed, calls this first: after a
    /// crash the one could be gone and the other there.
    package mutating func settle() throws(FileSystemError) {
        if self.isUncertain { try self.rewrite() }
    }

    private mutating func apply(_ changes: [String: String?]) {
        for (key, value) in changes { self.entries[key] = value }
    }

    private mutating func append(_ lines: [UInt8], to log: FileID) throws(FileSystemError) {
        do throws(FileSystemError) {
            try self.files.writeAll(log, lines)
            try self.files.synchronize(log)
            self.logByteCount += lines.count
        } catch {
            self.distrustLog()
            throw error
        }
    }

    /// What reached the disk is unknown; a new file is the way to be sure again.
    private mutating func distrustLog() {
        if let log { self.files.close(log) }
        self.log = nil
        self.isUncertain = true
    }

    private mutating func rewrite() throws(FileSystemError) {
        var lines: [UInt8] = []
        for (key, value) in self.entries.sorted(by: { $0.key < $1.key }) {
            lines.append(contentsOf: "+ \(key) \(value)\n".utf8)
        }
        lines.append(contentsOf: Self.commitLine(of: lines, count: self.entries.count))
        let bytes = Array(Self.head.utf8) + lines
        let temporary = self.path + ".tmp"
        let file = try self.files.open(temporary, .replace)
        do throws(FileSystemError) {
            try self.files.writeAll(file, bytes)
            try self.files.synchronize(file)
            if try self.files.status(at: self.path) != nil {
                try self.files.rename(self.path, to: self.path + ".previous")
            }
            try self.files.rename(temporary, to: self.path)
            try self.files.synchronizeDirectory(Path.parent(of: self.path))
        } catch {
            self.files.close(file)
            // The open log may be `.previous` by now, which serves last.
            self.distrustLog()
            throw error
        }
        if let log { self.files.close(log) }
        self.log = file
        self.logByteCount = bytes.count
        self.isUncertain = false
    }

    private static func commitLine(of lines: [UInt8], count: Int) -> [UInt8] {
        Array("= \(count) \(Hexadecimal.text(CRC32.checksum(of: lines), digitCount: 8))\n".utf8)
    }

    private static func setAside(_ path: String, _ files: Files) throws(FileSystemError) -> String {
        var number = 1
        while try files.status(at: "\(path).damaged-\(number)") != nil { number += 1 }
        let aside = "\(path).damaged-\(number)"
        try files.rename(path, to: aside)
        return aside
    }
}

extension FileSystem {
    /// Appends all of an array.
    package func writeAll(_ file: FileID, _ bytes: [UInt8]) throws(FileSystemError) {
        var failure: FileSystemError?
        bytes.withUnsafeBytes { buffer in
            do throws(FileSystemError) {
                try self.writeAll(file, buffer)
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
    }
}

/// The state that a file's whole commits add up to.
package struct StateImage: Sendable {
    package private(set) var entries: [String: String] = [:]
    /// How far the whole commits reach.
    package private(set) var validByteCount = 0

    /// What a state's file may be called, the one that serves first in front: a process may have died while it wrote
    /// the state anew.
    package static let suffixes = ["", ".tmp", ".previous"]

    package static func paths(_ path: String) -> [String] {
        self.suffixes.map { path + $0 }
    }

    /// Reads the state at `path` as a ``StateStore`` would, and changes nothing; `nil` where there is none.
    package static func read(_ path: String, files: some FileSystem) throws(FileSystemError) -> StateImage? {
        for candidate in self.paths(path) {
            guard let bytes = try files.contents(of: candidate, byteCountMax: 1 << 30) else { continue }
            if let image = StateImage(bytes: bytes) { return image }
        }
        return nil
    }

    /// Reads whole commits up to the first torn or damaged one; `nil` when the head or the first commit is none.
    package init?(bytes: [UInt8], head: String = "waybill-state 1\n") {
        guard bytes.starts(with: head.utf8) else { return nil }
        var start = head.utf8.count
        var position = start
        var pending: [(key: String, value: String?)] = []
        var commitCount = 0
        scan: while let end = bytes[position...].firstIndex(of: 0x0A) {
            let line = bytes[position..<end]
            guard line.count >= 3, line[position + 1] == 0x20 else { break scan }
            let body = line.dropFirst(2)
            switch line[position] {
            case UInt8(ascii: "+"):
                guard let space = body.firstIndex(of: 0x20) else { break scan }
                pending.append(
                    (
                        String(decoding: body[..<space], as: UTF8.self),
                        String(decoding: body[(space + 1)...], as: UTF8.self)
                    ))
            case UInt8(ascii: "-"):
                pending.append((String(decoding: body, as: UTF8.self), nil))
            case UInt8(ascii: "="):
                let checksum = CRC32.checksum(of: bytes[start..<position])
                let expected = "\(pending.count) \(Hexadecimal.text(checksum, digitCount: 8))"
                guard body.elementsEqual(expected.utf8) else { break scan }
                for (key, value) in pending { self.entries[key] = value }
                pending.removeAll(keepingCapacity: true)
                start = end + 1
                self.validByteCount = start
                commitCount += 1
            default:
                break scan
            }
            position = end + 1
        }
        if commitCount == 0 { return nil }
    }
}
