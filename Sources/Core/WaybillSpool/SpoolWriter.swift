/// The app's side of the spool: segment files of opaque lines.
///
/// Constraints: one write(2) for each line or for lines that arrive together; a sync or any other call only at the
/// start of a segment; no allocation per line; lines of at most 32 KiB, segments of 1 MiB, no line split between
/// segments.
///
///     <spool>/<writer>-<first sequence>.ndjson        line LF line LF … line LF [torn]
///
/// A segment's life: it is created as `<name>.new`, locked (`flock`, shared), and renamed; lines are appended; it is
/// closed, which releases the lock, when the next line does not fit, when a line in it was torn, or when the process
/// ends. A process that gets the lock exclusively knows that no line will follow. The agent deletes segments, never the
/// writer.
///
/// When a write fails in the middle of a line, the torn bytes stay in the segment and the whole line goes to a new one:
/// completing it later could join two halves of different lines. If the torn line is the segment's first, a new segment
/// would have the same name; the segment is then emptied under its lock and used again.
///
/// Why not one file per process: the agent could not delete anything while the app runs. Why not mmap: it leaves NUL
/// tails, and raises SIGBUS instead of an error when the disk is full.
///
/// - SeeAlso: `Protocol/formats/spool.md`.
package import WaybillSystem

/// Limits of the spool.
package enum SpoolLimits {
    package static let segmentByteCountMax = 1 << 20
    package static let lineByteCountMax = 32 << 10
}

