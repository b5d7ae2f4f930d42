internal import WaybillCompression
package import WaybillData
internal import WaybillProtocol
package import WaybillSystem

/// Reads and inflates the journal's batches from a position on.
package struct BatchReader<Files: FileSystem>: ~Copyable {
    private let directory: String
    private let files: Files
    private var reader: JournalReader<Files>
    private var inflater = Inflater()
    private var raw: UnsafeMutableRawBufferPointer
    private var damages: [JournalDamage] = []

    package init(journalDirectory: String, position: JournalPosition, files: Files) {
        self.directory = journalDirectory
        self.files = files
        self.reader = JournalReader(directory: journalDirectory, position: position, files: files)
        self.raw = .allocate(byteCount: 1 << 20, alignment: 16)
    }

    deinit {
        self.raw.deallocate()
    }

    /// Batches before this position were read.
    package var position: JournalPosition { self.reader.position }

    /// The last time in the journal before ``position``; ``WallTime/unknown`` if none was read.
    package var time: WallTime { self.reader.time }

    /// Moves to another position, starting at its segment's head; does nothing if already there.
    package mutating func seek(to position: JournalPosition) {
        guard position != self.reader.position else { return }
        self.damages += self.reader.takeDamages()
        self.reader = JournalReader(directory: self.directory, position: position, files: self.files)
    }

    /// Returns the ranges of the journal that could not be read since the last call.
    package mutating func takeDamages() -> [JournalDamage] {
        defer { self.damages = [] }
        return self.damages + self.reader.takeDamages()
    }

    /// The next batch that ends at or before `end`; its bytes are valid until the next call.
    package mutating func next(upTo end: JournalPosition) throws(FileSystemError) -> ProjectedBatch? {
        while let record = try self.reader.next(upTo: end) {
            let byteCount = record.header.rawByteCount
            if byteCount > self.raw.count {
                self.raw.deallocate()
                self.raw = .allocate(byteCount: byteCount, alignment: 16)
            }
            let raw = UnsafeMutableRawBufferPointer(rebasing: self.raw[..<byteCount])
            do throws(InflateError) {
                try self.inflater.inflate(record.payload, into: raw)
            } catch {
                // The checksum matched and the batch was inflated before it was acknowledged: only a bug leads here.
                self.damages.append(
                    JournalDamage(segment: record.position, start: record.position, end: record.end, reason: error.code)
                )
                continue
            }
            return ProjectedBatch(
                position: record.position, description: record.description, offset: record.header.offset,
                receivedAt: record.receivedAt, lineCount: record.header.lineCount, raw: UnsafeRawBufferPointer(raw))
        }
        return nil
    }
}
