internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Finds what is to be erased, and what stands in the way; writes nothing.
extension Eraser {
    // MARK: What stands in the way

    /// Entries of checkpoints that a receiver or a replay has yet to complete.
    private static var stepPrefixes: [String] { ["seal:", "repair:", "delete:", "switch:", "closed:"] }

    /// - Returns: why the files are not at rest; `nil` if they are.
    func unrest() throws(FileSystemError) -> Failure? {
        let restart = "start the receiver until it has nothing to seal, and stop it"
        for projection in try self.data.stateNames() {
            if projection == "replay" {
                return .underWay("a replay is not finished", remedy: "run the same waybill replay again")
            }
            guard projection == "archive" || projection.hasPrefix("export-") else { continue }
            let entries = try self.entries(of: projection)
            let step = entries.keys.sorted().first { key in Self.stepPrefixes.contains { key.hasPrefix($0) } }
            if let step {
                return .underWay("\(projection).state has a step that is not finished (\(step))", remedy: restart)
            }
        }
        if try self.entries(of: "archive")["position"] == nil {
            return .underWay(Failure.noCheckpoint, remedy: restart)
        }
        return nil
    }

    /// Makes the checkpoints durable on which the new files are based, and recovers the archive as a start does.
    ///
    /// A process that died in a commit may have left a checkpoint that a power cut takes back. The files of an erasure stay,
    /// and lines that they have from after the older checkpoint would be archived a second time. And a start that comes
    /// after the erasure must have nothing to undo: it unlinks an open file, without the person's lines, beside the sealed
    /// one that has them, and may take for archived what is after the checkpoint. A merger's projections, which rest while a
    /// fleet's erasure runs, have done all that.
    func recover() throws(FileSystemError) {
        let names = try self.data.stateNames()
        for state in names where state == "requeue" || state.hasPrefix("export-") {
            var store = try StateStore(path: self.data.statePath(state), files: self.files)
            try store.settle()
        }
        // Neither is erased from: a start without a checkpoint makes the files again, and a replay is finished first.
        guard !names.contains("replay"), try self.entries(of: "archive")["position"] != nil else { return }
        // The zone plays no part: where one decides, it is the recorded one.
        var archive = try ArchiveProjection(data: self.data, zone: .utc)
        _ = try archive.recover()
    }

    func entries(of state: String) throws(FileSystemError) -> [String: String] {
        try StateImage.read(self.data.statePath(state), files: self.files)?.entries ?? [:]
    }

    /// Takes the locks of deliveries, so that none sends a file that is exchanged.
    func lockDeliveries() throws(Failure) -> [FileID] {
        var locks: [FileID] = []
        var busyPath: String?
        do throws(FileSystemError) {
            var names = Set(
                try self.files.list(self.data.state).filter { $0.hasPrefix("deliver-") && $0.hasSuffix(".state.lock") })
            // A first delivery of an export must not begin meanwhile, either.
            if !self.isDryRun, try self.files.status(at: self.data.exports) != nil {
                let exports = try self.files.list(self.data.exports).filter { !$0.hasPrefix(".") }
                names.formUnion(exports.map { "deliver-\($0).state.lock" })
            }
            for name in names.sorted() {
                let path = Path.join(self.data.state, name)
                let lock = try self.files.open(path, .append)
                locks.append(lock)
                if try !self.files.lock(lock, .exclusive) { busyPath = path }
            }
        } catch {
            for lock in locks { self.files.close(lock) }
            throw .disk(error)
        }
        guard let busyPath else { return locks }
        for lock in locks { self.files.close(lock) }
        throw .deliveryRuns(busyPath)
    }

    /// The parts with records of the person that a delivery has begun and not finished.
    func unfinishedDeliveries(_ partitions: [Partition]) throws(FileSystemError) -> [String] {
        var unfinished: [String] = []
        for partition in partitions {
            let fields = partition.folder.split(separator: "/")
            guard fields.count == 4, fields[0] == "exports" else { continue }
            let entries = try self.entries(of: "deliver-\(fields[1])")
            for stem in partition.stems
            where entries["part:\(fields[2])/\(fields[3])/\(Path.name(of: stem))"] != nil {
                unfinished.append(stem)
            }
        }
        return unfinished.sorted()
    }

    // MARK: Lines

