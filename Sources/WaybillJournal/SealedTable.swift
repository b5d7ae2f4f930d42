internal import WaybillCompression
internal import WaybillDigest
internal import WaybillProtocol
internal import WaybillSystem

/// How many records of ``SealedTable`` belong to a journal, and their checksum: the line `RESTING` in a segment's head.
struct RestingCount: Hashable {
    var count = 0
    var checksum: UInt32 = 0
}

/// The sealed streams that are in no head any more, so that heads stay short and no seal is forgotten.
///
///     journal/sealed.table      records of 113 bytes, in the order of sealing
///       key SP length SP proved SP digest SP skipped SP crc LF
///
/// `key` is the first 128 bits of SHA-256 over principal, LF and id; `length` and `skipped` have 16 digits, `proved` three;
/// `digest` is 32 times `-` without a proof. Records are only ever appended. They count from the moment when a head has their number
/// and checksum; what follows them is the rest of an attempt.
///
/// Memory: 10 to 20 bytes for each stream. A stream is looked up with one read.
struct SealedTable<Files: FileSystem>: ~Copyable {
    private struct Record {
        let key: [UInt8]
        let length: StreamOffset
        let proof: StreamProof
    }

    private static var recordByteCount: Int { 113 }
    private static var keyByteCount: Int { 32 }

    private let path: String
    private let files: Files
    /// The records that the newest head has.
    private(set) var resting = RestingCount()
    private var staged: (resting: RestingCount, hashes: [UInt32])?
    private var index = SlotIndex()
    private var file: FileID?
    /// Whether records that the newest head has are missing or damaged; then none counts.
    let isDamaged: Bool

    init(directory: String, resting: RestingCount, files: Files) throws(FileSystemError) {
        let path = Path.join(directory, "sealed.table")
        let index = try Self.index(path, resting, files)
        let file = index != nil && resting.count > 0 ? try files.open(path, .append) : nil
        self.path = path
        self.files = files
        self.resting = index == nil ? RestingCount() : resting
        self.index = index ?? SlotIndex()
        self.isDamaged = index == nil
        self.file = file
    }

    /// The index of the records that a head has; `nil` unless they are there.
    ///
    /// Records of another history would have agents delete what this journal never had: all of them count, or none.
    private static func index(
        _ path: String, _ resting: RestingCount, _ files: Files
    ) throws(FileSystemError) -> SlotIndex? {
        var index = SlotIndex()
        guard resting.count > 0 else { return index }
        let byteCount = resting.count * Self.recordByteCount
        guard let bytes = try files.contents(of: path, byteCountMax: byteCount), bytes.count == byteCount,
            Self.checksum(continuing: 0, bytes[...]) == resting.checksum
        else { return nil }
        for number in 0..<resting.count {
            let start = number * Self.recordByteCount
            index.insert(number, Self.checksum(continuing: 0, bytes[start..<(start + Self.keyByteCount)]))
        }
        return index
    }

    private static func checksum(continuing checksum: UInt32, _ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.withUnsafeBytes { FrameChecksum.checksum(continuing: checksum, $0) }
    }

    deinit {
        if let file { self.files.close(file) }
    }

    /// The standing of a resting stream; `nil` for any other.
    func standing(of description: StreamDescription) throws(FileSystemError) -> StreamStanding? {
        guard let file else { return nil }
        let key = Self.key(of: description.name)
        var found: Record?
        var failure: FileSystemError?
        _ = self.index.slot(Self.hash(key)) { slot in
            do throws(FileSystemError) {
                var bytes = [UInt8](repeating: 0, count: Self.recordByteCount)
                let count = try self.files.readFully(file, at: slot * Self.recordByteCount, into: &bytes)
                guard count == bytes.count, let record = Self.record(bytes[...]), record.key == key else {
                    return false
                }
                found = record
            } catch {
                failure = error
            }
            return true
        }
        if let failure { throw failure }
        return found.map { StreamStanding(description: description, length: $0.length, proof: $0.proof) }
    }

    /// Writes sealed streams to the disk.
    ///
    /// They count once the caller has synced the folder and a head with the result, and calls ``commit()``.
    ///
    /// - Returns: what the head must say of them.
    mutating func stage(_ standings: [StreamStanding]) throws(FileSystemError) -> RestingCount {
        guard !standings.isEmpty else { return self.resting }
        let file = try self.opened()
        let records = standings.map { Self.text(of: $0) }
        let bytes = records.flatMap(\.self)
        try self.files.truncate(file, to: self.resting.count * Self.recordByteCount)
        try self.files.writeAll(file, bytes)
        try self.files.synchronize(file)
        let resting = RestingCount(
            count: self.resting.count + standings.count,
            checksum: Self.checksum(continuing: self.resting.checksum, bytes[...]))
        self.staged = (resting, standings.map { Self.hash(Self.key(of: $0.description.name)) })
        return resting
    }

    private mutating func opened() throws(FileSystemError) -> FileID {
        if let file { return file }
        let file = try self.files.open(self.path, .append)
        self.file = file
        return file
    }

    /// A durable head has what was staged.
    mutating func commit() {
        guard let staged = self.staged.take() else { return }
        for (number, hash) in staged.hashes.enumerated() { self.index.insert(self.resting.count + number, hash) }
        self.resting = staged.resting
    }

    // MARK: Records

    private static func key(of name: StreamName) -> [UInt8] {
        Array(ProofDigest(SHA256.digest("\(name.principal)\n\(name.id.text)".utf8)).text.utf8)
    }

    private static func hash(_ key: [UInt8]) -> UInt32 {
        self.checksum(continuing: 0, key[...])
    }

    private static func text(of standing: StreamStanding) -> [UInt8] {
        let digest = standing.proof.digest?.text ?? String(repeating: "-", count: 32)
        var text = self.key(of: standing.description.name)
        text += " \(self.digits(standing.durable.rawValue, 16)) ".utf8
        text += "\(self.digits(UInt64(standing.proof.byteCount), 3)) \(digest) ".utf8
        text += "\(self.digits(standing.skippedByteCount, 16)) ".utf8
        let checksum = self.checksum(continuing: 0, text[...])
        return text + "\(Hexadecimal.text(checksum, digitCount: 8))\n".utf8
    }

    private static func digits(_ value: UInt64, _ count: Int) -> String {
        let digits = String(value)
        return String(repeating: "0", count: count - digits.utf8.count) + digits
    }

    /// `nil` if the checksum is wrong.
    private static func record(_ line: ArraySlice<UInt8>) -> Record? {
        let covered = line.dropLast(9)
        let checksum = self.checksum(continuing: 0, covered)
        guard line.suffix(9).elementsEqual("\(Hexadecimal.text(checksum, digitCount: 8))\n".utf8) else { return nil }
        let fields = covered.split(separator: 0x20)
        guard fields.count == 5, let length = UInt64(String(decoding: fields[1], as: UTF8.self)),
            let byteCount = Int(String(decoding: fields[2], as: UTF8.self)),
            let proof = StreamProof(byteCount: byteCount, digest: ProofDigest(fields[3]), at: StreamOffset(length)),
            let skipped = UInt64(String(decoding: fields[4], as: UTF8.self))
        else { return nil }
        return Record(key: Array(fields[0]), length: StreamOffset(length), proof: proof.skipping(skipped))
    }
}
