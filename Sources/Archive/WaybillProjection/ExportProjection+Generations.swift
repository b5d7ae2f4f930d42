package import WaybillEvent
internal import WaybillExport
package import WaybillSystem

internal import WaybillData
internal import WaybillJSON

/// Exchanges partitions of a live export for those that a replay made, or for those that a replay replaced.
///
///     1. the new partition gets a `.generation` file, which names its content and has its future checkpoint entries;
///        the old one gets a `.standing` file, which has its checkpoint entries until now
///     2. one commit: the checkpoint drops the old partition's files and records the exchange
///     3. the two folders are exchanged, the old one moves to exports/.previous-<provider>
///     4. one commit: the exchange is done
///
/// After a crash in or after step 2, the exchange is in the checkpoint; the `.generation` file shows whether it was
/// done.
extension ExportProjection {
    static var generationName: String { ".generation" }
    static var standingName: String { ".standing" }

    /// The checkpoint entries of one partition: the `part:` entry, the length of each file below the folder, the manifest
    /// of each closed file that is not compressed yet (`closed:part-00000`), and the one of the day (`seal`).
    private typealias Standing = [String: String]

    /// The paths of this export's partitions, below the data directory.
    package var partitionPaths: [String] {
        var paths: [String] = []
        for key in self.partitionKeys { paths.append(self.path(key)) }
        return paths.sorted()
    }

    /// The replay whose partitions were adopted last.
    package var adoptedReplay: String? { self.state.entries[Self.adoptedKey] }

    /// Replaces its own partitions for these days and environments by those of `directory`.
    ///
    /// Partitions of the range that `directory` does not have become empty.
    ///
    /// - Parameter replay: the name of the replay that made them, and of ``adoptedReplay`` from the deciding commit on.
    package mutating func adopt(
        from directory: String, range: ExportRange, replay: String
    ) throws(FileSystemError) {
        try self.sealWhatCanBe()
        // What is exchanged need not be compressed.
        self.closed.forgetFailures(in: range)
        var standings: [ExportDay: Standing] = [:]
        for key in Set(try self.partitions(below: directory)).union(try self.partitions(below: self.directory))
        where range.admits(key.day, key.env) {
            let source = key.path(below: directory)
            try self.files.createDirectories(Path.join(self.root, source))
            var part = PartStanding(number: try self.nextPartNumber(in: source))
            part.heldCount = try HeldRecord.count(in: Path.join(self.root, source), files: self.files)
            var standing = ["part": part.text]
            for path in ["dead/\(PartitionPath.part(0)).ndjson", HeldRecord.fileName] {
                // These continue to grow from where the replay ended.
                guard let status = try self.files.status(at: Path.join(self.root, "\(source)/\(path)")) else {
                    continue
                }
                standing[path] = String(status.byteCount)
            }
            standings[key] = standing
        }
        var changes: [String: String?] = [Self.adoptedKey: replay]
        // All of it was made with the current options.
        if range == ExportRange() { changes.updateValue(nil, forKey: Self.changedKey) }
        try self.exchange(standings, with: directory, changes: changes)
    }

    /// The result of ``rollBack(_:)``, as paths of partitions below the data directory.
    package struct RollBack: Hashable, Sendable {
        package var exchanged: [String] = []
        /// Partitions with events since their exchange, which the previous generation does not have; nothing was done.
        package var grown: [String] = []
    }

    /// Restores the replaced partitions for these days and environments; a second call undoes the first.
    ///
    /// Restores the whole range or, if a partition has events since its exchange, nothing.
    package mutating func rollBack(_ range: ExportRange) throws(FileSystemError) -> RollBack {
        try self.sealWhatCanBe()
        let previous = self.previousDirectory
        var report = RollBack()
        var standings: [ExportDay: Standing] = [:]
        for key in try self.partitions(below: previous).filter({ range.admits($0.day, $0.env) }).sorted() {
            let target = self.path(key)
            guard
                let standing = try self.standing(in: Path.join(self.root, key.path(below: previous)), Self.standingName)
            else { continue }
            let adopted = try self.standing(in: Path.join(self.root, target), Self.generationName)
            if adopted == self.standing(of: target) {
                standings[key] = standing
                report.exchanged.append(target)
            } else {
                report.grown.append(target)
            }
        }
        guard report.grown.isEmpty else {
            report.exchanged = []
            return report
        }
        // It is unknown with which options the others were made.
        let position = self.state.entries["position"] ?? "0"
        try self.exchange(standings, with: previous, changes: [Self.changedKey: position])
        return report
    }

    private var previousDirectory: String { "exports/.previous-\(Path.name(of: self.directory))" }

    /// Exchanges partitions with those of `directory`, and continues from `standings`.
    private mutating func exchange(
        _ standings: [ExportDay: Standing], with directory: String, changes: [String: String?]
    ) throws(FileSystemError) {
        var changes = changes
        for (key, standing) in standings {
            let source = key.path(below: directory)
            let target = self.path(key)
            let old = self.standing(of: target)
            try self.files.createDirectories(Path.join(self.root, target))
            try self.files.replace(
                Path.join(self.root, "\(target)/\(Self.standingName)"), with: Array(Self.text(old).utf8))
            let generation = Hexadecimal.text(SystemRandom.seed(), digitCount: 16)
            try self.files.replace(
                Path.join(self.root, "\(source)/\(Self.generationName)"),
                with: Array("\(generation)\n\(Self.text(standing))".utf8))
            for name in old.keys { changes.updateValue(nil, forKey: Self.entry(name, of: target)) }
            for (name, value) in standing { changes[Self.entry(name, of: target)] = .some(value) }
            changes[Self.switchPrefix + target] = .some("\(source) \(generation)")
        }
        try self.state.commit(changes)
        try self.finishSwitching()
        _ = try self.recover()
    }

