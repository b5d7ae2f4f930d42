package import WaybillSystem

/// How much disk space a spool may use.
package struct SpoolQuota: Hashable, Sendable {
    package var byteCountMax: Int
    package var ageMax: Duration
    /// Free space on the file system below which no segment is created.
    package var freeByteCountMin: Int

    package init(byteCountMax: Int, ageMax: Duration, freeByteCountMin: Int) {
        self.byteCountMax = byteCountMax
        self.ageMax = ageMax
        self.freeByteCountMin = freeByteCountMin
    }
}

/// A segment that was evicted from a spool.
package struct Eviction: Hashable, Sendable {
    /// The reason, from a closed set; used in metrics and events.
    package enum Reason: String, Hashable, Sendable {
        case quota
        case age
        case purge
    }

    package let segment: SegmentName
    package let reason: Reason
    /// The number of deleted lines.
    package var evictedCount = 0
    /// The number of lines about users, and of Waybill's own, that were moved to another segment.
    package var keptCount = 0
    package var evictedByteCount = 0

    /// The sequence number of the segment's last line; `nil` if it has lines of several writers, or none, or if no writer
    /// has its name.
    package var lastSequence: UInt64? {
        let count = self.evictedCount + self.keptCount
        guard !self.segment.isKept, count > 0 else { return nil }
        // Who may write into the folder chooses the names.
        let (last, isTooGreat) = self.segment.firstSequence.addingReportingOverflow(UInt64(count - 1))
        return isTooGreat ? nil : last
    }
}

/// The contents of a spool, delivered or not.
package struct SpoolUsage: Hashable, Sendable {
    package var byteCount = 0
    package var segmentCount = 0
    package var lineCount = 0
}

/// The result of checking a spool.
package struct Upkeep: Sendable {
    /// Total bytes of the remaining segments.
    package var byteCount = 0
    /// The first error; the rest was done nevertheless.
    package var failure: FileSystemError?
}