    /// Finds the person's lines in the archive, the quarantine, and the part of the journal that only exports have read.
    mutating func scan(_ people: ErasedPeople) throws(FileSystemError) {
        let index = try ArchiveIndex(data: self.data)
        var readers = EventReaders(erased: people, poison: try PoisonedLines.read(in: self.data))
        // A copy, which reads while this one is changed.
        let disk = self
        for (path, byteCount) in index.lengths.sorted(by: { $0.key < $1.key }) where path.hasSuffix(".ndjson") {
            let stem = String(path.dropLast(".ndjson".utf8.count))
            var isTouched = false
            try disk.visit(stem, byteCount, index.lengths[stem + ".sources"] ?? 0) { run, bytes in
                let reader = readers.reader(for: run.description)
                let isPoison = Self.isPoison(stem)
                bytes.forEachLine { range in
                    let line = UnsafeRawBufferPointer(rebasing: bytes[range])
                    guard disk.isTheirs(line, reader, isPoison: isPoison) else { return }
                    isTouched = true
                    if isPoison {
                        self.poison.append(
                            PoisonedLine(
                                reader: PoisonOffsets.erased, stream: run.description.name,
                                offset: run.offset.rawValue + UInt64(range.lowerBound), byteCount: range.count,
                                signal: 0,
                                version: "", at: run.receivedAt))
                    }
                    self.note(
                        line, run.offset.rawValue + UInt64(range.lowerBound), run.description, reader.source,
                        isPoison: isPoison)
                    self.report.lineCount += 1
                    self.report.byteCount += range.count + 1
                }
            }
            guard isTouched else { continue }
            self.stems.insert(stem)
            if let day = DayFolder(path: Path.parent(of: path))?.day { self.report.days.insert(day) }
        }
        try self.scanJournal(&readers)
        try self.findSharedIDs(index, people)
        let aside = Path.join(self.data.root, SetAside<Files>.folder)
        if try self.files.status(at: aside) != nil { self.report.setAside = try self.files.list(aside).sorted() }
    }

    /// Finds the ids of the person's events that lines of others have, too: a mistake of the program that wrote them.
    private mutating func findSharedIDs(
        _ index: ArchiveIndex<Files>, _ people: ErasedPeople
    ) throws(FileSystemError) {
        guard !self.ids.isEmpty else { return }
        let poison = try PoisonedLines.read(in: self.data)
        var readers = EventReaders(erased: people, poison: poison)
        let ids = self.ids
        var shared: Set<[UInt8]> = []
        func look(_ line: UnsafeRawBufferPointer, _ reader: EventReader) {
            guard let id = Self.id(of: line), ids.contains(id), reader.read(line) != .quarantine(.erased) else {
                return
            }
            shared.insert(id)
        }
        for (path, byteCount) in index.lengths.sorted(by: { $0.key < $1.key }) where path.hasSuffix(".ndjson") {
            let stem = String(path.dropLast(".ndjson".utf8.count))
            guard !Self.isPoison(stem) else { continue }
            try self.visit(stem, byteCount, index.lengths[stem + ".sources"] ?? 0) { run, bytes in
                let reader = readers.reader(for: run.description)
                bytes.forEachLine { look(UnsafeRawBufferPointer(rebasing: bytes[$0]), reader) }
            }
        }
        try self.visitJournal { batch, isArchived in
            guard !isArchived else { return }
            let reader = readers.reader(for: batch.description)
            batch.raw.forEachLine { range in
                guard reader.poison.readers(at: batch.offset.rawValue + UInt64(range.lowerBound)) == nil else { return }
                look(UnsafeRawBufferPointer(rebasing: batch.raw[range]), reader)
            }
        }
        self.sharedIDs = shared
        self.report.sharedIDCount = shared.count
    }

    /// The id in a line, in lower case; `nil` if it has none.
    private static func id(of line: UnsafeRawBufferPointer) -> [UInt8]? {
        var id: [UInt8]?
        do throws(JSONError) {
            try JSONScanner.scanMembers(line, from: JSONText.byteOrderMarkByteCount(line)) { key, traits, value, kind in
                let name = UnsafeRawBufferPointer(rebasing: line[key])
                guard kind == .string, JSONText.equals(name, isEscaped: traits.contains(.hasEscapes), "id") else {
                    return
                }
                let body = UnsafeRawBufferPointer(rebasing: line[value.dropFirst().dropLast()])
                id = Self.lowercased(JSONText.hasEscapes(body) ? Array(JSONText.string(body).utf8) : Array(body))
            }
            return id
        } catch {
            // It is not an event, and no export has it.
            return nil
        }
    }

