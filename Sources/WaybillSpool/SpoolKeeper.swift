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

/// What a look at a spool came to.
package struct Upkeep: Sendable {
    /// Bytes of the segments that are left.
    package var byteCount = 0
    /// The first thing that went wrong; the rest was done nevertheless.
    package var failure: FileSystemError?
}

/// Keeps a spool within its quota: takes away whole segments, the oldest first, and says what it took.
///
///     lock, rename <segment> → <segment>.evicted   from here on nobody ships it
///     write what is kept to a segment of its own
///     tell                                         while it is not told, it is not gone
///     unlink <segment>.evicted                     a start after a crash goes on here
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
    /// Makes a name for a segment of kept lines.
    private let nextWriter: () -> String
    /// Is told of each segment before it is gone.
    private let tell: (Eviction) -> Void

    private static var keptByteCountMax: Int { 64 << 10 }
    /// More make every look at the folder slow; an app that goes to the background often makes small ones.
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

    /// What waits now; reads all of it.
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

    /// Takes away what is beyond the quota, and finishes what a crash interrupted.
    ///
    /// - Parameters:
    ///   - now: trusted as far as another process's files bear it out, so that a clock that jumps ages nothing.
    ///   - writer: of this process.
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
                // What somebody else holds, or took away meanwhile, is none of what is to go.
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

    /// Takes away every segment that no process writes, and keeps nothing of it, nor of what a crash left.
    package func purge() throws(FileSystemError) {
        var upkeep = Upkeep()
        for name in try self.files.list(self.directory) {
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
        // By when they were written: the oldest writer may be one that still writes. A tie keeps the names' order.
        return segments.enumerated().sorted { ($0.element.modified, $0.offset) < ($1.element.modified, $1.offset) }
            .map(\.element)
    }

    private func finishInterrupted(_ upkeep: inout Upkeep) throws(FileSystemError) {
        for name in try self.files.list(self.directory) {
            guard let segment = Leftover(name) else { continue }
            switch segment.kind {
            case .evicted: self.finish(segment, .quota, &upkeep)
            case .purged: self.finish(segment, .purge, &upkeep)
            // The agent gives those their names back.
            case .new, .whole: break
            }
        }
    }

    /// Removes what a crash left on its way out, unless somebody is at it.
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

    /// `nil` for a segment that somebody holds, that is gone, or that could not be taken away.
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

    /// Opens and locks a file; `nil` when it is gone or somebody holds it.
    private func lock(_ path: String, _ reason: Eviction.Reason) throws(FileSystemError) -> FileID? {
        let file: FileID
        do throws(FileSystemError) {
            file = try self.files.open(path, .read)
        } catch {
            if error.errno == Errno.noEntry { return nil }
            throw error
        }
        do throws(FileSystemError) {
            // Others look whether they could lock it, and let go at once; a purge waits for them.
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

    /// Stores kept lines; `false` when there was no room for them.
    private func keep(_ lines: [ArraySlice<UInt8>], insteadOf path: String) throws(FileSystemError) -> Bool {
        guard !lines.isEmpty else { return true }
        let writer = self.nextWriter()
        do throws(FileSystemError) {
            try self.write(lines, writer)
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
            throw FileSystemError("lock", path: path, errno: Errno.exists)
        }
        let bytes = Array(lines.joined())
        do throws(FileSystemError) {
            try self.files.writeAll(file, bytes)
            try self.files.synchronize(file)
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

/// A segment's file under its name, or under one that says what happens to it.
private struct Leftover: CustomStringConvertible {
    enum Kind: String, CaseIterable {
        case whole = ""
        case new = ".new"
        case evicted = ".evicted"
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