/// Keeps a spool within its quota: evicts whole segments, oldest first, and reports them.
///
///     lock, rename <segment> → <segment>.evicted   from now on it is not shipped
///     write the kept lines to a separate segment
///     report                                       not deleted before it is reported
///     unlink <segment>.evicted                     a start after a crash continues here
///
/// Acknowledged segments are gone already: the agent deletes a segment once all of it is durable elsewhere. So every
/// remaining segment has lines that are not, and the oldest is evicted first. A segment that a running process writes
/// is locked and stays. Lines about users and Waybill's own lines are kept, up to 64 KiB per segment and an eighth of
/// the quota in total.
package struct SpoolKeeper<Files: FileSystem> {
    private struct Segment {
        let name: SegmentName
        let byteCount: Int
        /// Nanoseconds since 1970.
        let modified: Int64
    }

    private let files: Files
    private let directory: String
    /// Creates a name for a segment of kept lines.
    private let nextWriter: () -> String
    /// Called with each segment before it is deleted.
    private let tell: (Eviction) -> Void

    private static var keptByteCountMax: Int { 64 << 10 }
    /// More segments make every listing of the folder slow; an app that often enters the background creates small ones.
    private static var segmentCountMax: Int { 4096 }

    package init(
        directory: String, on files: Files, nextWriter: @escaping () -> String = { "" },
        tell: @escaping (Eviction) -> Void = { _ in }
    ) {
        self.files = files
        self.directory = directory
        self.nextWriter = nextWriter
        self.tell = tell
    }

    /// The current contents; reads the whole spool.
    package func usage() throws(FileSystemError) -> SpoolUsage {
        var usage = SpoolUsage()
        for segment in try self.segments() {
            usage.byteCount += segment.byteCount
            usage.segmentCount += 1
            guard let bytes = try self.files.contents(of: self.path(segment.name.description)) else { continue }
            usage.lineCount += SegmentLines(bytes).count
        }
        return usage
    }

    /// Evicts segments above the quota, and completes evictions that a crash interrupted.
    ///
    /// - Parameters:
    ///   - now: trusted only as far as files of another process confirm it, so that a clock jump does not age segments.
    ///   - writer: this process's writer.
    package func evict(beyond quota: SpoolQuota, now: WallTime, writer: String) -> Upkeep {
        var upkeep = Upkeep()
        do throws(FileSystemError) {
            try self.finishInterrupted(&upkeep)
            let segments = try self.segments()
            let witnessed = segments.filter { $0.name.writer != writer && !$0.name.isKept }.map(\.modified).max() ?? 0
            let oldest = min(now.milliseconds.saturatingProduct(1_000_000), witnessed)
                .saturatingSum(-quota.ageMax.nanoseconds)
            upkeep.byteCount = segments.reduce(0) { $0 + $1.byteCount }
            var count = segments.count
            var keptByteCount = segments.filter(\.name.isKept).reduce(0) { $0 + $1.byteCount }
            for segment in segments.filter({ !$0.name.isKept }) + segments.filter(\.name.isKept) {
                let isBeyond =
                    upkeep.byteCount > quota.byteCountMax || count > Self.segmentCountMax
                    || segment.name.isKept && keptByteCount > quota.byteCountMax / 8
                guard isBeyond || segment.modified < oldest else { continue }
                // Segments that another process holds or has evicted meanwhile do not count.
                let evictedByteCount =
                    self.evict(segment, isBeyond ? .quota : .age, &upkeep)?.evictedByteCount ?? segment.byteCount
                count -= 1
                upkeep.byteCount -= evictedByteCount
                if segment.name.isKept { keptByteCount -= evictedByteCount }
            }
        } catch {
            upkeep.failure = upkeep.failure ?? error
        }
        return upkeep
    }

    /// Deletes every segment that no process is writing, and everything a crash left; keeps no lines.
    package func purge() throws(FileSystemError) {
        var upkeep = Upkeep()
        for name in try self.files.list(self.directory) {
            // What the agent keeps was delivered; the user no longer wants it here.
            if KeptSegmentName(parsing: name) != nil { try self.files.unlink(self.path(name)) }
            guard let segment = Leftover(name), segment.kind != .whole else { continue }
            self.finish(segment, .purge, &upkeep)
        }
        for segment in try self.segments() { self.evict(segment, .purge, &upkeep) }
        if let failure = upkeep.failure { throw failure }
    }

    private func path(_ name: String) -> String {
        Path.join(self.directory, name)
    }

    private func segments() throws(FileSystemError) -> [Segment] {
        var segments: [Segment] = []
        for name in try SpoolReader.segments(in: self.directory, on: self.files) {
            guard let status = try self.files.status(at: self.path(name.description)) else { continue }
            segments.append(Segment(name: name, byteCount: status.byteCount, modified: status.modified))
        }
        // By time of the last write: the oldest writer may still be writing. Ties keep the order of names.
        return segments.enumerated().sorted { ($0.element.modified, $0.offset) < ($1.element.modified, $1.offset) }
            .map(\.element)
    }

    private func finishInterrupted(_ upkeep: inout Upkeep) throws(FileSystemError) {
        for name in try self.files.list(self.directory) {
            guard let segment = Leftover(name) else { continue }
            switch segment.kind {
            case .evicted: self.finish(segment, .quota, &upkeep)
            case .purged: self.finish(segment, .purge, &upkeep)
            // The agent renames those to their proper names.
            case .new, .whole, .again: break
            }
        }
    }

    /// Removes files that a crash left in the middle of an eviction, unless another process holds them.
    private func finish(_ leftover: Leftover, _ reason: Eviction.Reason, _ upkeep: inout Upkeep) {
        do throws(FileSystemError) {
            let path = self.path(leftover.description)
            guard let file = try self.lock(path, reason) else { return }
            defer { self.files.close(file) }
            try self.remove(leftover.name, at: path, reason)
        } catch {
            upkeep.failure = upkeep.failure ?? error
        }
    }

    /// `nil` for a segment that another process holds, that is gone, or that could not be evicted.
    @discardableResult
    private func evict(_ segment: Segment, _ reason: Eviction.Reason, _ upkeep: inout Upkeep) -> Eviction? {
        do throws(FileSystemError) {
            let path = self.path(segment.name.description)
            guard let file = try self.lock(path, reason) else { return nil }
            defer { self.files.close(file) }
            let kind: Leftover.Kind = reason == .purge ? .purged : .evicted
            let aside = self.path(Leftover(name: segment.name, kind: kind).description)
            do throws(FileSystemError) {
                try self.files.rename(path, to: aside)
            } catch {
                if error.errno == Errno.noEntry { return nil }
                throw error
            }
            return try self.remove(segment.name, at: aside, reason)
        } catch {
            upkeep.failure = upkeep.failure ?? error
            return nil
        }
    }

    /// Opens and locks a file; `nil` if it is gone or another process holds it.
    private func lock(_ path: String, _ reason: Eviction.Reason) throws(FileSystemError) -> FileID? {
        let file: FileID
        do throws(FileSystemError) {
            file = try self.files.open(path, .read)
        } catch {
            if error.errno == Errno.noEntry { return nil }
            throw error
        }
        do throws(FileSystemError) {
            // Others test whether they can lock it and release it at once; a purge waits for them.
            for attempt in 0..<(reason == .purge ? 20 : 1) {
                if attempt > 0 { Worker.sleep(for: .milliseconds(5)) }
                if try self.files.lock(file, .exclusive) { return file }
            }
        } catch {
            self.files.close(file)
            throw error
        }
        self.files.close(file)
        return nil
    }

    @discardableResult
    private func remove(
        _ name: SegmentName, at path: String, _ reason: Eviction.Reason
    ) throws(FileSystemError) -> Eviction {
        let bytes = try self.files.contents(of: path) ?? []
        let lines = SegmentLines(bytes)
        var eviction = Eviction(segment: name, reason: reason)
        eviction.evictedCount = lines.count
        eviction.evictedByteCount = bytes.count
        let kept = reason == .purge || name.isKept ? [] : lines.newestKept(byteCountMax: Self.keptByteCountMax)
        if try self.keep(kept.map { bytes[$0] }, insteadOf: path) {
            eviction.evictedCount -= kept.count
            eviction.keptCount = kept.count
            eviction.evictedByteCount -= kept.reduce(0) { $0 + $1.count }
        }
        self.tell(eviction)
        do throws(FileSystemError) {
            try self.files.unlink(path)
        } catch {
            if error.errno != Errno.noEntry { throw error }
        }
        return eviction
    }

    /// Stores kept lines; `false` if the disk had no room for them.
    private func keep(_ lines: [ArraySlice<UInt8>], insteadOf path: String) throws(FileSystemError) -> Bool {
        guard !lines.isEmpty else { return true }
        let writer = self.nextWriter()
        do throws(FileSystemError) {
            try self.write(lines, writer)
            return true
        } catch {
            guard error.isDiskFull else { throw error }
        }
        // Deleting the segment may make room; a crash here loses the lines, as the full disk would have.
        try self.files.unlink(path)
        do throws(FileSystemError) {
            try self.write(lines, writer)
            return true
        } catch {
            guard error.isDiskFull else { throw error }
            return false
        }
    }

    private func write(_ lines: [ArraySlice<UInt8>], _ writer: String) throws(FileSystemError) {
        let name = SegmentName(writer: writer, firstSequence: SegmentName.keptSequence)
        let path = self.path(name.description)
        let file = try self.files.open(path + ".new", .replace)
        defer { self.files.close(file) }
        guard try self.files.lock(file, .exclusive) else {
            throw FileSystemError("lock", path: path, errno: Errno.exists)
        }
        let bytes = Array(lines.joined())
        do throws(FileSystemError) {
            try self.files.writeAll(file, bytes)
            try self.files.synchronize(file)
            try self.files.rename(path + ".new", to: path)
            try self.files.synchronizeDirectory(self.directory)
        } catch {
            // The agent would rename a file without a proper name.
            for path in [path + ".new", path] where try self.files.status(at: path) != nil {
                try self.files.unlink(path)
            }
            throw error
        }
    }
}