/// Appends one writer's lines to its segments.
package struct SpoolWriter<Files: FileSystem>: ~Copyable {
    private struct Segment {
        let file: FileID
        let firstSequence: UInt64
        /// The file ends after a whole line.
        var byteCount: Int
        /// The file ends in bytes that are not a line and must be removed before the next one is written.
        var isTorn: Bool
    }

    private let files: Files
    package let directory: String
    /// A UUID of 36 lower-case characters, unique to this process.
    package let writer: String
    private let segmentByteCountMax: Int
    /// Free space on the file system that new segments must leave.
    private let freeByteCountMin: Int
    /// The sequence number that the next line must have.
    package private(set) var nextSequence: UInt64 = 1
    /// The number of lines that failed writes left torn.
    package private(set) var tornLineCount = 0
    package private(set) var segmentCount = 0
    /// Whether the folder had segments, or remains of some, when the writer was created; `true` if unknown.
    package private(set) var hadSegments = true
    private var segment: Segment?
    /// First sequences of the segments with lines that may not be durable, ascending.
    private var notDurable: [UInt64] = []
    /// The first sequence of the latest open segment whose name was made durable.
    private var durablyNamed: UInt64?
    /// First sequences of segments whose sync failed: whether their lines are on disk can no longer be known.
    private var doubtful: [UInt64] = []

    /// Prepares the folder; the first segment is created with the first line.
    ///
    /// - Parameter marker: a file in the folder that is written only after the folder's name is durable; while it exists,
    ///   the name is not made durable again.
    /// - Throws: if the folder cannot be created and waiting does not help: a file has its name, no permission,
    ///   read-only. A full or failing disk is reported with the first line.
    package init(
        directory: String, writer: String, on files: Files,
        segmentByteCountMax: Int = SpoolLimits.segmentByteCountMax, freeByteCountMin: Int = 0,
        settledBy marker: String? = nil
    ) throws(FileSystemError) {
        precondition(segmentByteCountMax > 0, "a segment of \(segmentByteCountMax) bytes holds no line")
        self.files = files
        self.directory = directory
        self.writer = SegmentName(writer: writer, firstSequence: 1).writer
        self.segmentByteCountMax = segmentByteCountMax
        self.freeByteCountMin = freeByteCountMin
        do throws(FileSystemError) {
            var names = try files.status(at: directory)?.kind == .directory ? files.list(directory) : []
            if marker.map(names.contains) != true {
                try files.createDirectories(directory)
                names = try files.list(directory)
            }
            self.hadSegments = names.contains(where: SegmentName.begins)
        } catch {
            guard error.isTransient else { throw error }
        }
    }

    deinit {
        if let segment = self.segment { self.files.close(segment.file) }
    }

    /// Stores one line; when it returns, the line survives the death of the process.
    ///
    /// After an error nothing of the line is stored, the sequence has not advanced, and the next call tries again.
    ///
    /// - Parameter line: ends in its only LF and has ``nextSequence`` as its number.
    @specialized(where Files == POSIXFileSystem)
    package mutating func append(_ line: UnsafeRawBufferPointer) throws(FileSystemError) {
        precondition(
            line.count <= SpoolLimits.lineByteCountMax && line.last == UInt8(ascii: "\n"),
            "a line of \(line.count) bytes does not end in LF or is longer than \(SpoolLimits.lineByteCountMax)")
        guard let segment = self.segment, !segment.isTorn,
            segment.byteCount + line.count <= self.segmentByteCountMax
        else { return try self.append(line, after: nil) }
        var attempt = Attempt()
        do throws(FileSystemError) {
            attempt.storedByteCount = try self.files.write(segment.file, line)
        } catch {
            attempt.failure = error
        }
        guard attempt.storedByteCount == line.count else { return try self.append(line, after: attempt) }
        self.segment?.byteCount += line.count
        self.nextSequence += 1
    }

    /// The result of the first write(2) of lines.
    private struct Attempt {
        var storedByteCount = 0
        var failure: FileSystemError?
    }

    @inline(never)
    private mutating func append(_ line: UnsafeRawBufferPointer, after attempt: Attempt?) throws(FileSystemError) {
        let failure = withUnsafePointer(to: line.count) { count in
            self.append(
                lines: line, byteCounts: UnsafeBufferPointer(start: count, count: 1), after: attempt
            ).failure
        }
        if let failure { throw failure }
    }

    /// Stores as many of the lines as possible, in order, with one write for all that fit in a segment.
    ///
    /// - Parameters:
    ///   - lines: one after the other; the first is numbered ``nextSequence``, each further one is one higher.
    ///   - byteCounts: the length of each line, including its LF.
    /// - Returns: how many lines are stored, and the error if not all are.
    @specialized(where Files == POSIXFileSystem)
    package mutating func append(
        lines: UnsafeRawBufferPointer, byteCounts: UnsafeBufferPointer<Int>
    ) -> (storedCount: Int, failure: FileSystemError?) {
        self.append(lines: lines, byteCounts: byteCounts, after: nil)
    }

    private mutating func append(
        lines: UnsafeRawBufferPointer, byteCounts: UnsafeBufferPointer<Int>, after attempt: Attempt?
    ) -> (storedCount: Int, failure: FileSystemError?) {
        var attempt = attempt
        var rest = lines
        var storedCount = 0
        var hasTorn = false
        while storedCount < byteCounts.count {
            let tornLineCount = self.tornLineCount
            do throws(FileSystemError) {
                let file = try self.prepareSegment(byteCount: byteCounts[storedCount])
                let written = self.write(
                    rest, UnsafeBufferPointer(rebasing: byteCounts[storedCount...]), to: file, after: attempt)
                attempt = nil
                storedCount += written.lineCount
                rest = UnsafeRawBufferPointer(rebasing: rest[written.byteCount...])
                guard let failure = written.failure else { continue }
                // A torn line is written whole to another segment, once.
                if self.tornLineCount == tornLineCount || hasTorn { return (storedCount, failure) }
                hasTorn = true
            } catch {
                return (storedCount, error)
            }
        }
        return (storedCount, nil)
    }

    private struct Written {
        var lineCount = 0
        var byteCount = 0
        var failure: FileSystemError?
    }

    /// Writes the lines that fit in the segment, at least the first.
    private mutating func write(
        _ lines: UnsafeRawBufferPointer, _ byteCounts: UnsafeBufferPointer<Int>, to file: FileID,
        after attempt: Attempt?
    ) -> Written {
        let room = max(0, self.segmentByteCountMax - (self.segment?.byteCount ?? 0))
        var chunkLineCount = 1
        var chunkByteCount = byteCounts[0]
        while chunkLineCount < byteCounts.count, chunkByteCount + byteCounts[chunkLineCount] <= room {
            chunkByteCount += byteCounts[chunkLineCount]
            chunkLineCount += 1
        }
        precondition(chunkByteCount <= lines.count, "lines of \(chunkByteCount) bytes in \(lines.count)")
        var written = Written(failure: attempt?.failure)
        var storedByteCount = attempt?.storedByteCount ?? 0
        while storedByteCount < chunkByteCount, written.failure == nil {
            do throws(FileSystemError) {
                storedByteCount += try self.files.write(
                    file, UnsafeRawBufferPointer(rebasing: lines[storedByteCount..<chunkByteCount]))
            } catch {
                written.failure = error
            }
        }
        if written.failure != nil {
            storedByteCount = max(storedByteCount, min(self.byteCountBehindLines(file), chunkByteCount))
        }
        while written.lineCount < chunkLineCount,
            written.byteCount + byteCounts[written.lineCount] <= storedByteCount
        {
            written.byteCount += byteCounts[written.lineCount]
            written.lineCount += 1
        }
        self.segment?.byteCount += written.byteCount
        self.nextSequence += UInt64(written.lineCount)
        if let failure = written.failure {
            self.writeFailed(tornByteCount: storedByteCount - written.byteCount, failure)
        }
        return written
    }

    /// The number of bytes that a failed write left after the segment's whole lines; whole lines among them are stored.
    ///
    /// 0 if the file's length cannot be read in three attempts: then the bytes count as torn.
    private func byteCountBehindLines(_ file: FileID) -> Int {
        for _ in 0..<3 {
            do throws(FileSystemError) {
                return max(0, try self.files.status(file).byteCount - (self.segment?.byteCount ?? 0))
            } catch {
                continue
            }
        }
        return 0
    }

    private mutating func writeFailed(tornByteCount: Int, _ error: FileSystemError) {
        // A full disk refuses the whole write; after any other error the end of the file is unknown.
        if tornByteCount == 0, error.isDiskFull { return }
        self.tornLineCount += 1
        if let segment = self.segment, segment.byteCount == 0 {
            self.segment?.isTorn = true
        } else {
            self.closeSegment()
        }
    }

    /// Returns an open, locked segment without torn bytes and with room for `byteCount` bytes.
    private mutating func prepareSegment(byteCount: Int) throws(FileSystemError) -> FileID {
        if let segment = self.segment, segment.byteCount > 0,
            segment.byteCount + byteCount > self.segmentByteCountMax
        {
            self.closeSegment()
        }
        guard let segment = self.segment else { return try self.openSegment() }
        if segment.isTorn {
            try self.files.truncate(segment.file, to: 0)
            self.segment?.isTorn = false
        }
        return segment.file
    }

    /// Closes the segment and releases its lock; the next line begins another.
    ///
    /// A segment without a whole line stays open: the next would have the same name, and another process may have
    /// handled that one by then.
    package mutating func closeSegment() {
        guard let segment = self.segment, segment.byteCount > 0 else { return }
        self.files.close(segment.file)
        self.segment = nil
    }

    private mutating func openSegment() throws(FileSystemError) -> FileID {
        try self.checkRoom()
        let name = SegmentName(writer: self.writer, firstSequence: self.nextSequence)
        let path = Path.join(self.directory, name.description)
        let file: FileID
        do throws(FileSystemError) {
            file = try self.makeSegment(path)
        } catch {
            // The folder did not exist at the start, or was removed since.
            guard error.errno == Errno.noEntry else { throw error }
            try self.files.createDirectories(self.directory)
            file = try self.makeSegment(path)
        }
        self.segment = Segment(file: file, firstSequence: self.nextSequence, byteCount: 0, isTorn: false)
        self.segmentCount += 1
        self.notDurable.append(name.firstSequence)
        return file
    }

    /// Throws the error of a full disk if the file system has less free space than the app must leave.
    private func checkRoom() throws(FileSystemError) {
        guard self.freeByteCountMin > 0 else { return }
        let space: DiskSpace
        do throws(FileSystemError) {
            space = try self.files.space(at: self.directory)
        } catch {
            // A missing folder is created again; a file system that cannot report its free space is accepted.
            return
        }
        guard space.freeByteCount < self.freeByteCountMin else { return }
        throw FileSystemError("space", path: self.directory, errno: Errno.noSpace)
    }

    /// Creates a file that is locked before it becomes visible under its name.
    private func makeSegment(_ path: String) throws(FileSystemError) -> FileID {
        let temporary = path + ".new"
        let file = try self.files.open(temporary, .replace)
        do throws(FileSystemError) {
            guard try self.files.lock(file, .shared) else {
                throw FileSystemError("lock", path: temporary, errno: Errno.exists)
            }
            try self.files.rename(temporary, to: path)
        } catch {
            self.files.close(file)
            throw error
        }
        return file
    }
}

