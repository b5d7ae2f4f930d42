internal import WaybillCompression
internal import WaybillData
package import WaybillSystem

/// Compresses a file that gets nothing more, step by step, to a file next to it.
///
///     part-00001.ndjson ── members of at most 4 MiB, cut at line ends ──▶ part-00001.ndjson.gz.tmp
///                                                  finish(): sync ──▶ part-00001.ndjson.gz
///
/// Output is provisional until ``finish()``: after a crash or an error, the work starts again and writes the same
/// bytes. Memory: one member, inflated and compressed.
package struct GzipWork<Files: FileSystem>: ~Copyable {
    /// The part of the file that is compressed.
    private(set) var position = 0
    package private(set) var gzipByteCount = 0
    private let path: String
    private let byteCount: Int
    private let files: Files
    private let input: FileID
    private let output: FileID
    private var deflater: GzipDeflater
    private var digest: SHA256Digest
    private let raw: UnsafeMutableRawBufferPointer
    private let compressed: UnsafeMutableRawBufferPointer
    private var isStarted = false

    /// Opens a file and the one for its compressed bytes.
    ///
    /// - Parameters:
    ///   - path: an absolute path.
    ///   - byteCount: the size of what is compressed.
    package init(path: String, byteCount: Int, level: Int, files: Files) throws(FileSystemError) {
        let (input, output) = try Self.open(path, files)
        self.path = path
        self.byteCount = byteCount
        self.files = files
        self.input = input
        self.output = output
        let count = max(1, min(byteCount, Gzip.memberByteCountMax))
        let deflater = GzipDeflater(level: level)
        self.raw = .allocate(byteCount: count, alignment: 16)
        self.compressed = .allocate(byteCount: deflater.byteCountMax(of: count), alignment: 16)
        self.deflater = deflater
        self.digest = SHA256Digest()
    }

    private static func open(_ path: String, _ files: Files) throws(FileSystemError) -> (FileID, FileID) {
        let input = try files.open(path, .read)
        do throws(FileSystemError) {
            let output = try files.open(path + ".gz.tmp", .replace)
            do throws(FileSystemError) {
                try files.narrow(output, like: input)
            } catch {
                files.close(output)
                throw error
            }
            return (input, output)
        } catch {
            files.close(input)
            throw error
        }
    }

    deinit {
        self.files.close(self.input)
        self.files.close(self.output)
        self.raw.deallocate()
        self.compressed.deallocate()
    }

    /// Whether everything is compressed.
    package var isDone: Bool { self.isStarted && self.position == self.byteCount }

    /// Compresses one member.
    ///
    /// - Returns: its inflated bytes, which are valid until the next call.
    package mutating func step() throws(FileSystemError) -> UnsafeRawBufferPointer {
        let wanted = min(self.raw.count, self.byteCount - self.position)
        let count = try self.files.readFully(
            self.input, at: self.position, into: UnsafeMutableRawBufferPointer(rebasing: self.raw[..<wanted]))
        guard count == wanted else {
            // The file was cut since the start; the next start repairs it.
            throw FileSystemError("read", path: self.path, errno: Errno.inputOutput)
        }
        var member = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(self.raw)[..<count])
        if self.position + count < self.byteCount, let last = member.lastIndex(of: 0x0A) {
            member = UnsafeRawBufferPointer(rebasing: member[...last])
        }
        // A file without lines becomes an empty member, because a gzip file needs at least one member.
        if !member.isEmpty || !self.isStarted {
            let compressedCount = self.deflater.deflate(member, into: self.compressed)
            let bytes = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(self.compressed)[..<compressedCount])
            try self.files.writeAll(self.output, bytes)
            self.digest.update(bytes)
            self.gzipByteCount += compressedCount
            self.position += member.count
            self.isStarted = true
        }
        return member
    }

    /// Compresses all that is left and makes it durable under its name; the other file is kept.
    ///
    /// - Returns: the digest of the compressed bytes.
    package mutating func run() throws(FileSystemError) -> String {
        while !self.isDone { _ = try self.step() }
        return try self.finish()
    }

    /// Makes the compressed file durable under its name; the other one is kept.
    ///
    /// - Returns: the digest of its bytes.
    package mutating func finish() throws(FileSystemError) -> String {
        try self.files.synchronize(self.output)
        try self.files.rename(self.path + ".gz.tmp", to: self.path + ".gz")
        try self.files.synchronizeDirectory(Path.parent(of: self.path))
        return self.digest.finish()
    }
}
