internal import WaybillCompression
internal import WaybillSystem

/// The last group of a journal, which a start writes to disk once more.
///
/// After a failed sync the kernel marks the pages as clean: they can be read until the power fails, and no later sync
/// writes them. A process that dies between such a sync and the truncation after it leaves a group that looks whole. No
/// answer may rely on it until its bytes were written again and synced successfully.
///
///     1. <position>.group: the group's bytes, their checksum as 8 digits, LF; written as <position>.group.tmp, synced,
///        renamed, and the folder synced
///     2. the segment is truncated to the group's start, the group is appended and synced
///     3. <position>.group is deleted
///
/// After a crash in between, the next start finds the whole group next to the segment and restores it, once its name is
/// durable too: the process that renamed it may have died before. All earlier groups were followed by a successful
/// sync.
struct LastGroup {
    let segment: JournalPosition
    let start: JournalPosition
    let end: JournalPosition

    private static let suffix = ".group"

    private func path(in directory: String) -> String {
        Path.join(directory, "\(self.start.rawValue)\(Self.suffix)")
    }

    /// - Returns: whether the group was rewritten; if the disk has no room, it stays as found.
    func rewrite(
        in file: FileID, directory: String, files: some FileSystem
    ) throws(FileSystemError) -> Bool {
        guard self.start < self.end else { return false }
        let bytes = try Self.read(
            file, from: self.start.rawValue - self.segment.rawValue, byteCount: self.end.rawValue - self.start.rawValue,
            files)
        let path = self.path(in: directory)
        do throws(FileSystemError) {
            try files.replace(path, with: bytes + Self.trailer(of: bytes))
        } catch {
            guard error.errno == Errno.noSpace else { throw error }
            return false
        }
        try Self.putBack(bytes, at: self.start.rawValue - self.segment.rawValue, in: file, files)
        try files.unlink(path)
        return true
    }

    /// Completes the rewrite of a start that died.
    static func finishRewriting(directory: String, files: some FileSystem) throws(FileSystemError) {
        let names = try files.list(directory)
        let segments = names.compactMap(JournalPath.position(ofSegment:))
        for name in names where name.hasSuffix(Self.suffix) {
            guard let start = Int(name.dropLast(Self.suffix.utf8.count)) else { continue }
            let path = Path.join(directory, name)
            if let contents = try files.contents(of: path, byteCountMax: 1 << 30), let group = Self.group(in: contents),
                let segment = segments.max(), segment.rawValue <= start
            {
                let file = try files.open(JournalPath.segment(segment, in: directory), .append)
                defer { files.close(file) }
                let offset = start - segment.rawValue
                try files.synchronizeDirectory(directory)
                if try files.status(file).byteCount >= offset { try Self.putBack(group, at: offset, in: file, files) }
            }
            try files.unlink(path)
        }
    }

    private static func putBack(
        _ bytes: [UInt8], at offset: Int, in file: FileID, _ files: some FileSystem
    ) throws(FileSystemError) {
        try files.truncate(file, to: offset)
        try files.writeAll(file, bytes)
        try files.synchronize(file)
    }

    private static func trailer(of bytes: [UInt8]) -> [UInt8] {
        let checksum = bytes.withUnsafeBytes { FrameChecksum.checksum(continuing: 0, $0) }
        return Array("\(Hexadecimal.text(checksum, digitCount: 8))\n".utf8)
    }

    /// The bytes before the checksum; `nil` if it is wrong.
    private static func group(in contents: [UInt8]) -> [UInt8]? {
        guard contents.count > 9 else { return nil }
        let bytes = Array(contents.dropLast(9))
        return contents.suffix(9).elementsEqual(self.trailer(of: bytes)) ? bytes : nil
    }

    private static func read(
        _ file: FileID, from offset: Int, byteCount: Int, _ files: some FileSystem
    ) throws(FileSystemError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: byteCount)
        bytes.removeLast(bytes.count - (try files.readFully(file, at: offset, into: &bytes)))
        return bytes
    }
}