extension SpoolWriter {
    /// The segments to synchronize so that every line stored so far survives a power failure; run the sync without the
    /// caller's lock.
    package var sync: SpoolSync {
        SpoolSync(
            directory: self.directory, writer: self.writer, end: self.nextSequence,
            segments: self.notDurable.filter { $0 < self.nextSequence }, openSegment: self.segment?.firstSequence,
            isNamed: self.segment.map { $0.firstSequence == self.durablyNamed } ?? false, doubtful: self.doubtful)
    }

    /// Records that segments before the sync's last one need no further sync.
    package mutating func synced(_ sync: SpoolSync) {
        let end = sync.openSegment ?? sync.end
        self.notDurable.removeAll { $0 < end }
        if let segment = sync.openSegment, !sync.segments.isEmpty { self.durablyNamed = segment }
        self.doubtful.removeAll(where: sync.doubtful.contains)
    }

    /// Closes the segment: after a failed sync the system may mark its pages as clean, and a later sync would wrongly
    /// succeed.
    package mutating func syncFailed(_ sync: SpoolSync, _ failure: SpoolSyncFailure) {
        if failure.isRestDurable {
            self.synced(sync)
            self.doubtful += failure.doubtful
            return
        }
        if let segment = failure.segment { self.doubtful.append(segment) }
        if let segment = self.segment, segment.firstSequence == sync.openSegment, segment.byteCount > 0 {
            self.closeSegment()
        }
    }
}

