internal import WaybillCompression
internal import WaybillProtocol
internal import WaybillSystem

/// One stream of ``RestingTable``.
///
///     key SP state SP offset SP proved SP digest SP skipped SP tail 1*SP crc LF
///
/// `key` is the first 128 bits of SHA-256 over principal, LF and id; `state` is `s` for a sealed stream and `o` for one that
/// may continue; `offset` and `skipped` have 16 digits, `proved` three; `digest` is 32 times `-` without a proof; `tail` has the
/// last bytes of a stream that may continue in base64, otherwise it is `-`. Spaces fill the record up to a multiple of 40
/// bytes.
struct RestingRecord {
    /// Where records can begin, and of what their length is a multiple: with offsets of 32 bits, a table of 80 GB has room.
    static let alignment = 40
    /// The longest record: it has a tail of 512 bytes.
    static let byteCountMax = 800
    private static let keyByteCount = 32

    let key: [UInt8]
    /// The bytes of the record, with its LF.
    let byteCount: Int
    private let offset: StreamOffset
    private let proof: StreamProof
    /// `nil` for a sealed stream.
    private let tail: StreamTail?

    /// The record that bytes begin with; `nil` if they begin with none.
    init?(startOf bytes: ArraySlice<UInt8>) {
        guard let end = bytes.firstIndex(of: 0x0A) else { return nil }
        let line = bytes[...end]
        let covered = line.dropLast(9)
        let checksum = Self.checksum(continuing: 0, covered)
        guard line.count.isMultiple(of: Self.alignment),
            line.suffix(9).elementsEqual("\(Hexadecimal.text(checksum, digitCount: 8))\n".utf8)
        else { return nil }
        let fields = covered.split(separator: 0x20)
        guard fields.count == 7, fields[0].count == Self.keyByteCount, let offset = Self.number(fields[2]),
            let byteCount = Self.number(fields[3]), let skipped = Self.number(fields[5]), skipped <= offset,
            let proof = StreamProof(
                byteCount: Int(byteCount), digest: ProofDigest(fields[4]), at: StreamOffset(offset))
        else { return nil }
        self.key = Array(fields[0])
        self.byteCount = line.count
        self.offset = StreamOffset(offset)
        self.proof = proof.skipping(skipped)
        guard fields[1].elementsEqual("o".utf8) else {
            self.tail = nil
            return
        }
        let text = Array(fields[6])
        let bytes = text == [UInt8(ascii: "-")] ? [] : text.withUnsafeBytes { Base64.bytes($0) }
        guard let bytes, let tail = StreamTail(end: self.offset, bytes: bytes, skippedByteCount: skipped) else {
            return nil
        }
        self.tail = tail
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
        UInt64(String(decoding: digits, as: UTF8.self))
    }

    func standing(of description: StreamDescription) -> StreamStanding {
        if let tail { return StreamStanding(description: description, tail: tail) }
        return StreamStanding(description: description, length: self.offset, proof: self.proof)
    }

    static func text(of standing: StreamStanding) -> [UInt8] {
        let proof = standing.proof
        let digest = proof.digest?.text ?? String(repeating: "-", count: 32)
        let tail = standing.tail.flatMap { $0.bytes.isEmpty ? nil : Base64.text($0.bytes) } ?? "-"
        var text = self.key(of: standing.description.name)
        text += " \(standing.isSealed ? "s" : "o") \(self.digits(standing.durable.rawValue, 16)) ".utf8
        text += "\(self.digits(UInt64(proof.byteCount), 3)) \(digest) ".utf8
        text += "\(self.digits(standing.skippedByteCount, 16)) \(tail) ".utf8
        // The checksum and LF follow.
        while !(text.count + 9).isMultiple(of: self.alignment) { text.append(0x20) }
        let checksum = self.checksum(continuing: 0, text[...])
        return text + "\(Hexadecimal.text(checksum, digitCount: 8))\n".utf8
    }

    private static func digits(_ value: UInt64, _ count: Int) -> String {
        ZeroPadded.text(value, digitCount: count)
    }

    static func key(of name: StreamName) -> [UInt8] {
        Array(ProofDigest(SHA256.digest("\(name.principal)\n\(name.id.text)".utf8)).text.utf8)
    }

    /// The key of a record, whose checksum is not compared.
    static func key(in record: ArraySlice<UInt8>) -> [UInt8] { Array(record.prefix(self.keyByteCount)) }

    static func hash(_ key: [UInt8]) -> UInt32 { self.checksum(continuing: 0, key[...]) }

    static func checksum(continuing checksum: UInt32, _ bytes: ArraySlice<UInt8>) -> UInt32 {
        bytes.withUnsafeBytes { FrameChecksum.checksum(continuing: checksum, $0) }
    }
}

/// Reads the records of a table one after the other.
struct RestingRecordReader {
    private static let chunkByteCount = 256 << 10

    private let file: FileID
    private let byteCount: Int
    /// Where the next chunk begins in the file.
    private var position = 0
    private var chunk: [UInt8] = []
    private var start = 0

    /// - Parameter byteCount: how many bytes of the file are records.
    init(file: FileID, byteCount: Int) {
        self.file = file
        self.byteCount = byteCount
    }

    /// The next record and its offset; `nil` at the end, or where no record can be.
    mutating func next(
        _ files: some FileSystem
    ) throws(FileSystemError) -> (bytes: ArraySlice<UInt8>, offset: Int)? {
        if self.chunk.count - self.start < RestingRecord.byteCountMax, self.position < self.byteCount {
            var more = [UInt8](repeating: 0, count: min(Self.chunkByteCount, self.byteCount - self.position))
            let count = try files.readFully(self.file, at: self.position, into: &more)
            self.chunk = Array(self.chunk[self.start...]) + more[..<count]
            self.start = 0
            self.position += count
        }
        let rest = self.chunk[self.start...].prefix(RestingRecord.byteCountMax)
        guard let end = rest.firstIndex(of: 0x0A), (end + 1 - self.start).isMultiple(of: RestingRecord.alignment) else {
            return nil
        }
        let offset = self.position - self.chunk.count + self.start
        defer { self.start = end + 1 }
        return (self.chunk[self.start...end], offset)
    }
}
