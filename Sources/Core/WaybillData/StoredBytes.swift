internal import WaybillCompression
package import WaybillSystem

/// The bytes of an export's file at any offset, the same before and after it is compressed.
///
///     part-00000.ndjson       while it grows, and until it is compressed
///     part-00000.ndjson.gz    then: members of at most 4 MiB, of which one is in memory
package final class StoredBytes<Files: FileSystem> {
    /// Where a member begins, in the file and in the inflated bytes.
    private struct Member {
        let stored: Int
        let raw: Int
    }

    /// The path of the file that is read, with `.gz` if it is compressed.
    package let path: String
    package let isCompressed: Bool
    private let files: Files
    private let file: FileID
    /// The members found so far, and the one after them.
    private var members = [Member(stored: 0, raw: 0)]
    /// The inflated member, in ``raw``.
    private var loaded: (index: Int, byteCount: Int)?
    private let raw: UnsafeMutableRawBufferPointer
    private let input: UnsafeMutableRawBufferPointer

    private static var inputByteCount: Int { 64 << 10 }

    /// Opens a file.
    ///
    /// - Parameters:
    ///   - path: an absolute path without `.gz`. If that file does not exist, the compressed one is read.
    ///   - isCompressed: whether to read the compressed file although both may exist.
    package init(path: String, isCompressed: Bool, files: Files) throws(FileSystemError) {
        (self.file, self.isCompressed) = try PartBytes.open(path, isCompressed, files)
        self.path = self.isCompressed ? path + ".gz" : path
        self.files = files
        // The last bytes of a member have no output, but zlib may ask for room.
        self.raw = .allocate(byteCount: self.isCompressed ? Gzip.memberByteCountMax + 64 : 0, alignment: 16)
        self.input = .allocate(byteCount: self.isCompressed ? Self.inputByteCount : 0, alignment: 16)
    }

    deinit {
        self.raw.deallocate()
        self.input.deallocate()
        self.files.close(self.file)
    }

    /// Reads from `offset` on; fills `buffer`, completely except at the end.
    package func read(
        at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(PartReadError) -> Int {
        guard self.isCompressed else {
            return try PartReadError.onDisk(self.files.readFully(self.file, at: offset, into: buffer))
        }
        var filled = 0
        while filled < buffer.count, let piece = try self.inflated(from: offset + filled) {
            let count = min(piece.count, buffer.count - filled)
            UnsafeMutableRawBufferPointer(rebasing: buffer[filled...]).copyMemory(
                from: UnsafeRawBufferPointer(rebasing: piece[..<count]))
            filled += count
        }
        return filled
    }

    /// Reads up to `byteCount` bytes from the start, piece by piece.
    package func visit(
        upTo byteCount: Int = .max, _ body: (UnsafeRawBufferPointer) -> Void
    ) throws(PartReadError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var position = 0
        while position < byteCount {
            let wanted = min(buffer.count, byteCount - position)
            let count = try self.read(at: position, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted]))
            if count == 0 { return }
            body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            position += count
        }
    }

    /// Reads a whole file, piece by piece.
    ///
    /// - Parameter path: without `.gz`. If that file does not exist, the compressed one is read.
    package static func visit(
        _ path: String, isCompressed: Bool = false, files: Files, _ body: (UnsafeRawBufferPointer) -> Void
    ) throws(PartReadError) {
        let bytes = try PartReadError.withDisk { () throws(FileSystemError) in
            try StoredBytes(path: path, isCompressed: isCompressed, files: files)
        }
        try bytes.visit(body)
    }

    /// Opens a file, unless it does not exist.
    package static func ifThere(
        path: String, isCompressed: Bool, files: Files
    ) throws(FileSystemError) -> StoredBytes<Files>? {
        do throws(FileSystemError) {
            return try StoredBytes(path: path, isCompressed: isCompressed, files: files)
        } catch {
            guard error.errno == Errno.noEntry else { throw error }
            return nil
        }
    }

    /// Reads the bytes, and verifies the digests that a manifest states of them.
    ///
    /// - Parameters:
    ///   - path: in problems, without `.gz`.
    ///   - digests: of the bytes, and of the compressed file; `nil` without a manifest.
    /// - Returns: whether all could be inflated; and what is wrong.
    package func verify(
        as path: String, upTo byteCount: Int = .max, _ digests: (raw: String, compressed: String?)?,
        _ body: (UnsafeRawBufferPointer) -> Void
    ) throws(FileSystemError) -> (isWhole: Bool, problems: [Problem]) {
        var digest = SHA256Digest()
        do throws(PartReadError) {
            try self.visit(upTo: byteCount) { piece in
                if digests != nil { digest.update(piece) }
                body(piece)
            }
        } catch {
            guard case .damaged(_, let offset, let cause) = error else { throw error.onDisk }
            let end = try self.files.status(at: self.path)?.byteCount ?? offset
            return (
                false, [Problem(.damaged, path + ".gz", at: offset, byteCount: max(0, end - offset), cause.code)]
            )
        }
        guard let digests else { return (true, []) }
        var problems: [Problem] = []
        if let stated = digests.compressed {
            let own = try SHA256Digest.ofFile(self.path, self.files)
            if own != stated {
                problems.append(
                    Problem(.different, path + ".gz", "its SHA-256 is \(own), but its manifest states \(stated)"))
            }
        }
        let own = digest.finish()
        if own != digests.raw {
            problems.append(
                Problem(
                    .different, self.isCompressed ? path + ".gz" : path,
                    "the SHA-256 of its content is \(own), but its manifest states \(digests.raw)"))
        }
        return (true, problems)
    }

    /// Makes a file again as it was before it was compressed, durable under its name; the compressed one is kept.
    package static func inflate(_ path: String, files: Files) throws(PartReadError) {
        let bytes = try PartReadError.withDisk { () throws(FileSystemError) in
            try StoredBytes(path: path, isCompressed: true, files: files)
        }
        let output = try PartReadError.withDisk { () throws(FileSystemError) in try files.open(path + ".tmp", .replace)
        }
        defer { files.close(output) }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var position = 0
        while true {
            let count = try bytes.read(at: position, into: buffer)
            if count == 0 { break }
            try PartReadError.withDisk { () throws(FileSystemError) in
                try files.writeAll(output, UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
            position += count
        }
        try PartReadError.withDisk { () throws(FileSystemError) in
            try files.narrow(output, like: bytes.file)
            try files.synchronize(output)
            try files.rename(path + ".tmp", to: path)
            try files.synchronizeDirectory(Path.parent(of: path))
        }
    }

    /// The inflated bytes from `offset` to the end of their member; `nil` at the end of the file.
    private func inflated(from offset: Int) throws(PartReadError) -> UnsafeRawBufferPointer? {
        var index = self.members.lastIndex { $0.raw <= offset } ?? 0
        while true {
            if self.loaded?.index != index, try !self.load(index) { return nil }
            let start = offset - self.members[index].raw
            if let loaded, start < loaded.byteCount {
                return UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(self.raw)[start..<loaded.byteCount])
            }
            index += 1
        }
    }

    /// - Returns: whether there is such a member.
    private func load(_ index: Int) throws(PartReadError) -> Bool {
        self.loaded = nil
        let start = self.members[index]
        var inflater = GzipInflater()
        var stored = start.stored
        var filled = 0
        repeat {
            let count = try PartReadError.onDisk(self.files.read(self.file, at: stored, into: self.input))
            if count == 0 {
                if stored == start.stored { return false }
                throw self.damage(at: stored, .truncated)
            }
            var taken = 0
            while taken < count, stored + taken == start.stored || !inflater.isBetweenMembers {
                let step: (taken: Int, filled: Int)
                do throws(InflateError) {
                    step = try inflater.inflate(
                        UnsafeRawBufferPointer(rebasing: self.input[taken..<count]),
                        into: UnsafeMutableRawBufferPointer(rebasing: self.raw[filled...]))
                } catch {
                    throw self.damage(at: stored + taken, error)
                }
                // No file of ours has a larger member.
                if step == (0, 0) { throw self.damage(at: stored + taken, .corrupt) }
                taken += step.taken
                filled += step.filled
            }
            stored += taken
        } while !inflater.isBetweenMembers
        if index + 1 == self.members.count {
            self.members.append(Member(stored: stored, raw: start.raw + filled))
        }
        self.loaded = (index, filled)
        return true
    }

    private func damage(at offset: Int, _ error: InflateError) -> PartReadError {
        .damaged(path: self.path, offset: offset, error)
    }
}

extension PartReadError {
    /// For callers that only know errors of files, which find damage by ``WaybillSystem/FileSystemError/isDamage``.
    package var onDisk: FileSystemError {
        switch self {
        case .disk(let cause): cause
        case .damaged(let path, _, _):
            FileSystemError(FileSystemError.damageOperation, path: path, errno: Errno.inputOutput)
        }
    }
}

extension FileSystemError {
    fileprivate static var damageOperation: String { "inflate" }

    /// Whether a compressed file was read without an error, and is damaged.
    package var isDamage: Bool { self.operation == Self.damageOperation }
}

extension LineReader {
    /// Reads stored bytes line by line.
    package init(_ bytes: StoredBytes<Files>, byteCount: Int = .max, lineByteCountMax: Int = .max, files: Files) {
        self.init(byteCount: byteCount, lineByteCountMax: lineByteCountMax, files: files) {
            offset, buffer throws(FileSystemError) in
            do throws(PartReadError) {
                return try bytes.read(at: offset, into: buffer)
            } catch {
                throw error.onDisk
            }
        }
    }
}