    private static func entry(_ name: String, of partition: String) -> String {
        if name == "part" { return Self.partPrefix + partition }
        if name == "seal" { return Self.sealPrefix + partition }
        let closed = ExportCheckpoint.closedPrefix
        if name.hasPrefix(closed) { return "\(closed)\(partition)/\(name.dropFirst(closed.utf8.count))" }
        return "\(FileSet<Files>.keyPrefix)\(partition)/\(name)"
    }

    private func standing(of partition: String) -> Standing {
        var standing: Standing = [:]
        standing["part"] = self.state.entries[Self.partPrefix + partition]
        standing["seal"] = self.state.entries[Self.sealPrefix + partition]
        let prefix = "\(FileSet<Files>.keyPrefix)\(partition)/"
        let closed = "\(ExportCheckpoint.closedPrefix)\(partition)/"
        for (key, value) in self.state.entries {
            if key.hasPrefix(prefix) {
                standing[String(key.dropFirst(prefix.utf8.count))] = value
            } else if key.hasPrefix(closed) {
                standing[ExportCheckpoint.closedPrefix + key.dropFirst(closed.utf8.count)] = value
            }
        }
        return standing
    }

    private static func text(_ standing: Standing) -> String {
        standing.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)\n" }.joined()
    }

    /// The standing in a partition's file; `nil` if there is no file.
    private func standing(in partition: String, _ name: String) throws(FileSystemError) -> Standing? {
        guard let bytes = try self.files.contents(of: Path.join(partition, name)) else { return nil }
        var standing: Standing = [:]
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
            // The first line of a `.generation` file has no space.
            guard let space = line.firstIndex(of: " ") else { continue }
            standing[String(line[..<space])] = String(line[line.index(after: space)...])
        }
        return standing
    }

    /// Completes the exchanges recorded in the checkpoint.
    mutating func finishSwitching() throws(FileSystemError) {
        for (key, value) in self.state.entries.sorted(by: { $0.key < $1.key }) where key.hasPrefix(Self.switchPrefix) {
            let target = Path.join(self.root, String(key.dropFirst(Self.switchPrefix.utf8.count)))
            let fields = value.split(separator: " ").map(String.init)
            guard fields.count == 2 else { continue }
            let source = Path.join(self.root, fields[0])
            // If the source folder was removed, the live one is kept.
            if try self.generation(of: target) != fields[1], try self.files.status(at: source) != nil {
                try self.exchange(source, target)
            }
            try self.keepPrevious(source, of: String(key.dropFirst(Self.switchPrefix.utf8.count)))
            try self.state.commit([key: String?.none])
        }
    }

    private func exchange(_ source: String, _ target: String) throws(FileSystemError) {
        try self.files.createDirectories(target)
        try self.files.exchange(source, with: target)
        try self.files.synchronizeDirectory(Path.parent(of: target))
        try self.files.synchronizeDirectory(Path.parent(of: source))
    }

    /// Moves the replaced partition to where an operator finds it, and removes one replaced earlier.
    private func keepPrevious(_ replaced: String, of partition: String) throws(FileSystemError) {
        let previous = Path.join(
            self.root, self.previousDirectory + partition.dropFirst(self.directory.utf8.count))
        // After a rollback it is already in its place.
        guard replaced != previous, try self.files.status(at: replaced) != nil else { return }
        try self.files.removeTree(previous)
        try self.files.createDirectories(Path.parent(of: previous))
        try self.files.rename(replaced, to: previous)
        try self.files.synchronizeDirectory(Path.parent(of: previous))
        try self.files.synchronizeDirectory(Path.parent(of: replaced))
    }

    private func generation(of partition: String) throws(FileSystemError) -> String? {
        guard let bytes = try self.files.contents(of: Path.join(partition, Self.generationName)) else { return nil }
        return String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self)
    }

    private func nextPartNumber(in partition: String) throws(FileSystemError) -> Int {
        let numbers = try self.files.list(Path.join(self.root, partition)).compactMap(PartitionPath.partNumber(of:))
        return (numbers.max() ?? -1) + 1
    }

    /// The days that have a folder, in order.
    package func daysOnDisk() throws(FileSystemError) -> [ExportDay] {
        try self.partitions(below: self.directory).sorted()
    }

    private func partitions(below directory: String) throws(FileSystemError) -> [ExportDay] {
        var keys: [ExportDay] = []
        let top = Path.join(self.root, directory)
        guard try self.files.status(at: top) != nil else { return [] }
        for env in try self.files.list(top) {
            for date in try self.files.list(Path.join(top, env)) {
                if let key = ExportDay(partition: "\(directory)/\(env)/\(date)") { keys.append(key) }
            }
        }
        return keys
    }
}

/// The partitions of an export to exchange.
package struct ExportRange: Hashable, Sendable {
    /// Days in the report's zone.
    package var from: CalendarDay?
    package var to: CalendarDay?
    /// Empty for all.
    package var environments: Set<DeploymentEnvironment>

    package init(
        from: CalendarDay? = nil, to: CalendarDay? = nil, environments: Set<DeploymentEnvironment> = []
    ) {
        self.from = from
        self.to = to
        self.environments = environments
    }

    package func admits(_ day: CalendarDay) -> Bool {
        (self.from.map { $0 <= day } ?? true) && (self.to.map { day <= $0 } ?? true)
    }

    package func admits(_ day: CalendarDay, _ environment: DeploymentEnvironment) -> Bool {
        self.admits(day) && (self.environments.isEmpty || self.environments.contains(environment))
    }
}
