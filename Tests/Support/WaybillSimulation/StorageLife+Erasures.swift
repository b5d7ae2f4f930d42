internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillReplay
internal import WaybillSystem
internal import WaybillTestSupport

/// People who are erased in the middle of a life, by a command that may die like any process, and whose lines must not
/// come back: not with a lost checkpoint, not with an archive that is made again from the journal.
extension StorageLife {
    private static var personCount: Int { 3 }

    /// A member of a line that names a person, or no one.
    func user() -> String {
        let person = self.erasureDice.int(0...Self.personCount)
        return person == Self.personCount ? "" : Self.member(of: person) + ","
    }

    static func member(of person: Int) -> String { "\"user\":\"u-\(person)\"" }

    /// The files of an erasure, which has none of the bugs of a start.
    func filesOfEraser(dyingIn callCounts: ClosedRange<Int>?) -> FaultyFiles {
        self.disk.files(
            bugs: self.bugs.subtracting([.forgetErasures]), dyingIn: callCounts.map { self.erasureDice.int($0) })
    }

    /// What each start does first.
    func finishErasures(in data: DataDirectory<FaultyFiles>) throws(FileSystemError) {
        guard self.hasErasures, !self.bugs.contains(.leaveErasures) else { return }
        try data.create()
        try ErasureLog.finishExchange(in: data)
    }

    /// Sometimes erases a person, and sometimes takes away what says how far the archive is.
    mutating func eraseSomebody(_ files: FaultyFiles) {
        if self.erasureDice.chance(700) {
            let person = self.erasureDice.int(0..<Self.personCount)
            switch self.erase(person, files) {
            case .done, .failed: self.erasedPeople.insert(person)
            case .refused: break
            }
        }
        guard !files.isStopped, !self.erasedPeople.isEmpty, self.erasureDice.chance(400) else { return }
        do throws(FileSystemError) {
            try self.loseCheckpoint(andFiles: self.erasureDice.chance(500))
        } catch {
            self.violation = self.violation ?? "files cannot be removed: \(error)"
        }
    }

    private enum Outcome {
        case done, refused
        /// The record may be durable.
        case failed
    }

    private func erase(_ person: Int, _ files: FaultyFiles) -> Outcome {
        let dice = self.erasureDice
        var eraser = Eraser(dataDirectory: "/data", .user, "u-\(person)", isDryRun: false, files: files)
        // It is written to the disk, and a seed lives the same life in each process.
        eraser.processID = 1
        do throws(Eraser<FaultyFiles>.Failure) {
            _ = try eraser.run(now: self.clock.wallTime()) { () throws(FileSystemError) in
                (0..<32).map { _ in UInt8(truncatingIfNeeded: dice.next()) }
            }
            self.trace?.note("u-\(person) is erased")
            return .done
        } catch {
            self.trace?.note("the erasure of u-\(person) ends: \(error)")
            switch error {
            case .disk, .data: return .failed
            case .noArchive, .underWay, .delivering, .deliveryRuns, .otherKey, .merger: return .refused
            }
        }
    }

    /// The same command, on a disk without faults and an archive at rest.
    mutating func completeErasure(of person: Int) {
        let files = self.filesOfEraser(dyingIn: nil)
        if case .done = self.erase(person, files) { return }
        self.violation = self.violation ?? "the erasure of u-\(person) cannot be completed"
    }

    /// Takes away the archive's checkpoint; with its files, all of it comes from the journal again.
    private func loseCheckpoint(andFiles losesFiles: Bool) throws(FileSystemError) {
        // An operator's work, on a disk that is well.
        let files = FaultyFiles(self.disk.memory)
        var paths = self.disk.memory.files(below: "/data/state").map(\.path).filter { $0.contains("/archive.state") }
        if losesFiles {
            paths += self.disk.memory.files(below: "/data/archive/env=prod").map(\.path)
            paths += self.disk.memory.files(below: "/data/quarantine").map(\.path)
        }
        for path in paths {
            try files.unlink(path)
            try files.synchronizeDirectory(Path.parent(of: path))
        }
        self.trace?.note("someone removes the archive's checkpoint\(losesFiles ? " and its files" : "")")
    }
}
