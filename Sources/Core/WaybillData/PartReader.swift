package import WaybillCompression
package import WaybillSystem

/// Why a part cannot be read to its end.
package enum PartReadError: DiskFailure, Hashable, Sendable, CustomStringConvertible {
    case disk(FileSystemError)
    /// The compressed file is damaged; `offset` is the reader's position in it.
    case damaged(path: String, offset: Int, InflateError)

    package var description: String {
        switch self {
        case .disk(let error): error.description
        case .damaged(let path, let offset, let error):
            "\(path) is damaged near byte \(offset) (\(error.code)); restore it from a backup, and run "
                + "waybill inspect --verify on its folder"
        }
    }
}

/// The bytes of an archive's file of lines from its start on, which are the same whether it is open or sealed.
///
/// Memory: one inflate state and 64 KiB.
package struct PartBytes<Files: FileSystem>: ~Copyable {
    private let files: Files
    private let file: FileID
    private let path: String
    private var inflater: GzipInflater?
    private let input: UnsafeMutableRawBufferPointer
    private var inputRange = 0..<0
    /// The number of bytes read from the compressed file.
    private var inputEnd = 0
    /// How many bytes were read or skipped.
    package private(set) var position = 0

    /// Opens a file.
    ///
    /// - Parameters:
    ///   - path: an absolute path without `.gz`. If that file does not exist, the sealed file is read.
    ///   - isSealed: whether to read the sealed file directly.
    package init(path: String, isSealed: Bool, files: Files) throws(FileSystemError) {
        let (file, isCompressed) = try Self.open(path, isSealed, files)
        self.files = files
        self.path = isCompressed ? path + ".gz" : path
        self.file = file
        self.inflater = isCompressed ? GzipInflater() : nil
        self.input = .allocate(byteCount: isCompressed ? 64 << 10 : 0, alignment: 16)
    }

    /// Opens a file, or the compressed one if that exists in its place.
    static func open(
        _ path: String, _ isSealed: Bool, _ files: Files
    ) throws(FileSystemError) -> (FileID, isCompressed: Bool) {
        if !isSealed {
            do throws(FileSystemError) {
                return (try files.open(path, .read), false)
            } catch {
                // The file was sealed in the meantime.
                guard error.errno == Errno.noEntry else { throw error }
            }
        }
        return (try files.open(path + ".gz", .read), true)
    }

    deinit {
        self.input.deallocate()
        self.files.close(self.file)
    }

    /// Fills `buffer`, completely except at the end.
    package mutating func read(into buffer: UnsafeMutableRawBufferPointer) throws(PartReadError) -> Int {
        guard self.inflater != nil else {
            let count = try PartReadError.onDisk(self.files.readFully(self.file, at: self.position, into: buffer))
            self.position += count
            return count
        }
        var filled = 0
        while filled < buffer.count {
            if self.inputRange.isEmpty, try !self.fill() { break }
            filled += try self.inflate(into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled...]))
        }
        self.position += filled
        return filled
    }

    /// Fills `buffer` completely; the file is damaged if it ends before.
    package mutating func readWhole(_ buffer: UnsafeMutableRawBufferPointer) throws(PartReadError) {
        guard try self.read(into: buffer) == buffer.count else {
            throw .damaged(path: self.path, offset: self.position, .truncated)
        }
    }

    /// Skips to `offset`; a sealed file is inflated up to there.
    package mutating func skip(to offset: Int) throws(PartReadError) {
        precondition(offset >= self.position, "a part is read forward: \(offset) is before \(self.position)")
        guard self.inflater != nil else {
            self.position = offset
            return
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { buffer.deallocate() }
        while self.position < offset {
            let wanted = min(buffer.count, offset - self.position)
            if try self.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])) < wanted { return }
        }
    }

    /// - Returns: whether the compressed file has more bytes.
    private mutating func fill() throws(PartReadError) -> Bool {
        let count = try PartReadError.onDisk(self.files.read(self.file, at: self.inputEnd, into: self.input))
        self.inputEnd += count
        self.inputRange = 0..<count
        if count == 0, self.inflater?.isBetweenMembers == false {
            throw .damaged(path: self.path, offset: self.inputEnd, .truncated)
        }
        return count > 0
    }

    private mutating func inflate(into output: UnsafeMutableRawBufferPointer) throws(PartReadError) -> Int {
        let input = UnsafeRawBufferPointer(rebasing: self.input[self.inputRange])
        do throws(InflateError) {
            let (taken, filled) = try self.inflater?.inflate(input, into: output) ?? (0, 0)
            self.inputRange = (self.inputRange.lowerBound + taken)..<self.inputRange.upperBound
            return filled
        } catch {
            throw .damaged(path: self.path, offset: self.inputEnd - self.inputRange.count, error)
        }
    }
}

/// Reads a part run by run, whether it is open, sealed, or sealed while it is read.
///
///     var reader = try PartReader(part, data: data)
///     while let (run, bytes) = try reader.next() { … }        `bytes` are valid until the next call
///
/// Bytes that no run covers are skipped and counted. Memory: one run, which is at most one batch.
package struct PartReader<Files: FileSystem>: ~Copyable {
    private var runs: SourceRuns<Files>?
    private var bytes: PartBytes<Files>
    private var buffer: UnsafeMutableRawBufferPointer
    private let byteCount: Int
    private let start: Int
    /// The number of bytes in the runs so far.
    package private(set) var explainedByteCount = 0

    /// Opens a part.
    ///
    /// - Parameter start: runs that begin before it are skipped.
    package init(
        _ part: ArchiveIndex<Files>.Part, data: DataDirectory<Files>, from start: Int = 0
    ) throws(FileSystemError) {
        let runs = try Self.runs(of: part, data)
        let bytes = try PartBytes(
            path: Path.join(data.root, part.path), isSealed: part.sealed != nil, files: data.files)
        self.runs = runs
        self.bytes = bytes
        self.byteCount = part.byteCount
        self.start = start
        self.buffer = .allocate(byteCount: 256 << 10, alignment: 16)
    }

    private static func runs(
        of part: ArchiveIndex<Files>.Part, _ data: DataDirectory<Files>
    ) throws(FileSystemError) -> SourceRuns<Files>? {
        let path = Path.join(data.root, part.sourcesPath)
        guard try data.files.status(at: path)?.kind == .regular else { return nil }
        return try SourceRuns(
            path: path, byteCount: part.sourcesByteCount, linesByteCount: part.byteCount, files: data.files)
    }

    deinit {
        self.buffer.deallocate()
    }

    /// The next run and its lines; `nil` after the last.
    package mutating func next() throws(PartReadError) -> (run: SourceRun, bytes: UnsafeRawBufferPointer)? {
        while let run = try self.nextRun() {
            guard run.range.lowerBound >= self.start else { continue }
            if run.range.count > self.buffer.count {
                self.buffer.deallocate()
                self.buffer = .allocate(byteCount: run.range.count, alignment: 16)
            }
            try self.bytes.skip(to: run.range.lowerBound)
            let count = try self.bytes.read(
                into: UnsafeMutableRawBufferPointer(rebasing: self.buffer[..<run.range.count]))
            // The file was cut.
            guard count == run.range.count else { return nil }
            self.explainedByteCount += count
            return (run, UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(self.buffer)[..<count]))
        }
        return nil
    }

    private mutating func nextRun() throws(PartReadError) -> SourceRun? {
        while let item = try PartReadError.onDisk(self.runs?.next()) {
            if case .run(let run, _) = item, run.range.upperBound <= self.byteCount { return run }
        }
        return nil
    }
}