/// A segment's file under its own name, or under one that shows what is being done with it.
private struct Leftover: CustomStringConvertible {
    enum Kind: String, CaseIterable {
        case whole = ""
        case new = ".new"
        case evicted = ".evicted"
        /// Shipped again by the agent, because a receiver lost it.
        case again = ".again"
        case purged = ".purged"
    }

    let name: SegmentName
    let kind: Kind

    init(name: SegmentName, kind: Kind) {
        self.name = name
        self.kind = kind
    }

    /// `nil` for any other name.
    init?(_ text: String) {
        for kind in Kind.allCases where text.hasSuffix(kind.rawValue) {
            if let name = SegmentName(parsing: String(text.dropLast(kind.rawValue.utf8.count))) {
                self.init(name: name, kind: kind)
                return
            }
        }
        return nil
    }

    var description: String { self.name.description + self.kind.rawValue }
}

/// The whole lines of a segment, found in one pass over its bytes.
private struct SegmentLines {
    private(set) var count = 0
    /// Lines about users and Waybill's own lines, with their LF.
    private var kept: [Range<Int>] = []

    init(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { buffer in
            var start = 0
            for (index, byte) in buffer.enumerated() where byte == UInt8(ascii: "\n") {
                self.count += 1
                if Self.isKept(UnsafeRawBufferPointer(rebasing: buffer[start..<index])) {
                    self.kept.append(start..<index + 1)
                }
                start = index + 1
            }
        }
    }

    /// The newest lines to keep, in order.
    func newestKept(byteCountMax: Int) -> [Range<Int>] {
        var room = byteCountMax
        let newest = self.kept.reversed().prefix { line in
            room -= line.count
            return room >= 0
        }
        return newest.reversed()
    }

    /// A client writes the kind after members of fixed length, and no app-defined text before it.
    private static let kindOffsetMax = 400

    private static func isKept(_ line: UnsafeRawBufferPointer) -> Bool {
        let key: StaticString = "\"kind\":\""
        let end = min(line.count - key.utf8CodeUnitCount - 4, Self.kindOffsetMax)
        guard end > 0 else { return false }
        let keyBytes = UnsafeRawBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount)
        for index in 0..<end where line[index] == UInt8(ascii: "\"") && line[index + 1] == UInt8(ascii: "k") {
            let value = index + keyBytes.count
            guard line[index..<value].elementsEqual(keyBytes) else { continue }
            let kind = line[value..<value + 4]
            return kind.elementsEqual("user".utf8) || kind.elementsEqual("meta".utf8)
        }
        return false
    }
}
