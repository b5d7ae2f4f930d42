package import WaybillSystem

internal import WaybillArchive
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection

/// What delivery needs of a part's manifest.
package struct PartManifest: Hashable, Sendable {
    package let sha256: String
    package let recordCount: Int
    package let eventCount: Int
    package let mappingVersion: Int
    package let oldest: WallTime?
    /// GA4: from then on its oldest event is too old.
    package let notAfter: WallTime?

    /// `nil` for what is no manifest.
    package init?(_ bytes: [UInt8]) {
        let manifest = bytes.withUnsafeBytes { buffer -> PartManifest? in
            var tape = JSONTape()
            do throws(JSONError) {
                try tape.parse(buffer)
            } catch {
                return nil
            }
            return PartManifest(tape)
        }
        guard let manifest else { return nil }
        self = manifest
    }

    private init?(_ tape: borrowing JSONTape) {
        func value(_ name: StaticString) -> Int? { tape.firstValue(of: name, in: 0) }
        let counts = 0...(1 << 40)
        guard let sha256 = value("sha256").flatMap({ tape.text($0) }),
            let records = value("records").flatMap({ tape.integer($0) }), counts.contains(records),
            let events = value("events").flatMap({ tape.integer($0) }), counts.contains(events),
            sha256.utf8.count == 64,
            sha256.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
        else { return nil }
        self.sha256 = sha256
        self.recordCount = records
        self.eventCount = events
        self.mappingVersion = value("mapping").flatMap { tape.integer($0) } ?? 0
        self.oldest = value("oldest_ts").flatMap { tape.text($0) }.flatMap(TimeText.parse(text:))
        self.notAfter = value("not_after").flatMap { tape.text($0) }.flatMap(TimeText.parse(text:))
    }
}

/// One record of a part and the events in it.
package struct PartRecord: Hashable, Sendable {
    package let number: Int
    /// Without what separates records in the file.
    package let content: [UInt8]
    /// The line of the `.ids` file: ids with commas between them, `-` for an event without one.
    let ids: [UInt8]

    package var eventIDs: [String?] {
        self.ids.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false).map {
            $0.elementsEqual("-".utf8) ? nil : String(decoding: $0, as: UTF8.self)
        }
    }

    package var eventCount: Int {
        self.ids.reduce(1) { $0 + ($1 == UInt8(ascii: ",") ? 1 : 0) }
    }
}

/// Why a part cannot be delivered.
package enum PartError: Error, Hashable, Sendable {
    case disk(FileSystemError)
    /// Its files are not what its manifest says.
    case damaged(detail: String)
}

/// A part whose bytes were compared with its manifest; what is read of it is read by record numbers.
final class ClosedPart<Files: FileSystem> {
    let manifest: PartManifest
    private let files: Files
    private let records: FileID
    private let ids: FileID
    /// Where every 256th record and its ids begin.
    private var marks: [(record: Int, ids: Int)] = []

    private static var recordsPerMark: Int { 256 }

    /// Opens a part and reads all of it once.
    ///
    /// - Parameter stem: the path without what follows `part-00000`.
    init(
        stem: String, fileExtension: String, manifest: PartManifest, files: Files
    ) throws(PartError) {
        self.manifest = manifest
        self.files = files
        let records: FileID
        do throws(FileSystemError) {
            records = try files.open("\(stem).\(fileExtension)", .read)
            do throws(FileSystemError) {
                self.ids = try files.open("\(stem).ids", .read)
            } catch {
                files.close(records)
                throw error
            }
        } catch {
            throw .disk(error)
        }
        self.records = records
        try self.verify(stem)
    }

    deinit {
        self.files.close(self.records)
        self.files.close(self.ids)
    }

    private func verify(_ stem: String) throws(PartError) {
        var digest = SHA256Digest()
        var recordMarks: [Int] = []
        let recordCount = try self.index(self.records, into: &recordMarks) { digest.update($0) }
        var idMarks: [Int] = []
        let idCount = try self.index(self.ids, into: &idMarks) { _ in }
        let sha256 = digest.finish()
        guard sha256 == self.manifest.sha256 else {
            throw .damaged(detail: "\(stem) has SHA-256 \(sha256), its manifest says \(self.manifest.sha256)")
        }
        guard recordCount == self.manifest.recordCount, idCount == recordCount else {
            throw .damaged(
                detail: "\(stem) has \(recordCount) records and \(idCount) lines of ids, its manifest says "
                    + "\(self.manifest.recordCount) records")
        }
        self.marks = zip(recordMarks, idMarks).map { (record: $0, ids: $1) }
    }

