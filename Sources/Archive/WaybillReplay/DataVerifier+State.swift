internal import WaybillData
internal import WaybillProjection
internal import WaybillSystem

/// Verifies the state of commands: deliveries, replays and requeues.
extension DataVerifier {
    /// - Parameter names: of the checkpoints that were already verified.
    mutating func verifyState(except names: [String]) {
        let folder = Path.name(of: self.data.state)
        do throws(FileSystemError) {
            try self.verifyStore(self.relative(ErasureLog.secondPath(in: self.data)))
            guard try self.data.files.status(at: self.data.state) != nil else { return }
            for name in try self.data.files.list(self.data.state) {
                let path = Path.join(folder, name)
                if name.hasSuffix(".state"), !names.contains(String(name.dropLast(6))) {
                    try self.verifyStore(path)
                } else if name.hasSuffix(".state" + Self.previousSuffix) {
                    try self.verifyStore(path)
                } else if name == ErasureLog<Files>.name || name.hasPrefix(ErasureLog<Files>.name + "-") {
                    try self.verifyStore(path)
                } else if name.contains(".damaged-") {
                    self.report.note("\(path) was set aside by an earlier start")
                }
            }
        } catch {
            self.unreadable(error)
        }
    }

    /// Exports have a checkpoint as soon as they have files.
    mutating func verifyNames(ofExports names: [String]) {
        do throws(FileSystemError) {
            guard !self.isInUse, try self.data.files.status(at: self.data.exports) != nil else { return }
            for name in try self.data.files.list(self.data.exports) where !name.hasPrefix(".") {
                let path = self.absolute("exports/\(name)")
                guard !names.contains("export-" + name), try self.data.files.status(at: path)?.kind == .directory
                else { continue }
                if try self.mayBeginAgain("exports/\(name)") {
                    self.report.note(
                        "exports/\(name) has files, but no checkpoint yet: its first run did not come to one, and a "
                            + "start makes them again from the journal")
                    continue
                }
                self.report.add(
                    Problem(
                        .missing, "state/export-\(name).state",
                        "exports/\(name) has files, but its checkpoint does not exist"))
            }
        } catch {
            self.unreadable(error)
        }
    }

    /// Whether an export without a checkpoint can be what a first run left: no part is closed before a checkpoint, and
    /// the journal has everything from its beginning on.
    private mutating func mayBeginAgain(_ folder: String) throws(FileSystemError) -> Bool {
        var isOpen = true
        try self.walk(folder) { _, path in
            let name = Path.name(of: path)
            if name.hasSuffix("manifest.json") || name.hasSuffix(".gz") || name.hasPrefix(".") { isOpen = false }
        }
        guard isOpen else { return false }
        return try JournalCoverage(directory: self.data.journal, files: self.data.files)
            .isWhole(from: JournalPosition(0))
    }

    /// Compares what deliveries recorded with the marks of delivered parts.
    mutating func verifyDeliveries(of checks: [ExportCheck]) {
        guard !self.isInUse else { return }
        for check in checks {
            do throws(FileSystemError) {
                try self.verifyDelivery(of: check)
            } catch {
                self.unreadable(error)
            }
        }
    }

    private mutating func verifyDelivery(of check: ExportCheck) throws(FileSystemError) {
        let path = "state/deliver-\(check.name).state"
        var delivered: [String: [String]] = [:]
        for (folder, stems) in check.closed {
            for stem in stems where try self.data.files.status(at: self.absolute(stem + ".delivered")) != nil {
                delivered[folder, default: []].append(stem)
            }
        }
        let isThere = try self.data.files.status(at: self.absolute(path)) != nil
        guard isThere, let state = try StateImage.read(self.absolute(path), files: self.data.files) else {
            if !isThere, !delivered.isEmpty {
                self.report.add(
                    Problem(.missing, path, "parts were delivered, but the state of the delivery does not exist"))
            }
            return
        }
        for (folder, stems) in check.closed.sorted(by: { $0.key < $1.key }) {
            let day = folder.dropFirst(check.folder.utf8.count + 1)
            let fields = state.entries["day:\(day)"]?.split(separator: " ") ?? []
            // A day that was made again since then is delivered again.
            guard fields.count == 2, fields[0] == "live", let count = Int(fields[1]),
                (delivered[folder] ?? []).count < count
            else { continue }
            let own = delivered[folder] ?? []
            for stem in stems.sorted()
            where !own.contains(stem) && state.entries["part:\(day)/\(Path.name(of: stem))"] == nil {
                self.report.add(
                    Problem(
                        .missing, stem + ".delivered",
                        "\(count) parts of this day were delivered, but only \(own.count) are marked"))
            }
        }
    }

    private mutating func verifyStore(_ path: String) throws(FileSystemError) {
        guard !self.isInUse,
            let bytes = try self.data.files.contents(of: self.absolute(path), byteCountMax: 1 << 30),
            let problem = StateImage.problem(in: bytes, at: path)
        else { return }
        // A failed write or a crash tears the end of a log, and the next commit then replaces the log.
        if path.hasSuffix(Self.previousSuffix), let valid = problem.offset, valid > 0,
            try self.isWhole(String(path.dropLast(Self.previousSuffix.utf8.count)))
        {
            return self.report.note(
                "\(path) has no whole commit from byte \(valid) on: a failed write or a crash left it so, or it is "
                    + "damaged; it is not needed, since the state that replaced it is whole")
        }
        self.report.add(problem)
    }

    private static var previousSuffix: String { ".previous" }

    private func isWhole(_ path: String) throws(FileSystemError) -> Bool {
        guard let bytes = try self.data.files.contents(of: self.absolute(path), byteCountMax: 1 << 30) else {
            return false
        }
        return StateImage(bytes: bytes)?.validByteCount == bytes.count
    }
}
