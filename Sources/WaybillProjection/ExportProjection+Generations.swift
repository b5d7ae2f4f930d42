package import WaybillExport
package import WaybillSystem

internal import WaybillArchive
internal import WaybillJSON

/// Exchanging partitions of a live export for ones that a replay made.
///
///     1. the new partition gets a `.generation` file that names its content
///     2. one commit: the checkpoint forgets the old partition's files, and remembers the exchange
///     3. the two folders are exchanged, the old one moves to exports/.previous-<provider>
///     4. one commit: the exchange is done
///
/// A crash after 2 finds the exchange in the checkpoint; whether it was done is told by the `.generation` file.
extension ExportProjection {
    static var generationName: String { ".generation" }

    /// Where the partitions are that this export has written, below the data directory.
    package var partitionPaths: [String] {
        var paths: [String] = []
        for key in self.partitionKeys { paths.append(self.path(key)) }
        return paths.sorted()
    }

    /// Takes the partitions of `directory` in the place of its own for these days and environment.
    ///
    /// Own partitions of the range that `directory` does not have become empty.
    package mutating func adopt(
        from directory: String, days from: CalendarDay?, through to: CalendarDay?, env: DeploymentEnvironment?
    ) throws(FileSystemError) {
        let filter = ExportFilter(from: from, to: to, env: env)
        let new = try self.partitions(below: directory)
        let own = try self.partitions(below: self.directory).filter { key in
            filter.admits(key.day) && (env == nil || key.env == env)
        }
        var changes: [String: String?] = [:]
        for key in Set(new).union(own) {
            let source = key.path(below: directory)
            try self.files.createDirectories(Path.join(self.root, source))
            let generation = try self.markGeneration(Path.join(self.root, source))
            let target = self.path(key)
            for entry in self.state.entries.keys {
                let prefix = FileSet<Files>.keyPrefix + target + "/"
                if entry.hasPrefix(prefix) { changes.updateValue(nil, forKey: entry) }
            }
            for path in ["dead/\(PartitionPath.part(0)).ndjson", "held.ids"] {
                // These go on growing where the replay left them.
                guard let status = try self.files.status(at: Path.join(self.root, "\(source)/\(path)")) else {
                    continue
                }
                changes[FileSet<Files>.keyPrefix + "\(target)/\(path)"] = String(status.byteCount)
            }
            changes[Self.partPrefix + target] = PartStanding(number: try self.nextPartNumber(in: source)).text
            changes[Self.switchPrefix + target] = "\(source) \(generation)"
        }
        // All of it was made with the options of now.
        if from == nil, to == nil, env == nil { changes.updateValue(nil, forKey: Self.changedKey) }
        try self.state.commit(changes)
        try self.finishSwitching()
        _ = try self.recover()
    }

    /// Does the exchanges that the checkpoint remembers.
    mutating func finishSwitching() throws(FileSystemError) {
        for (key, value) in self.state.entries.sorted(by: { $0.key < $1.key }) where key.hasPrefix(Self.switchPrefix) {
            let target = Path.join(self.root, String(key.dropFirst(Self.switchPrefix.utf8.count)))
            let fields = value.split(separator: " ").map(String.init)
            guard fields.count == 2 else { continue }
            let source = Path.join(self.root, fields[0])
            // A folder that somebody took away leaves the live one as it is.
            if try self.generation(of: target) != fields[1], try self.files.status(at: source) != nil {
                try self.exchange(source, target)
            }
            try self.keepPrevious(source, of: String(key.dropFirst(Self.switchPrefix.utf8.count)))
            try self.state.commit([key: String?.none])
        }
    }

    private func exchange(_ source: String, _ target: String) throws(FileSystemError) {
        if try self.files.status(at: target) == nil {
            try self.files.createDirectories(Path.parent(of: target))
            try self.files.rename(source, to: target)
        } else {
            try self.files.exchange(source, with: target)
        }
        try self.files.synchronizeDirectory(Path.parent(of: target))
        try self.files.synchronizeDirectory(Path.parent(of: source))
    }

    /// Puts the replaced partition where an operator finds it, in the place of one that was replaced before it.
    private func keepPrevious(_ replaced: String, of partition: String) throws(FileSystemError) {
        guard try self.files.status(at: replaced) != nil else { return }
        let name = Path.name(of: self.directory)
        let previous = Path.join(
            self.root, "exports/.previous-\(name)" + partition.dropFirst(self.directory.utf8.count))
        try self.files.removeTree(previous)
        try self.files.createDirectories(Path.parent(of: previous))
        try self.files.rename(replaced, to: previous)
        try self.files.synchronizeDirectory(Path.parent(of: previous))
        try self.files.synchronizeDirectory(Path.parent(of: replaced))
    }

    /// Gives a partition's content a name that no other has, and writes it into the partition.
    private func markGeneration(_ partition: String) throws(FileSystemError) -> String {
        let generation = Hexadecimal.text(SystemRandom.seed(), digitCount: 16)
        try self.files.replace(Path.join(partition, Self.generationName), with: Array("\(generation)\n".utf8))
        return generation
    }

    private func generation(of partition: String) throws(FileSystemError) -> String? {
        guard let bytes = try self.files.contents(of: Path.join(partition, Self.generationName)) else { return nil }
        return String(decoding: bytes.prefix { $0 != 0x0A }, as: UTF8.self)
    }

    private func nextPartNumber(in partition: String) throws(FileSystemError) -> Int {
        let numbers = try self.files.list(Path.join(self.root, partition)).compactMap(PartitionPath.partNumber(of:))
        return (numbers.max() ?? -1) + 1
    }

    private func partitions(below directory: String) throws(FileSystemError) -> [PartSink.Key] {
        var keys: [PartSink.Key] = []
        let top = Path.join(self.root, directory)
        guard try self.files.status(at: top) != nil else { return [] }
        for env in try self.files.list(top) {
            for date in try self.files.list(Path.join(top, env)) {
                if let key = PartSink.Key(partition: "\(directory)/\(env)/\(date)") { keys.append(key) }
            }
        }
        return keys
    }
}
