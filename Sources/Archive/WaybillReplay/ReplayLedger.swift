internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillSystem

/// The durable record of what a replay has made so far: `state/replay.state`.
///
///     request  fingerprint of the request               archive  fingerprint of the archive's lengths
///     replay   a unique name                            unit:env=prod/date=2026-11-20  unexplained=0 stray=0 ga4.lines=…
///
/// `@unchecked Sendable`: while workers run, it is accessed only under the lock of their ``Monitor``, and before and
/// after only by the thread that starts them.
final class ReplayLedger<Files: FileSystem>: @unchecked Sendable {
    /// The result of one unit.
    struct Outcome: Hashable {
        var unexplainedByteCount = 0
        var strayLineCount = 0
        var counts: [Destination: Replay.Counts] = [:]
    }

    private var state: StateStore<Files>
    private let path: String
    private let files: Files

    private static var unitPrefix: String { "unit:" }

    init(path: String, files: Files) throws(FileSystemError) {
        self.path = path
        self.files = files
        self.state = try StateStore(path: path, files: files)
        try self.state.settle()
    }

    /// Why this replay cannot continue from the record; `nil` if it can, or if nothing is recorded.
    func obstacle(request: String, archive: String) -> String? {
        guard self.replay != nil else { return nil }
        if self.state.entries["request"] != request { return "another replay was interrupted" }
        if self.state.entries["archive"] != archive {
            return "the archive, or what is left out of it, has changed since"
        }
        return nil
    }

    /// The name of the replay; `nil` before ``begin(request:archive:)``.
    var replay: String? { self.state.entries["replay"] }

    /// Clears the record and starts a replay.
    func begin(request: String, archive: String) throws(FileSystemError) {
        var changes: [String: String?] = [:]
        for key in self.state.entries.keys { changes.updateValue(nil, forKey: key) }
        changes["request"] = .some(request)
        changes["archive"] = .some(archive)
        changes["replay"] = .some(Hexadecimal.text(SystemRandom.seed(), digitCount: 16))
        try self.state.commit(changes)
    }

    func outcome(of unit: ExportDay) -> Outcome? {
        self.state.entries[Self.unitPrefix + unit.description].map(Outcome.init(text:))
    }

    func record(_ outcome: Outcome, of unit: ExportDay) throws(FileSystemError) {
        try self.state.commit([Self.unitPrefix + unit.description: outcome.text])
    }

    /// Deletes the record of a finished replay.
    func remove() throws(FileSystemError) {
        for path in StateImage.paths(self.path)
        where try self.files.status(at: path) != nil {
            try self.files.unlink(path)
        }
        try self.files.synchronizeDirectory(Path.parent(of: self.path))
    }
}

extension ReplayLedger.Outcome {
    private static var fields: [(name: String, path: WritableKeyPath<Replay.Counts, Int>)] {
        [
            ("lines", \.lines), ("bytes", \.bytes), ("exported", \.events.exported), ("refused", \.events.refused),
            ("held", \.events.held), ("skipped", \.events.skipped), ("dup", \.duplicates), ("users", \.users),
            ("partitions", \.partitions),
        ]
    }

    var text: String {
        var fields = ["unexplained=\(self.unexplainedByteCount)", "stray=\(self.strayLineCount)"]
        for (provider, counts) in self.counts.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            fields += Self.fields.map { "\(provider.rawValue).\($0.name)=\(counts[keyPath: $0.path])" }
        }
        return fields.joined(separator: " ")
    }

    init(text: String) {
        for field in text.split(separator: " ") {
            let parts = field.split(separator: "=")
            guard parts.count == 2, let value = Int(parts[1]), (0...(1 << 53)).contains(value) else { continue }
            let names = parts[0].split(separator: ".")
            if names == ["unexplained"] {
                self.unexplainedByteCount = value
            } else if names == ["stray"] {
                self.strayLineCount = value
            } else if names.count == 2, let provider = Destination(recordedName: String(names[0])),
                let known = Self.fields.first(where: { $0.name == names[1] })
            {
                self.counts[provider, default: Replay.Counts()][keyPath: known.path] = value
            }
        }
    }
}
