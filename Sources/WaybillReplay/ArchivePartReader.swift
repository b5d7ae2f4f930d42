internal import WaybillArchive
internal import WaybillProjection
internal import WaybillSystem

/// The one place that reads the archive's bytes: the runs of a part, in order.
///
/// Memory is one read of 1 MiB, or the longest run; one owner.
struct ArchivePartReader<Files: FileSystem>: ~Copyable {
    private let root: String
    private let files: Files
    private let index: ArchiveIndex<Files>
    private var buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
    /// What of the part the buffer holds.
    private var filled = 0..<0

    init(data: DataDirectory<Files>, index: ArchiveIndex<Files>) {
        self.root = data.root
        self.files = data.files
        self.index = index
    }

    deinit {
        self.buffer.deallocate()
    }

    /// Calls `body` with each run of a part, until it answers `false`.
    ///
    /// - Parameter body: the bytes are valid during the call.
    /// - Returns: the bytes of the runs that were visited.
    mutating func visit(
        _ part: ArchiveIndex<Files>.Part,
        _ body: (_ run: ArchiveIndex<Files>.Run, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Bool
    ) throws(FileSystemError) -> Int {
        let file = try self.files.open(Path.join(self.root, part.path), .read)
        defer { self.files.close(file) }
        self.filled = 0..<0
        var byteCount = 0
        for run in try self.index.runs(of: part) where run.range.upperBound <= part.byteCount {
            try self.fill(run.range, from: file, end: part.byteCount)
            let start = run.range.lowerBound - self.filled.lowerBound
            let end = min(run.range.upperBound, self.filled.upperBound) - self.filled.lowerBound
            guard start < end else { continue }
            byteCount += end - start
            if try !body(run, UnsafeRawBufferPointer(rebasing: self.buffer[start..<end])) { break }
        }
        return byteCount
    }

    private mutating func fill(_ range: Range<Int>, from file: FileID, end: Int) throws(FileSystemError) {
        if self.filled.lowerBound <= range.lowerBound, range.upperBound <= self.filled.upperBound { return }
        if range.count > self.buffer.count {
            self.buffer.deallocate()
            self.buffer = .allocate(byteCount: range.count, alignment: 16)
        }
        let wanted = min(self.buffer.count, end - range.lowerBound)
        self.filled = 0..<0
        let count = try self.files.readFully(
            file, at: range.lowerBound, into: UnsafeMutableRawBufferPointer(rebasing: self.buffer[..<wanted]))
        self.filled = range.lowerBound..<(range.lowerBound + count)
    }
}