    /// Calls `body` with each batch of the journal, and whether the archive has it.
    private func visitJournal(
        _ body: (_ batch: ProjectedBatch, _ isArchived: Bool) -> Void
    ) throws(FileSystemError) {
        // A merger's projections stand where the erasure does; what its journal has behind that depends on luck.
        guard self.fleet == nil else { return }
        let coverage = JournalCoverage(directory: self.data.journal, files: self.files)
        guard let first = try coverage.first() else { return }
        let archived = JournalPosition(Int(try self.entries(of: "archive")["position"] ?? "0") ?? 0)
        let end = try coverage.end()
        var reader = BatchReader(journalDirectory: self.data.journal, position: first, files: self.files)
        while let batch = try reader.next(upTo: end) {
            body(batch, batch.position < archived)
        }
    }

    private mutating func scanJournal(_ readers: inout EventReaders) throws(FileSystemError) {
        // A copy, which reads while this one is changed.
        let disk = self
        try disk.visitJournal { batch, isArchived in
            let lines = readers.reader(for: batch.description)
            batch.raw.forEachLine { range in
                let line = UnsafeRawBufferPointer(rebasing: batch.raw[range])
                let offset = batch.offset.rawValue + UInt64(range.lowerBound)
                guard !line.isEmpty, lines.read(line, at: offset) == .quarantine(.erased) else { return }
                self.report.journalLineCount += 1
                guard !isArchived else { return }
                self.note(line, offset, batch.description, lines.source, isPoison: false)
            }
        }
    }

    /// Whether a file has lines that nothing may read, because reading them ended the program.
    static func isPoison(_ stem: String) -> Bool {
        Path.name(of: stem) == QuarantineReason.poison.rawValue
    }

    /// Whether a line is the person's; one that nothing may read is, unless its bytes rule it out.
    ///
    /// They do not where only the digest of the id is known, nor where an escape may hide it.
    func isTheirs(_ line: UnsafeRawBufferPointer, _ reader: EventReader, isPoison: Bool) -> Bool {
        guard isPoison else { return reader.read(line) == .quarantine(.erased) }
        guard !self.id.isEmpty, !line.contains(UInt8(ascii: "\\")) else { return true }
        return line.indices.contains { line[$0...].starts(with: self.id) }
    }

    /// Remembers how exports name a line's event.
    private mutating func note(
        _ line: UnsafeRawBufferPointer, _ offset: UInt64, _ description: StreamDescription, _ source: SourceDescription,
        isPoison: Bool
    ) {
        let principal = description.owner.principal
        self.places.insert(Place(principal: principal, stream: description.id.text, offset: offset))
        guard !isPoison, let json = JSONValue(Array(line)) else { return }
        let id = json["id"]?.string.map { Array($0.utf8) }
        if source.isForeign {
            if let id, id.withUnsafeBytes({ LineStream.isEventID($0) }) {
                self.ids.insert(Self.lowercased(id))
            } else if let stream = source.stream {
                self.ids.insert(Array(stream.lineID(at: offset).text.utf8))
            }
        } else if let id, !id.isEmpty {
            self.ids.insert(Self.lowercased(id))
        } else {
            self.report.withoutIDCount += 1
        }
        let members = json.members ?? []
        let other =
            self.kind == .user ? source.anonymousMember ?? "anon" : source.userMember ?? "user"
        if let value = members.first(where: { $0.name == other })?.value.string, !value.isEmpty, value != "-" {
            self.report.otherIDs.insert(value)
        }
    }

    static func lowercased(_ id: some Sequence<UInt8>) -> [UInt8] {
        id.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
    }

