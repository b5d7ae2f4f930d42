internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Compares what the archive gives with what the exports hold.
extension DataVerifier {
    // MARK: What is expected

    /// Maps every line that the exports must have received: the archive's up to the export's checkpoint, and the
    /// journal's from the archive's checkpoint on.
    mutating func map(_ archive: ProjectionCheckpoint, into checks: [ExportCheck]) throws(FileSystemError) {
        let parse = SharedParse()
        var readers = EventReaders(
            erased: try ErasedPeople.read(in: self.data), poison: try PoisonedLines.read(in: self.data))
        for part in self.parts(archive) { try self.map(part, into: checks, parse, &readers) }
        let end = checks.map(\.position).max() ?? 0
        guard archive.position.rawValue < end else { return }
        var reader = BatchReader(
            journalDirectory: self.data.journal, position: archive.position, files: self.data.files)
        while let batch = try reader.next(upTo: min(JournalPosition(end), self.journalEnd)) {
            let takers = checks.filter { batch.position.rawValue < $0.position }
            for check in takers { check.sink.isOlder = false }
            // What is shifted is in a checkpoint of the archive before an export reads it.
            Self.map(
                batch.raw, readers.reader(for: batch.description), from: batch.offset, batch.receivedAt,
                isShifted: false, into: takers, parse)
        }
    }

    private static func map(
        _ raw: UnsafeRawBufferPointer, _ reader: EventReader, from offset: StreamOffset, _ receivedAt: WallTime,
        isShifted: Bool, into checks: [ExportCheck], _ parse: SharedParse
    ) {
        guard !checks.isEmpty else { return }
        var start = 0
        while start < raw.count {
            parse.parse(raw, from: start, reader, at: offset.rawValue)
            for check in checks {
                parse.lines.forEach(in: raw) {
                    check.take($0, reader.source, receivedAt: receivedAt, isShifted: isShifted)
                }
            }
            start = parse.lines.end
        }
    }

    /// The archive's files with lines, in the order of their paths.
    private func parts(_ archive: ProjectionCheckpoint) -> [ArchiveIndex<Files>.Part] {
        var parts: [ArchiveIndex<Files>.Part] = []
        for (path, file) in self.sealedFiles {
            guard let folder = DayFolder(path: Path.parent(of: path)) else { continue }
            parts.append(
                ArchiveIndex.Part(
                    path: path, folder: folder, byteCount: file.byteCount, sourcesByteCount: file.sourcesByteCount,
                    sealed: file))
        }
        for (path, byteCount) in archive.lengths where path.hasSuffix(".ndjson") && self.sealedFiles[path] == nil {
            guard let folder = DayFolder(path: Path.parent(of: path)) else { continue }
            parts.append(
                ArchiveIndex.Part(
                    path: path, folder: folder, byteCount: byteCount,
                    sourcesByteCount: archive.lengths[path.dropLast(7) + ".sources"] ?? 0, sealed: nil))
        }
        return parts.sorted { $0.path < $1.path }
    }

    private mutating func map(
        _ part: ArchiveIndex<Files>.Part, into checks: [ExportCheck], _ parse: SharedParse,
        _ readers: inout EventReaders
    ) throws(FileSystemError) {
        let name = part.sealed == nil ? part.path : part.path + ".gz"
        guard try self.data.files.status(at: self.absolute(name)) != nil else { return }
        var reader = try PartReader(part, data: self.data)
        while true {
            let next: (run: SourceRun, bytes: UnsafeRawBufferPointer)?
            do throws(PartReadError) {
                next = try reader.next()
            } catch {
                // Damage was reported when the archive was read.
                guard case .disk(let cause) = error else { return }
                throw cause
            }
            guard let (source, bytes) = next else { return }
            let position = self.position(of: source)
            let takers = checks.filter { check in position.map { $0.rawValue < check.position } ?? true }
            for check in takers { check.sink.isOlder = position == nil }
            Self.map(
                bytes, readers.reader(for: source.description), from: source.offset, source.receivedAt,
                isShifted: source.shiftedAt != nil, into: takers, parse)
        }
    }

    // MARK: What differs

    /// Compares the sums of each day, and explains those that differ.
    mutating func judge(_ check: ExportCheck, _ archive: ProjectionCheckpoint) throws(FileSystemError) {
        for line in check.foundHeld where !check.sink.held.contains(line.content) {
            self.report.add(
                Problem(
                    .different, line.path, at: line.range.lowerBound, byteCount: line.range.count,
                    "the archive gives no held event with this id, time and record"))
        }
        for line in check.foundLines {
            guard let own = check.sink.lines[line.content], own != line.line else { continue }
            self.report.add(
                Problem(
                    .different, line.path, at: line.range.lowerBound, byteCount: line.range.count,
                    "the event in this dead letter is not the line in the archive"))
        }
        var differing: Set<ExportDay> = []
        let days = Set(check.sink.kept.keys).union(check.sink.older.keys).union(check.found.keys)
        for day in days.sorted() {
            let expected = (check.sink.kept[day] ?? ExportTally()).adding(check.sink.older[day] ?? ExportTally())
            if check.found[day] ?? ExportTally() != expected { differing.insert(day) }
        }
        let feeding = differing.filter { day in
            self.report.archiveFolders.contains { DayFolder(path: $0).map { Self.mayFeed($0, day) } ?? false }
        }
        for day in feeding.sorted() {
            self.report.note(
                "\(check.folder)/\(day) differs from the archive, where files of these days are damaged: repair them "
                    + "first, then verify again")
        }
        differing.subtract(feeding)
        differing = differing.filter { !check.unreadable.contains("\(check.folder)/\($0)") }
        if !differing.isEmpty { try self.explain(check, differing, archive) }
    }

