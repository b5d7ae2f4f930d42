internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillSystem

/// What replaying and sealing check in a data directory before they start.
extension DataDirectory {
    func requireArchive() throws(Replay.Failure) {
        let archive = try Replay.onDisk { () throws(FileSystemError) in try self.files.status(at: self.archive) }
        guard archive != nil else { throw .noArchive(self.root) }
    }

    /// Takes the lock that a running receiver holds.
    func lockForReplay() throws(Replay.Failure) -> FileID {
        let lock: FileID
        do throws(DataDirectoryError) {
            lock = try self.lock(processID: ProcessID.current)
        } catch {
            throw .data(error)
        }
        do throws(FileSystemError) {
            try ErasureLog.finishExchange(in: self)
            return lock
        } catch {
            self.files.close(lock)
            throw .disk(error)
        }
    }

    /// The people whose lines are not replayed.
    func erasedForReplay() throws(Replay.Failure) -> ErasedPeople? {
        try Replay.onDisk { () throws(FileSystemError) in try ErasedPeople.read(in: self) }
    }

    /// The entries of a projection's checkpoint; empty if it has none.
    func recordedEntries(of projection: String) throws(Replay.Failure) -> [String: String] {
        try Replay.onDisk { () throws(FileSystemError) in
            try StateImage.read(self.statePath(projection), files: self.files)?.entries ?? [:]
        }
    }

    /// Requires that an export was written with these options, apart from the zone, or was never written.
    func requireRecorded(_ options: ExportOptions) throws(Replay.Failure) {
        let projection = "export-\(options.provider.rawValue)"
        var recorded = options
        recorded.zone = try self.recordedZone(of: projection)
        let fingerprint = try self.recordedEntries(of: projection)["options"]
        if let fingerprint, fingerprint != recorded.fingerprint { throw .otherOptions(options.provider.rawValue) }
    }

    /// The zone that a projection last ran with; UTC when it never did.
    func recordedZone(of projection: String) throws(Replay.Failure) -> TimeZoneRules {
        guard let name = try self.recordedEntries(of: projection)["zone"] else { return .utc }
        do throws(TimeZoneError) {
            return try TimeZoneRules(named: name, from: self.files)
        } catch {
            throw .zone(error)
        }
    }
}

extension ProjectionRun {
    /// Advances a projection from its last checkpoint to the journal's position `end`.
    ///
    /// - Returns: its new position, which is not yet checkpointed.
    mutating func catchUp(
        _ projection: inout some Projection & ~Copyable, to end: JournalPosition
    ) throws(FileSystemError) -> JournalPosition {
        var position = try projection.recover().position
        while position < end { position = try self.advance(&projection, from: position, upTo: end) }
        return position
    }
}
