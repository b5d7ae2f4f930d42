internal import WaybillData
internal import WaybillExport
package import WaybillSystem

/// Seals an export's days, at the cut-off in the report's own time zone.
///
/// A seal is part of a checkpoint, like closing a part: held records are written to the day's open part, which is
/// closed, as its refused events are; one commit records this and contains the day's manifest; once the day's parts are
/// compressed, the manifest and `_SUCCESS` are written. Later events go to the next part, which is late; the next
/// cut-off adds it to a new revision of the manifest.
extension ExportProjection {
    static var sealPrefix: String { OwedSeals<Files>.keyPrefix }
    static var unmarkedPrefix: String { OwedSeals<Files>.unmarkedPrefix }
    /// How many days one checkpoint seals; the others follow with the next.
    private static var sealCountMax: Int { 64 }

    package var nextDue: WallTime? { self.openDays.nextDue }

    package mutating func correctDueTimes(now: WallTime) {
        self.openDays.correct(now: now)
    }

    package mutating func takeSealed() -> [SealedDay] {
        self.owedSeals.takeSealed()
    }

    /// Closes the open parts of the days that are due.
    ///
    /// - Returns: the days, with the refusals of an open part without a record.
    mutating func closeDueDays(
        _ moment: SealMoment
    ) throws(FileSystemError) -> [(key: ExportDay, rest: ExportTotals)] {
        var days: [(key: ExportDay, rest: ExportTotals)] = []
        let due = self.openDays.due(moment).sorted { self.path($0) < self.path($1) }
        for key in due.prefix(Self.sealCountMax) {
            let index = self.sink.index(of: key)
            try self.release(index, key)
            guard let part = self.sink.partitions[index].chunks.last?.part else { continue }
            var rest = ExportTotals()
            if part.recordCount > 0 {
                try self.closePart(part, key, zone: self.options.zone.name)
            } else {
                rest = part.totals
            }
            try self.closeDeadLetters(key, revision: part.revision)
            self.sink.sealed(index)
            self.touchedKeys.insert(key)
            days.append((key, rest))
        }
        return days
    }

    /// The manifest of a day whose parts are all closed, including those of this checkpoint.
    func dayManifest(
        _ key: ExportDay, _ rest: ExportTotals, at time: WallTime
    ) throws(FileSystemError) -> ExportDayManifest {
        let directory = Path.join(self.root, self.path(key))
        // A seal before this one may still wait for its parts.
        let waiting = self.state.entries[Self.sealPrefix + self.path(key)]
        var old = waiting.flatMap { ExportDayManifest(json: Array($0.utf8)) }
        if old == nil { old = try self.dayManifest(in: directory) }
        let revision = self.sink.partitions[self.sink.index(known: key)].chunks.last?.part.revision ?? 1
        var manifest = ExportDayManifest(self.options, key, revision: revision, sealedAt: time)
        if let old {
            manifest.totals = old.totals
            manifest.erasedCount = old.erasedCount
            manifest.erasureCount = old.erasureCount
            manifest.revision = revision + old.erasureCount
        }
        manifest.totals.add(rest)
        let counted = Set(old?.parts.map { Self.number($0.name) } ?? [])
        var parts: [String: PartManifest] = [:]
        if try self.files.status(at: directory) != nil {
            for name in try self.files.list(directory) where name.hasSuffix(".manifest.json") {
                guard
                    let part = try self.files.contents(of: Path.join(directory, name)).flatMap(PartManifest.init(json:))
                else { continue }
                let stem = name.dropLast(".manifest.json".utf8.count)
                parts["\(stem).\(self.description.fileExtension)\(part.gzipSHA256 == nil ? "" : ".gz")"] = part
            }
        }
        for entries in [self.closed.entries, self.state.entries] {
            for (path, manifest) in ExportCheckpoint.closing(in: entries)
            where Path.parent(of: path) == self.path(key) {
                let name = "\(Path.name(of: path)).\(self.description.fileExtension)"
                parts[name] = nil
                parts[name + ".gz"] = PartManifest(json: Array(manifest.utf8))
            }
        }
        let known = Set(parts.keys.map { Self.number($0) })
        for part in old?.parts ?? [] where !known.contains(Self.number(part.name)) {
            // Its own manifest is damaged: the day keeps what it recorded.
            manifest.parts.append(part)
        }
        for (name, part) in parts {
            manifest.parts.append(ExportDayManifest.Part(name: name, part))
            if !counted.contains(Self.number(name)) { manifest.totals.add(part.totals) }
        }
        manifest.parts.sort { Self.number($0.name) < Self.number($1.name) }
        return manifest
    }

    private static func number(_ part: String) -> Int {
        PartitionPath.partNumber(of: part) ?? .max
    }

    /// The manifest of a day's last seal; `nil` before the first.
    func dayManifest(in directory: String) throws(FileSystemError) -> ExportDayManifest? {
        try self.files.contents(of: Path.join(directory, DayFolder.manifestName))
            .flatMap(ExportDayManifest.init(json:))
    }

    /// Writes the manifests of days that the checkpoint records as sealed, once their parts are compressed.
    mutating func finishSeals() throws(FileSystemError) {
        for folder in self.owedSeals.folders { try self.finishSeal(of: folder) }
    }

    /// Writes the manifest of a sealed day, once its parts are compressed.
    mutating func finishSeal(of folder: String) throws(FileSystemError) {
        guard !self.closed.contains(folder: folder) else { return }
        try self.owedSeals.finish(folder, &self.state)
    }

    /// The folders of sealed days whose manifest waits for parts that are not compressed.
    package var owedDays: [String] { self.owedSeals.folders }

    /// Finds the days to be sealed after a recovery.
    ///
    /// Days whose seal is later than the checkpoint are unmarked, because their parts are made again.
    mutating func findOpenDays() throws(FileSystemError) {
        self.openDays = OpenDays(self.cutOff)
        for (key, standing) in self.sink.standings.sorted(by: { self.path($0.key) < self.path($1.key) }) {
            let directory = Path.join(self.root, self.path(key))
            if let sealed = try self.dayManifest(in: directory),
                sealed.revision - sealed.erasureCount > standing.revision
            {
                try self.state.commit([Self.unmarkedPrefix + self.path(key): "1"])
                for name in [DayFolder.successName, DayFolder.manifestName]
                where try self.files.status(at: Path.join(directory, name)) != nil {
                    try self.files.unlink(Path.join(directory, name))
                }
                try self.files.synchronizeDirectory(directory)
            }
            if standing.isUnsealed {
                self.openDays.add(key, key.day, openedAt: WallTime(milliseconds: standing.openedAt))
            }
        }
    }
}