    /// Whether lines in an archive's folder may be in an export's day, in whatever zone.
    private static func mayFeed(_ folder: DayFolder, _ day: ExportDay) -> Bool {
        folder.environment == day.env.rawValue && abs(folder.day.daysSince1970 - day.day.daysSince1970) <= 1
    }

    /// How many events of an export are reported.
    static var explainedCountMax: Int { 100 }

    /// An event in a part that the archive does not give as it is.
    private struct Alien {
        let stem: String
        let path: String
        let range: Range<Int>
        let idsOffset: Int
        let id: String
        let content: EventContent

        init(_ event: PresentPartition<Files>.Event, _ content: EventContent) {
            self.stem = event.stem
            self.path = event.path
            self.range = event.range
            self.idsOffset = event.idsOffset
            self.id = String(decoding: event.id, as: UTF8.self)
            self.content = content
        }
    }

    /// Reports the events in which days' files and the archive differ.
    private mutating func explain(
        _ check: ExportCheck, _ days: Set<ExportDay>, _ archive: ProjectionCheckpoint
    ) throws(FileSystemError) {
        check.expectNothing()
        check.sink.days = days
        try self.map(archive, into: [check])
        check.countUnread(try PoisonedLines.read(in: self.data))
        let (records, letters) = (check.sink.records, check.sink.letters)
        var aliens: [ExportDay: [Alien]] = [:]
        var lacking: [ExportDay: [UInt64: Int]] = [:]
        for day in days.sorted() {
            var expected = records[day] ?? [:]
            let partition = PresentPartition(
                data: self.data, path: "\(check.folder)/\(day)", options: check.options, lengths: check.lengths,
                unlisted: .everything)
            aliens[day] = try self.aliens(check, partition, &expected)
            lacking[day] = expected.filter { $0.value > 0 }
            try self.explainLetters(check, day, partition, letters[day] ?? [:])
        }
        check.expectNothing()
        for (_, contents) in lacking { check.sink.soughtRecords.formUnion(contents.keys.prefix(10_000)) }
        for alien in aliens.values.joined() { check.sink.soughtIDs.insert(ContentHash.hash(alien.id.utf8)) }
        if !check.sink.soughtRecords.isEmpty || !check.sink.soughtIDs.isEmpty {
            try self.map(archive, into: [check])
        }
        var notExportedCount = 0
        var leftOutCount = 0
        var deletedCount = 0
        for day in days.sorted() {
            var lost: [(name: ExpectedSink.Name, count: Int)] = []
            for (content, count) in (lacking[day] ?? [:]).sorted(by: { $0.key < $1.key }) {
                guard let name = check.sink.names[content] else { continue }
                lost.append((name, count))
            }
            let isReplayed = check.replayed.contains(day)
            let isOrphaned = self.isArchiveDeleted(of: day)
            deletedCount += self.report(
                aliens[day] ?? [], &lost, check, isReplayed: isReplayed, isOrphaned: isOrphaned)
            let isDeleted = self.deletedPaths.contains("\(check.folder)/\(day)")
            for (name, count) in lost where count > 0 {
                if isDeleted {
                    deletedCount += count
                } else if isReplayed, name.isOfUser || name.count > count {
                    // A replay leaves out what sets users' properties, and repetitions if it is told to.
                    leftOutCount += count
                } else if name.isOlder, !isReplayed {
                    // An export that was configured later, or stood still, lacks events that the journal had already
                    // deleted.
                    notExportedCount += count
                } else {
                    self.report.add(
                        Problem(
                            .lost, "\(check.folder)/\(day)",
                            "event \(name.id) is archived and not exported (\(count) times)"))
                }
            }
        }
        if leftOutCount > 0 {
            self.report.note("\(leftOutCount) events are not in \(check.name), as its last replay left them out")
        }
        if deletedCount > 0 {
            self.report.note(
                "\(deletedCount) events of \(check.name) cannot be compared: retention deleted their day in the archive or in "
                    + "the export; archive/_deleted.ndjson lists both")
        }
        guard notExportedCount > 0 else { return }
        self.report.note(
            "\(notExportedCount) archived events are older than the journal and not in \(check.name): it started later, or "
                + "did not read them before the journal was deleted; waybill replay --provider \(check.name) adds them")
    }

