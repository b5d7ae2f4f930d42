internal import WaybillProtocol
internal import WaybillSystem

/// The findings of opening a journal.
package struct JournalRecovery: Hashable, Sendable {
    package var streamCount = 0
    package var batchCount = 0
    package var end = JournalPosition(0)
    /// Bytes of unacknowledged groups after the last whole one, cut off and kept next to the journal.
    package var tornByteCount = 0
    /// The file that keeps these bytes: a separate one, or the segment itself; `nil` if the disk had no room.
    package var tornPath: String?
    /// Unreadable ranges in the middle; they stay where they are.
    package var damages: [JournalDamage] = []
    /// Whether something was lost since the present incarnation began: a start then begins another one.
    package var isLossy = false
    /// Segments without readable content, set aside.
    package var setAsidePaths: [String] = []
    /// Bytes of the last group, which was rewritten to disk before any answer relied on it.
    package var rewrittenByteCount = 0

    struct Found {
        var report = JournalRecovery()
        var table = StreamTable()
        var end = JournalPosition(0)
        var segments: [JournalPosition] = []
        /// The last time of receipt that is known.
        fileprivate(set) var lastMark = WallTime.unknown
        /// The folder that was read.
        fileprivate(set) var directoryIdentity: FileIdentity?
    }

    /// Reads the last segment, cuts off its torn end, and rebuilds the stream table.
    static func recover(directory: String, files: some FileSystem) throws(FileSystemError) -> Found {
        var found = Found()
        found.directoryIdentity = try files.status(at: directory)?.identity
        try LastGroup.finishRewriting(directory: directory, files: files)
        found.segments = try JournalPath.segments(in: directory, files)
        var limit = JournalPosition(Int.max)
        while let last = found.segments.last {
            let path = JournalPath.segment(last, in: directory)
            let fileEnd = JournalPosition(last.rawValue + (try files.status(at: path)?.byteCount ?? 0))
            if let scan = try self.scan(last, upTo: min(fileEnd, limit), directory: directory, files: files) {
                let previous =
                    scan.isHeadDamaged
                    ? try self.tableBefore(found.segments, directory: directory, files: files) : nil
                found.take(scan, try scan.builder.table(of: path, on: previous, files: files))
                try self.secure(last, scan, to: fileEnd, directory: directory, files: files, into: &found)
                break
            }
            // Not even the table in its head is whole: it was being created and has no acknowledged batch.
            let aside = try JournalPath.unused(path + ".torn", files)
            try files.rename(path, to: aside)
            found.report.setAsidePaths.append(aside)
            found.segments.removeLast()
            // Its name is the end of the previous segment, even if that one was abandoned with more bytes.
            limit = last
        }
        let missing = try self.missingRanges(found.segments, directory: directory, files: files)
        found.report.damages = missing + found.report.damages
        found.report.end = found.end
        found.report.streamCount = found.table.streams.count
        return found
    }

    /// Missing ranges between the end of a segment's file and the position in the next one's name.
    private static func missingRanges(
        _ segments: [JournalPosition], directory: String, files: some FileSystem
    ) throws(FileSystemError) -> [JournalDamage] {
        var missing: [JournalDamage] = []
        for (segment, next) in zip(segments, segments.dropFirst()) {
            let path = JournalPath.segment(segment, in: directory)
            let end = JournalPosition(segment.rawValue + (try files.status(at: path)?.byteCount ?? 0))
            guard end < next else { continue }
            missing.append(
                JournalDamage(
                    segment: segment, start: end, end: next,
                    reason: "the file ends early, or the next segment is missing"))
        }
        return missing
    }

    /// The stream table at the end of the last segment but one; `nil` if that is missing or unreadable.
    private static func tableBefore(
        _ segments: [JournalPosition], directory: String, files: some FileSystem
    ) throws(FileSystemError) -> StreamTable? {
        guard segments.count > 1 else { return nil }
        let (previous, last) = (segments[segments.count - 2], segments[segments.count - 1])
        let scan = try self.scan(previous, upTo: last, directory: directory, files: files)
        return try scan?.builder.table(of: JournalPath.segment(previous, in: directory), on: nil, files: files)
    }

    struct Scan {
        var builder = TableBuilder()
        var end: JournalPosition
        /// The start of the last group.
        var groupStart: JournalPosition
        var batchCount = 0
        var damages: [JournalDamage] = []
        var lastMark = WallTime.unknown
        /// Whether the table in the segment's head is damaged while groups after it are valid.
        var isHeadDamaged = false
    }

    /// Reads a segment; `nil` if nothing in it is whole.
    static func scan(
        _ base: JournalPosition, upTo limit: JournalPosition, directory: String, files: some FileSystem
    ) throws(FileSystemError) -> Scan? {
        var scan = Scan(end: base, groupStart: base)
        // A mark that covers only itself begins a group.
        var hasUncovered = false
        var scanner = try SegmentScanner(segment: base, in: directory, limit: limit, files: files)
        // After the last mark or batch: lines there may be a damaged batch.
        var confirmed = base
        while true {
            let start = scanner.position
            switch try scanner.next() {
            case .message(.mark):
                if scanner.receivedAt != .unknown { scan.lastMark = scanner.receivedAt }
                if !hasUncovered { scan.groupStart = start }
                hasUncovered = false
                scan.builder.confirm()
                scan.end = scanner.position
                confirmed = scan.end
            case .message(let message):
                hasUncovered = true
                scan.builder.add(message)
            case .batch(let header, let description, _):
                hasUncovered = false
                // A mark separates lines from a batch, unless it is damaged.
                scan.builder.forgetUnconfirmed()
                scan.builder.add(
                    header, of: description, at: scanner.position.rawValue - base.rawValue - header.wireByteCount,
                    isVerified: !scanner.isDescriptionUnverified)
                scan.end = scanner.position
                confirmed = scan.end
                scan.batchCount += 1
            case .end:
                return scan.end == base ? nil : scan
            case .damaged(let reason):
                guard try scanner.resynchronize() else { return scan.end == base ? nil : scan }
                if scan.end == base { scan.isHeadDamaged = true }
                hasUncovered = false
                if scanner.isStreamUnknown { scan.end = scanner.position }
                scan.builder.forgetUnconfirmed()
                scan.damages.append(
                    JournalDamage(segment: base, start: confirmed, end: scanner.position, reason: reason))
                confirmed = scanner.position
            }
        }
    }

    /// Cuts off the torn end and makes the rest durable: after a process died, it may be only in the kernel's cache.
    ///
    /// The last group is rewritten: the previous process may have died after its sync failed, and then the kernel shows
    /// bytes that no later sync would write.
    private static func secure(
        _ base: JournalPosition, _ scan: Scan, to limit: JournalPosition, directory: String, files: some FileSystem,
        into found: inout Found
    ) throws(FileSystemError) {
        let end = scan.end
        let path = JournalPath.segment(base, in: directory)
        let file = try files.open(path, .append)
        defer { files.close(file) }
        // The end of the last group, or of the tail if it stays in the segment.
        var groupEnd = end
        if end < limit {
            found.report.tornByteCount = limit.rawValue - end.rawValue
            let aside = try JournalPath.unused(Path.join(directory, "\(end.rawValue).torn"), files)
            let offset = end.rawValue - base.rawValue
            switch try self.keepTail(of: file, from: offset, as: aside, files: files) {
            case .copied:
                found.report.tornPath = aside
                try files.truncate(file, to: offset)
            case .noRoom:
                // Nothing of it was acknowledged: a full disk must not keep the receiver from starting.
                try files.truncate(file, to: offset)
            case .failed:
                // The name of the next segment excludes these bytes from the journal.
                found.report.tornPath = path
                groupEnd = limit
            }
        }
        try files.synchronize(file)
        try files.synchronizeDirectory(directory)
        let group = LastGroup(segment: base, start: scan.groupStart, end: groupEnd)
        if try group.rewrite(in: file, directory: directory, files: files) {
            found.report.rewrittenByteCount = end.rawValue - scan.groupStart.rawValue
        }
    }

    private enum TailCopy {
        case copied
        case noRoom
        /// The disk failed for another reason; the tail must stay where it is.
        case failed
    }

    private static func keepTail(
        of file: FileID, from offset: Int, as aside: String, files: some FileSystem
    ) throws(FileSystemError) -> TailCopy {
        do throws(FileSystemError) {
            try self.copyTail(of: file, from: offset, to: aside, files: files)
            return .copied
        } catch {
            // An incomplete copy is useless; it may not even exist.
            if try files.status(at: aside) != nil { try files.unlink(aside) }
            return error.isDiskFull ? .noRoom : .failed
        }
    }

    private static func copyTail(
        of file: FileID, from start: Int, to path: String, files: some FileSystem
    ) throws(FileSystemError) {
        let copy = try files.open(path, .appendNew)
        defer { files.close(copy) }
        try files.narrow(copy, like: file)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var offset = start
        while true {
            let count = try files.readFully(file, at: offset, into: buffer)
            if count == 0 { break }
            try files.writeAll(copy, UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += count
        }
        try files.synchronize(copy)
    }
}

extension JournalRecovery.Found {
    fileprivate mutating func take(_ scan: JournalRecovery.Scan, _ table: StreamTable) {
        self.report.damages = scan.damages
        self.report.batchCount = scan.batchCount
        self.table = table
        self.end = scan.end
        self.lastMark = scan.lastMark
    }
}

/// A range of a segment that cannot be read.
package struct JournalDamage: Hashable, Sendable {
    package let segment: JournalPosition
    package let start: JournalPosition
    package let end: JournalPosition
    package let reason: String

    package init(segment: JournalPosition, start: JournalPosition, end: JournalPosition, reason: String) {
        self.segment = segment
        self.start = start
        self.end = end
        self.reason = reason
    }

    /// The ``reason`` for segments that were deleted before a reader reached them.
    static let goneReason = "the segment is gone"

    /// Whether the range's segments were deleted before the reader reached them.
    package var isGone: Bool { self.reason == Self.goneReason }
}
