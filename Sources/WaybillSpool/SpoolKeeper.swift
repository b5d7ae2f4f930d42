package import WaybillSystem

/// How much of a disk a spool may take.
package struct SpoolQuota: Hashable, Sendable {
    package var byteCountMax: Int
    package var ageMax: Duration
    /// Room on the file system below which no segment is begun.
    package var freeByteCountMin: Int

    package init(byteCountMax: Int, ageMax: Duration, freeByteCountMin: Int) {
        self.byteCountMax = byteCountMax
        self.ageMax = ageMax
        self.freeByteCountMin = freeByteCountMin
    }
}

/// What was taken out of a spool.
package struct Eviction: Hashable, Sendable {
    /// Why; a bounded word for metrics and events.
    package enum Reason: String, Hashable, Sendable {
        case quota
        case age
        case purge
    }

    package let segment: SegmentName
    package let reason: Reason
    /// Lines that are gone.
    package var evictedCount = 0
    /// Lines about users, and Waybill's own, that are in another segment now.
    package var keptCount = 0
    package var evictedByteCount = 0

    /// The number of the segment's last line; `nil` where its lines are of several writers, or there is none.
    package var lastSequence: UInt64? {
        let count = self.evictedCount + self.keptCount
        return self.segment.isKept || count == 0 ? nil : self.segment.firstSequence + UInt64(count) - 1
    }
}

/// What waits in a spool, delivered or not.
package struct SpoolUsage: Hashable, Sendable {
    package var byteCount = 0
    package var segmentCount = 0
    package var lineCount = 0
}