    /// Finds the events of a day that are not expected, and takes the others from `expected`.
    private func aliens(
        _ check: ExportCheck, _ partition: PresentPartition<Files>, _ expected: inout [UInt64: Int]
    ) throws(FileSystemError) -> [Alien] {
        var aliens: [Alien] = []
        var left = expected
        try partition.visitHeld(in: check.entries) { line in
            line.withUnsafeBytes { line in
                guard let event = HeldRecord.event(of: line) else { return }
                left[EventContent(event.record, id: event.id).whole]? -= 1
            }
        }
        for part in try partition.parts() {
            do throws(FileSystemError) {
                try partition.visitEvents(of: part) { event in
                    let content = EventContent(event.record, id: event.id)
                    if let count = left[content.whole], count > 0 {
                        left[content.whole] = count - 1
                    } else if aliens.count < Self.explainedCountMax {
                        aliens.append(Alien(event, content))
                    }
                }
            } catch {
                // Reported when the part was read.
                guard error.isDamage || error.errno == Errno.noEntry else { throw error }
            }
        }
        expected = left
        return aliens
    }

    /// Whether retention has deleted days of the archive whose lines may be in an export's day.
    private func isArchiveDeleted(of day: ExportDay) -> Bool {
        self.deletedPaths.contains { path in
            let folder = DayFolder(path: path) ?? DayFolder(path: Path.parent(of: path))
            return folder.map { Self.mayFeed($0, day) } ?? false
        }
    }

    /// Reports events of parts: those that `lost` explains are taken from it.
    ///
    /// - Parameter isOrphaned: the archive may have had the others in a day that retention deleted.
    /// - Returns: how many of them.
    private mutating func report(
        _ aliens: [Alien], _ lost: inout [(name: ExpectedSink.Name, count: Int)], _ check: ExportCheck,
        isReplayed: Bool, isOrphaned: Bool
    ) -> Int {
        var orphanCount = 0
        for alien in aliens {
            if let index = lost.firstIndex(where: { $0.count > 0 && $0.name.record == alien.content.record }) {
                lost[index].count -= 1
                self.report.add(
                    Problem(
                        .different, alien.stem + ".ids", at: alien.idsOffset, byteCount: alien.id.utf8.count,
                        "the id \(alien.id) is of a record whose event is \(lost[index].name.id)"))
            } else if let index = lost.firstIndex(where: { $0.count > 0 && $0.name.id == alien.id }) {
                lost[index].count -= 1
                // A replay reduces such an event to the properties that no later one sets.
                if isReplayed, lost[index].name.isOfUser { continue }
                self.report.add(
                    Problem(
                        .different, alien.path, at: alien.range.lowerBound, byteCount: alien.range.count,
                        "the record of event \(alien.id) is not what the archive gives"))
            } else {
                let isKnown = check.sink.knownIDs.contains(ContentHash.hash(alien.id.utf8))
                guard isKnown || !(isOrphaned || check.takeUnreadLine()) else {
                    orphanCount += 1
                    continue
                }
                self.report.add(
                    Problem(
                        isKnown ? .repeated : .unexplained, alien.path, at: alien.range.lowerBound,
                        byteCount: alien.range.count,
                        isKnown
                            ? "event \(alien.id) is exported more often than archived, or from another line"
                            : "event \(alien.id) is not in the archive"))
            }
        }
        return orphanCount
    }

    /// Reports the dead letters in which a day's files and the archive differ.
    private mutating func explainLetters(
        _ check: ExportCheck, _ day: ExportDay, _ partition: PresentPartition<Files>, _ letters: [UInt64: Int]
    ) throws(FileSystemError) {
        let folder = "\(check.folder)/\(day)"
        var left = letters
        check.takeRetaken(from: &left)
        var tape = JSONTape()
        var problems: [Problem] = []
        do throws(FileSystemError) {
            try partition.visitDeadLetters { letter, path, range in
                let content = letter.withUnsafeBytes { LetterContent($0, &tape) }
                if let count = left[content.letter], count > 0 {
                    left[content.letter] = count - 1
                } else {
                    problems.append(
                        Problem(
                            .different, path, at: range.lowerBound, byteCount: range.count,
                            "this dead letter is not what the archive gives"))
                }
            }
        } catch {
            // Reported when the file was read.
            guard error.isDamage else { throw error }
        }
        if self.isArchiveDeleted(of: day) { problems = [] }
        problems.removeAll { _ in check.takeUnreadLine() }
        for problem in problems.prefix(Self.explainedCountMax) { self.report.add(problem) }
        let missing = left.values.reduce(0) { $0 + max(0, $1) } - problems.count
        guard missing > 0, !check.replayed.contains(day), !self.areLettersDeleted(of: folder) else { return }
        self.report.add(
            Problem(.lost, folder + "/dead", "\(missing) refused events of the archive have no dead letter"))
    }

    /// Whether retention has deleted dead letters of an export's day, or all of the day.
    func areLettersDeleted(of folder: String) -> Bool {
        self.deletedPaths.contains { $0 == folder || $0.hasPrefix(folder + "/dead/") }
    }
}
