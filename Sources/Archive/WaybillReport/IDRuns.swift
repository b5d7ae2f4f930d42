internal import WaybillSystem

/// Ids past the budget, sorted on disk.
///
///     line ─▶ id ─▶ the row that has it                              in memory, up to the budget
///     past it   ─▶ all ids in order, with their rows ─▶ a run      at the end of one file
///     at the end  ─▶ merge of the runs ─▶ rows with equal ids meet, and each row learns the place of its id
///
/// The file is unlinked as soon as it is open, so a process that is killed leaves nothing. An entry of a run is
///
///     length of the id (4 bytes) · the id as ``StringTable`` stores it · its row (4 bytes)        little endian
struct IDRuns<Files: FileSystem>: ~Copyable {
    private let files: Files
    private let folder: String
    private var file: FileID?
    /// Where each run is in the file.
    private var runs: [Range<Int>] = []

    init(_ files: Files, in folder: String) {
        self.files = files
        self.folder = folder
    }

    deinit {
        if let file { self.files.close(file) }
    }

    /// Takes the ids to disk, in order.
    mutating func spill(_ ids: inout LineIDs) throws(FileSystemError) {
        let file = try self.openFile()
        let start = self.runs.last?.upperBound ?? 0
        var end = start
        var bytes: [UInt8] = []
        try ids.takeAll { (id, row) throws(FileSystemError) in
            Self.append(UInt32(id.count), to: &bytes)
            bytes.append(contentsOf: id)
            Self.append(UInt32(row), to: &bytes)
            guard bytes.count >= 1 << 20 else { return }
            try self.files.writeAll(file, bytes)
            end += bytes.count
            bytes.removeAll(keepingCapacity: true)
        }
        try self.files.writeAll(file, bytes)
        self.runs.append(start..<end + bytes.count)
    }

    private static func append(_ number: UInt32, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
    }

    private mutating func openFile() throws(FileSystemError) -> FileID {
        if let file { return file }
        let name = "waybill-ids-\(Hexadecimal.text(SystemRandom.seed(), digitCount: 16))"
        let path = Path.join(self.folder, name)
        let file = try self.files.open(path, .appendNew)
        self.file = file
        try self.files.unlink(path)
        return file
    }

    // MARK: Merge

    /// Finds the rows with equal ids that are not in the same run.
    ///
    /// - Returns: the rows of each such id, as they were read; nothing, without a look, if all ids were in memory.
    mutating func merge(_ ids: inout LineIDs) throws(FileSystemError) -> [[Int32]] {
        guard let file = self.file else { return [] }
        if !ids.isEmpty { try self.spill(&ids) }
        var places = [UInt32](repeating: 0, count: ids.rowCount)
        var heads: [RunHead<Files>] = []
        for run in self.runs {
            var head = RunHead(file, run, self.files)
            if try head.advance() { heads.append(head) }
        }
        var groups: [[Int32]] = []
        var place: UInt32 = 0
        while let least = heads.indices.min(by: { heads[$0].isBefore(heads[$1]) }) {
            place += 1
            let first = heads[least].row
            places[Int(first)] = place
            // The runs are in the order of their rows, so the others with this id come after it.
            var rows: [Int32] = []
            for index in heads.indices.dropFirst(least + 1).reversed() where heads[index].id == heads[least].id {
                rows.append(heads[index].row)
                places[Int(heads[index].row)] = place
                if try !heads[index].advance() { heads.remove(at: index) }
            }
            if try !heads[least].advance() { heads.remove(at: least) }
            if !rows.isEmpty { groups.append([first] + rows.reversed()) }
        }
        ids.places = places
        return groups
    }
}

/// Reads a run, one entry after the other.
private struct RunHead<Files: FileSystem> {
    private static var bufferByteCount: Int { 64 << 10 }

    private let file: FileID
    private let files: Files
    private var rest: Range<Int>
    private var buffer: [UInt8] = []
    private var position = 0
    /// The current entry.
    private(set) var id: [UInt8] = []
    private(set) var row: Int32 = -1

    init(_ file: FileID, _ run: Range<Int>, _ files: Files) {
        self.file = file
        self.files = files
        self.rest = run
    }

    func isBefore(_ other: RunHead) -> Bool {
        self.id.withUnsafeBytes { left in other.id.withUnsafeBytes { StringTable.isOrdered(left, $0) } }
    }

    /// - Returns: `false` after the last entry.
    mutating func advance() throws(FileSystemError) -> Bool {
        guard self.position < self.buffer.count || !self.rest.isEmpty else { return false }
        let count = Int(try self.number())
        try self.fill(count)
        self.id.removeAll(keepingCapacity: true)
        self.id.append(contentsOf: self.buffer[self.position..<self.position + count])
        self.position += count
        self.row = Int32(try self.number())
        return true
    }

    private mutating func number() throws(FileSystemError) -> UInt32 {
        try self.fill(4)
        defer { self.position += 4 }
        return UInt32(
            littleEndian: self.buffer.withUnsafeBytes {
                $0.loadUnaligned(fromByteOffset: self.position, as: UInt32.self)
            })
    }

    /// Reads on until so many bytes are in the buffer.
    private mutating func fill(_ count: Int) throws(FileSystemError) {
        guard self.buffer.count - self.position < count else { return }
        self.buffer.removeFirst(self.position)
        self.position = 0
        while self.buffer.count < count {
            let wanted = min(self.rest.count, max(Self.bufferByteCount, count))
            let part = UnsafeMutableRawBufferPointer.allocate(byteCount: wanted, alignment: 16)
            defer { part.deallocate() }
            let found = try self.files.read(self.file, at: self.rest.lowerBound, into: part)
            guard found > 0 else {
                throw FileSystemError("read", path: "the sorted ids of a day", errno: Errno.inputOutput)
            }
            self.buffer.append(contentsOf: part[..<found])
            self.rest = self.rest.lowerBound + found..<self.rest.upperBound
        }
    }
}