/// Keeps a spool within its quota: takes away whole segments, the oldest first, and says what it took.
///
///     rename <segment> → <segment>.evicted   from here on nobody ships it
///     write what is kept to a segment of its own
///     unlink <segment>.evicted               a start after a crash goes on here
///
/// What was acknowledged is gone already: whoever ships deletes a segment as soon as all of it is durable elsewhere.
/// So every segment there is holds something that is not, and the oldest is the next to go. A segment that a living
/// process writes is locked and stays. Lines about users and Waybill's own are kept, up to 64 KiB of a segment and an
/// eighth of the quota in all.
package struct SpoolKeeper<Files: FileSystem> {
    private struct Segment {
        let name: SegmentName
        let byteCount: Int
        /// Nanoseconds since 1970.
        let modified: Int64
    }

    private let files: Files
    private let directory: String

    private static var evictedSuffix: String { ".evicted" }
    private static var keptByteCountMax: Int { 64 << 10 }

    package init(directory: String, on files: Files) {
        self.files = files
        self.directory = directory
    }

    /// What waits now; counts the lines of those segments whose names do not tell.
    package func usage() throws(FileSystemError) -> SpoolUsage {
        var usage = SpoolUsage()
        let segments = try self.segments()
        for (index, segment) in segments.enumerated() {
            usage.byteCount += segment.byteCount
            usage.segmentCount += 1
            let next = index + 1 < segments.count ? segments[index + 1].name : nil
            if let next, next.writer == segment.name.writer, !next.isKept {
                usage.lineCount += Int(next.firstSequence - segment.name.firstSequence)
            } else if let bytes = try self.files.contents(of: self.path(segment.name.description)) {
                usage.lineCount += SegmentLines(bytes).count
            }
        }
        return usage
    }

    /// Takes away what is beyond the quota, and finishes what a crash interrupted; says how many bytes there are then.
    ///
    /// - Parameters:
    ///   - now: trusted as far as another process's files bear it out, so that a clock that jumps ages nothing.
    ///   - writer: of this process.
    ///   - nextWriter: makes a name for a segment of kept lines.
    package func evict(
        beyond quota: SpoolQuota, now: WallTime, writer: String, nextWriter: () -> String
    ) throws(FileSystemError) -> (evictions: [Eviction], byteCount: Int) {
        var evictions = try self.finishInterrupted(nextWriter)
        let segments = try self.segments()
        let witnessed = segments.filter { $0.name.writer != writer }.map(\.modified).max() ?? 0
        let oldest = min(now.milliseconds * 1_000_000, witnessed) - quota.ageMax.nanoseconds
        var total = segments.reduce(0) { $0 + $1.byteCount }
        var keptTotal = segments.filter(\.name.isKept).reduce(0) { $0 + $1.byteCount }
        for segment in segments.filter({ !$0.name.isKept }) + segments.filter(\.name.isKept) {
            let isBeyond =
                total > quota.byteCountMax || segment.name.isKept && keptTotal > quota.byteCountMax / 8
            let isOld = segment.modified < oldest
            guard isBeyond || isOld else { continue }
            guard let eviction = try self.evict(segment, isBeyond ? .quota : .age, nextWriter) else { continue }
            total -= eviction.evictedByteCount
            if segment.name.isKept { keptTotal -= eviction.evictedByteCount }
            evictions.append(eviction)
        }
        return (evictions, total)
    }

    /// Takes away every segment that no process writes, and keeps nothing of it.
    package func purge() throws(FileSystemError) -> [Eviction] {
        var evictions: [Eviction] = []
        for segment in try self.segments() {
            if let eviction = try self.evict(segment, .purge, { "" }) { evictions.append(eviction) }
        }
        return evictions
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
        return segments
    }

    private func finishInterrupted(_ nextWriter: () -> String) throws(FileSystemError) -> [Eviction] {
        var evictions: [Eviction] = []
        for name in try self.files.list(self.directory) where name.hasSuffix(Self.evictedSuffix) {
            guard let segment = SegmentName(parsing: String(name.dropLast(Self.evictedSuffix.utf8.count))) else {
                continue
            }
            evictions.append(try self.remove(segment, .quota, nextWriter))
        }
        return evictions
    }

    /// `nil` for a segment that somebody holds, or that is gone.
    private func evict(
        _ segment: Segment, _ reason: Eviction.Reason, _ nextWriter: () -> String
    ) throws(FileSystemError) -> Eviction? {
        let path = self.path(segment.name.description)
        do throws(FileSystemError) {
            let file = try self.files.open(path, .read)
            defer { self.files.close(file) }
            guard try self.files.lock(file, .exclusive) else { return nil }
            try self.files.rename(path, to: path + Self.evictedSuffix)
        } catch {
            if error.errno == SystemErrorText.noEntry { return nil }
            throw error
        }
        return try self.remove(segment.name, reason, nextWriter)
    }

    private func remove(
        _ name: SegmentName, _ reason: Eviction.Reason, _ nextWriter: () -> String
    ) throws(FileSystemError) -> Eviction {
        let path = self.path(name.description + Self.evictedSuffix)
        let bytes = try self.files.contents(of: path) ?? []
        let lines = SegmentLines(bytes)
        var eviction = Eviction(segment: name, reason: reason)
        eviction.evictedCount = lines.count
        eviction.evictedByteCount = bytes.count
        let kept = reason == .purge || name.isKept ? [] : lines.newestKept(byteCountMax: Self.keptByteCountMax)
        if kept.isEmpty {
            try self.files.unlink(path)
        } else if try self.keep(kept.map { bytes[$0] }, nextWriter(), insteadOf: path) {
            eviction.evictedCount -= kept.count
            eviction.keptCount = kept.count
            eviction.evictedByteCount -= kept.reduce(0) { $0 + $1.count }
        }
        return eviction
    }

    /// Stores kept lines, and deletes the segment that they came from; `false` when there was no room for them.
    private func keep(
        _ lines: [ArraySlice<UInt8>], _ writer: String, insteadOf path: String
    ) throws(FileSystemError) -> Bool {
        do throws(FileSystemError) {
            try self.write(lines, writer)
            try self.files.unlink(path)
            return true
        } catch {
            guard error.isDiskFull else { throw error }
        }
        // Without the segment there may be room; a crash here loses the lines, as the full disk would have.
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
            throw FileSystemError("lock", path: path, errno: SystemErrorText.exists)
        }
        let bytes = Array(lines.joined())
        var failure: FileSystemError?
        bytes.withUnsafeBytes { buffer in
            do throws(FileSystemError) {
                try self.files.writeAll(file, buffer)
                try self.files.synchronize(file)
            } catch {
                failure = error
            }
        }
        do throws(FileSystemError) {
            if let failure { throw failure }
            try self.files.rename(path + ".new", to: path)
            try self.files.synchronizeDirectory(self.directory)
        } catch {
            // The agent would give a file that lost its name a new one.
            for path in [path + ".new", path] where try self.files.status(at: path) != nil {
                try self.files.unlink(path)
            }
            throw error
        }
    }
}

/// The whole lines of a segment, in one look at its bytes.
private struct SegmentLines {
    private(set) var count = 0
    /// Lines about users and of Waybill's own, with their LF.
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

    /// The newest lines to keep, in their order.
    func newestKept(byteCountMax: Int) -> [Range<Int>] {
        var room = byteCountMax
        let newest = self.kept.reversed().prefix { line in
            room -= line.count
            return room >= 0
        }
        return newest.reversed()
    }

    /// A client writes the kind behind members of fixed length, and nothing that the app chose before it.
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