    /// - Returns: how many lines the file has.
    private func index(
        _ file: FileID, into marks: inout [Int], _ visit: (UnsafeRawBufferPointer) -> Void
    ) throws(PartError) -> Int {
        var lineCount = 0
        var position = 0
        var found: [Int] = [0]
        do throws(FileSystemError) {
            try self.files.visit(file, 0..<Int.max) { (piece) throws(FileSystemError) in
                visit(piece)
                var at = 0
                while let end = piece.firstNewline(from: at) {
                    lineCount += 1
                    if lineCount % Self.recordsPerMark == 0 { found.append(position + end + 1) }
                    at = end + 1
                }
                position += piece.count
            }
        } catch {
            throw .disk(error)
        }
        marks = found
        return lineCount
    }

    /// How many records from `first` on fit into one request; at least one.
    func requestRecordCount(from first: Int, recordCountMax: Int, byteCountMax: Int) throws(PartError) -> Int {
        var count = 0
        var byteCount = 0
        try self.visit(RecordSet(first..<min(first + recordCountMax, self.manifest.recordCount))) { record in
            byteCount += record.content.count + 1
            if count > 0, byteCount > byteCountMax { return false }
            count += 1
            return true
        }
        return count
    }

    /// These records, in order.
    func read(_ numbers: RecordSet) throws(PartError) -> [PartRecord] {
        var records: [PartRecord] = []
        try self.visit(numbers) { record in
            records.append(record)
            return true
        }
        return records
    }

    /// - Parameter body: returns whether to go on.
    private func visit(_ numbers: RecordSet, _ body: (PartRecord) -> Bool) throws(PartError) {
        var reader: (records: LineReader<Files>, ids: LineReader<Files>)?
        var position = 0
        for number in numbers.numbers {
            if reader == nil || number / Self.recordsPerMark > position / Self.recordsPerMark {
                let mark = number / Self.recordsPerMark
                reader = (
                    LineReader(self.records, at: self.marks[mark].record, self.files),
                    LineReader(self.ids, at: self.marks[mark].ids, self.files)
                )
                position = mark * Self.recordsPerMark
            }
            guard let lines = reader else { return }
            do throws(FileSystemError) {
                while position < number {
                    _ = try lines.records.next()
                    _ = try lines.ids.next()
                    position += 1
                }
                guard let content = try lines.records.next(), let ids = try lines.ids.next() else {
                    throw FileSystemError("read", path: "part", errno: Errno.inputOutput)
                }
                position += 1
                guard body(PartRecord(number: number, content: Self.record(content), ids: ids)) else { return }
            } catch {
                throw .disk(error)
            }
        }
    }

    /// Takes the brackets and commas of an array off a record, which is an object or several.
    private static func record(_ line: [UInt8]) -> [UInt8] {
        var line = line[...]
        if line.first == UInt8(ascii: "[") { line = line.dropFirst() }
        if let last = line.last, last == UInt8(ascii: ",") || last == UInt8(ascii: "]") { line = line.dropLast() }
        return Array(line)
    }
}

/// The lines of a file from an offset on, each once.
final class LineReader<Files: FileSystem> {
    private let file: FileID
    private let files: Files
    private var offset: Int
    private var buffer: [UInt8] = []
    private var position = 0

    private static var readByteCount: Int { 64 << 10 }

    init(_ file: FileID, at offset: Int, _ files: Files) {
        self.file = file
        self.offset = offset
        self.files = files
    }

    /// The next line without its LF; `nil` at the end of the file.
    func next() throws(FileSystemError) -> [UInt8]? {
        var searched = self.position
        while true {
            if let end = self.buffer[searched...].firstIndex(of: 0x0A) {
                let line = Array(self.buffer[self.position..<end])
                self.position = end + 1
                return line
            }
            searched = self.buffer.count - self.position
            self.buffer.removeFirst(self.position)
            self.position = 0
            guard try self.fill() else { return nil }
        }
    }

    private func fill() throws(FileSystemError) -> Bool {
        let old = self.buffer.count
        self.buffer.append(contentsOf: repeatElement(0, count: Self.readByteCount))
        var failure: FileSystemError?
        var count = 0
        self.buffer.withUnsafeMutableBytes { bytes in
            do throws(FileSystemError) {
                count = try self.files.read(
                    self.file, at: self.offset, into: UnsafeMutableRawBufferPointer(rebasing: bytes[old...]))
            } catch {
                failure = error
            }
        }
        self.buffer.removeLast(Self.readByteCount - count)
        if let failure { throw failure }
        self.offset += count
        return count > 0
    }
}