    /// Calls `body` with each run of a file of lines and its bytes.
    func visit(
        _ stem: String, _ byteCount: Int, _ sourcesByteCount: Int,
        _ body: (SourceRun, UnsafeRawBufferPointer) -> Void
    ) throws(FileSystemError) {
        guard byteCount > 0 else { return }
        let sources = Path.join(self.data.root, stem + ".sources")
        guard try self.files.status(at: sources) != nil else { return }
        var runs = try SourceRuns(
            path: sources, byteCount: sourcesByteCount, linesByteCount: byteCount, files: self.files)
        var bytes = try PartBytes(
            path: Path.join(self.data.root, stem + ".ndjson"), isSealed: false, files: self.files)
        while let item = try runs.next() {
            guard case .run(let run, _) = item, !run.range.isEmpty else { continue }
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: run.range.count, alignment: 16)
            defer { buffer.deallocate() }
            do throws(PartReadError) {
                try bytes.skip(to: run.range.lowerBound)
                try bytes.readWhole(buffer)
            } catch {
                throw error.onDisk
            }
            body(run, UnsafeRawBufferPointer(buffer))
        }
    }

    // MARK: Exports

    /// The live exports' partitions that may have records of the person.
    func partitions() throws(FileSystemError) -> [Partition] {
        var partitions: [Partition] = []
        for folder in try self.exportFolders(where: { !$0.hasPrefix(".") }) {
            if let partition = try self.partition(folder) { partitions.append(partition) }
        }
        return partitions
    }

    /// The folders of days below `exports/`, of the exports with such names.
    func exportFolders(where isWanted: (String) -> Bool) throws(FileSystemError) -> [String] {
        var folders = ["exports"]
        for depth in 0..<3 {
            var next: [String] = []
            for folder in folders {
                let absolute = Path.join(self.data.root, folder)
                guard try self.files.status(at: absolute)?.kind == .directory else { continue }
                for name in try self.files.list(absolute).sorted() {
                    guard depth == 0 ? isWanted(name) : name.hasPrefix(depth == 1 ? "env=" : "date=") else { continue }
                    next.append(Path.join(folder, name))
                }
            }
            folders = next
        }
        return folders
    }

    /// - Returns: `nil` if nothing in the folder names an event of the person.
    func partition(_ folder: String) throws(FileSystemError) -> Partition? {
        var partition = Partition(folder: folder)
        var isTouched = false
        for name in try self.files.list(Path.join(self.data.root, folder)).sorted() {
            let path = Path.join(folder, name)
            if name == "dead" || name == HeldRecord.fileName { isTouched = true }
            guard name.hasSuffix(".ids") else { continue }
            var lines = try LineReader(
                path: Path.join(self.data.root, path), lineByteCountMax: 64 << 20, files: self.files)
            while let line = try lines.next() {
                let ids = line.bytes.split(separator: UInt8(ascii: ","))
                guard ids.contains(where: { $0.elementsEqual([UInt8(ascii: "-")]) || self.names($0) }) else { continue }
                partition.stems.append(String(path.dropLast(".ids".utf8.count)))
                break
            }
        }
        return isTouched || !partition.stems.isEmpty ? partition : nil
    }

    func names(_ id: some Sequence<UInt8>) -> Bool {
        self.ids.contains(Self.lowercased(id))
    }

    /// Whether a record is of the person.
    ///
    /// A record of an event without an id, or with one that someone else's event has, too, is known by the person's own id
    /// in it.
    func isPersons(_ record: [UInt8], ids: [ArraySlice<UInt8>]) -> Bool {
        if ids.contains(where: { self.names($0) && !self.isShared($0) }) { return true }
        let isUncertain = ids.contains { $0.elementsEqual([UInt8(ascii: "-")]) || self.isShared($0) }
        return isUncertain && self.isNamed(in: record)
    }

    func isShared(_ id: some Sequence<UInt8>) -> Bool {
        !self.sharedIDs.isEmpty && self.sharedIDs.contains(Self.lowercased(id))
    }

    /// Whether the person's id is in a record, as a word of its own.
    private func isNamed(in record: [UInt8]) -> Bool {
        guard let first = self.id.first, record.count >= self.id.count else { return false }
        for start in 0...(record.count - self.id.count) where record[start] == first {
            let end = start + self.id.count
            guard record[start..<end].elementsEqual(self.id) else { continue }
            if start > 0, Self.isWord(record[start - 1]) { continue }
            if end < record.count, Self.isWord(record[end]) { continue }
            return true
        }
        return false
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "_"), UInt8(ascii: "-"), 0x80...: true
        default: false
        }
    }
}