/// The segments to synchronize at one moment.
package struct SpoolSync: Hashable, Sendable {
    package let directory: String
    package let writer: String
    /// What the next line would have had as its number.
    fileprivate let end: UInt64
    /// First sequences of those with lines.
    fileprivate let segments: [UInt64]
    /// The first sequence of the segment that was open.
    fileprivate let openSegment: UInt64?
    /// Whether only lines of the open segment may not be durable, while its name is.
    fileprivate let isNamed: Bool

    /// Segments whose sync failed earlier.
    fileprivate let doubtful: [UInt64]

    /// Returns once the lines are durable; missing segments were delivered.
    ///
    /// Fails as long as a segment whose sync failed still exists; once it is gone, its lines were delivered.
    package func perform(on files: some FileSystem) throws(SpoolSyncFailure) {
        var failed: UInt64?
        var rest: [UInt64] = []
        do throws(FileSystemError) {
            if !self.segments.isEmpty { try self.synchronize(on: files, &failed) }
            for segment in self.doubtful where try files.status(at: self.path(segment)) != nil { rest.append(segment) }
        } catch {
            throw SpoolSyncFailure(error: error, segment: failed)
        }
        guard let first = rest.first else { return }
        throw SpoolSyncFailure(
            error: FileSystemError("synchronize", path: self.path(first), errno: Errno.inputOutput),
            isRestDurable: true, doubtful: rest)
    }

    /// - Parameter failed: set to the segment whose sync failed.
    private func synchronize(on files: some FileSystem, _ failed: inout UInt64?) throws(FileSystemError) {
        for segment in self.segments { try self.synchronize(segment, on: files, &failed) }
        if !self.isNamed { try files.synchronizeDirectory(self.directory) }
    }

    private func synchronize(
        _ segment: UInt64, on files: some FileSystem, _ failed: inout UInt64?
    ) throws(FileSystemError) {
        guard !self.doubtful.contains(segment) else { return }
        let file: FileID
        do throws(FileSystemError) {
            file = try files.open(self.path(segment), .read)
        } catch {
            if error.errno == Errno.noEntry { return }
            throw error
        }
        defer { files.close(file) }
        failed = segment
        try files.synchronize(file)
        failed = nil
    }

    private func path(_ segment: UInt64) -> String {
        Path.join(self.directory, SegmentName(writer: self.writer, firstSequence: segment).description)
    }
}

/// Why not every line is durable.
package struct SpoolSyncFailure: Error {
    package let error: FileSystemError
    /// The segment whose sync failed.
    fileprivate var segment: UInt64?
    /// Whether all lines except those in `doubtful` are durable.
    package fileprivate(set) var isRestDurable = false
    fileprivate var doubtful: [UInt64] = []
}
