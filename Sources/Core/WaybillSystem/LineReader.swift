/// Reads a file line by line, or in records of several lines; it holds one in memory and truncates long ones.
package struct LineReader<Files: FileSystem>: ~Copyable {
    package struct Line {
        /// Without its LF; at most as long as the limit.
        package var bytes: [UInt8]
        /// Its range in the file, including the LF.
        package let range: Range<Int>
        package let isTerminated: Bool
    }

    private enum Source {
        case file(FileID, isOwned: Bool)
        case bytes(Read)
    }

    /// Reads from an offset on; returns 0 at the end.
    package typealias Read = (_ offset: Int, _ buffer: UnsafeMutableRawBufferPointer) throws(FileSystemError) -> Int

    private let source: Source
    private let files: Files
    private let byteCount: Int
    private let lineByteCountMax: Int
    private let buffer: UnsafeMutableRawBufferPointer
    private var filled = 0
    private var cursor = 0
    /// Where the buffer begins in the file.
    private var base: Int
    /// Where the next line begins.
    package var position: Int { self.base + self.cursor }

    private static var bufferByteCount: Int { 64 << 10 }

    /// Opens a file.
    ///
    /// - Parameter byteCount: how many bytes of it to read.
    package init(
        path: String, from start: Int = 0, byteCount: Int = .max, lineByteCountMax: Int = 2 << 20, files: Files
    ) throws(FileSystemError) {
        self.source = .file(try files.open(path, .read), isOwned: true)
        self.files = files
        self.base = start
        self.byteCount = byteCount
        self.lineByteCountMax = lineByteCountMax
        self.buffer = .allocate(byteCount: Self.bufferByteCount, alignment: 16)
    }

    /// Reads a file that stays open afterwards; no line is truncated.
    package init(_ file: FileID, files: Files) {
        self.source = .file(file, isOwned: false)
        self.files = files
        self.base = 0
        self.byteCount = .max
        self.lineByteCountMax = .max
        self.buffer = .allocate(byteCount: Self.bufferByteCount, alignment: 16)
    }

    /// Reads the bytes that `read` returns.
    package init(byteCount: Int, lineByteCountMax: Int, files: Files, read: @escaping Read) {
        self.source = .bytes(read)
        self.files = files
        self.base = 0
        self.byteCount = byteCount
        self.lineByteCountMax = lineByteCountMax
        self.buffer = .allocate(byteCount: Self.bufferByteCount, alignment: 16)
    }

    deinit {
        self.buffer.deallocate()
        if case .file(let file, isOwned: true) = self.source { self.files.close(file) }
    }

    /// Continues with the line that begins at an offset.
    package mutating func seek(to offset: Int) {
        self.base = offset
        self.filled = 0
        self.cursor = 0
    }

    /// The next line; `nil` at the end.
    package mutating func next() throws(FileSystemError) -> Line? {
        try self.next { $0.firstNewline(from: 0).map { $0 + 1 } }
    }

    /// The next record, whose last byte is an LF; `nil` at the end.
    ///
    /// - Parameter end: gets the bytes of the record piece by piece, and returns where it ends if it ends in this one.
    package mutating func next(endingAt end: (UnsafeRawBufferPointer) -> Int?) throws(FileSystemError) -> Line? {
        let start = self.position
        var bytes: [UInt8] = []
        while true {
            if self.cursor == self.filled {
                guard try self.fill() else {
                    let end = self.position
                    return start == end ? nil : Line(bytes: bytes, range: start..<end, isTerminated: false)
                }
            }
            let rest = UnsafeRawBufferPointer(rebasing: self.buffer[self.cursor..<self.filled])
            let found = end(rest)
            let kept = rest[..<(found.map { $0 - 1 } ?? rest.count)]
            bytes.append(contentsOf: kept.prefix(self.lineByteCountMax - bytes.count))
            self.cursor += found ?? rest.count
            if found != nil { return Line(bytes: bytes, range: start..<self.position, isTerminated: true) }
        }
    }

    private mutating func fill() throws(FileSystemError) -> Bool {
        self.base += self.filled
        self.cursor = 0
        self.filled = 0
        let wanted = min(self.buffer.count, self.byteCount - self.base)
        guard wanted > 0 else { return false }
        let room = UnsafeMutableRawBufferPointer(rebasing: self.buffer[..<wanted])
        self.filled =
            switch self.source {
            case .file(let file, _): try self.files.read(file, at: self.base, into: room)
            case .bytes(let read): try read(self.base, room)
            }
        return self.filled > 0
    }
}
