internal import WaybillData
internal import WaybillExport
internal import WaybillFleet
internal import WaybillSystem

/// Passes the journal between a receiver's own archive and the mergers of a fleet, so that each line is in one of them.
///
///     alone                          in a fleet, projections: none                alone again
///     ─────────── archive ──────────▶│──────── pieces in the bucket ────────────▶│─────── archive ───────▶
///                                    └ the chain begins where the archive ends   └ the archive continues where the bucket ends
///
/// With `projections: all` both have everything, always. What a receiver was last is in the uploader's state, as
/// `projections`.
struct FleetTurn {
    let data: DataDirectory<POSIXFileSystem>
    let configuration: ReceiverConfiguration
    /// The bucket's fleet; `nil` for a receiver that is alone.
    let fleet: String?
    /// The position up to which the journal is durable.
    let end: JournalPosition

    private static let key = "projections"
    /// Where the mergers' part of the journal begins, while it continues.
    private static let sinceKey = "since"
    /// What a receiver was last that left its fleet.
    private static let aloneRole = "alone"

    /// Takes the turn, if it is one.
    ///
    /// - Returns: why it cannot be taken now; `nil` if nothing is in the way.
    func take() throws(FileSystemError) -> String? {
        let path = UploadState.path(in: self.data.root)
        let former = try StateImage.read(path, files: self.data.files)?.entries ?? [:]
        let role = self.fleet == nil ? nil : self.configuration.projections.rawValue
        if role != ReceiverProjections.none.rawValue {
            try self.leave(former, path)
            guard let role, former[Self.key] != role else { return nil }
            try self.commit([Self.key: role], to: path)
            return nil
        }
        guard let fleet else { return nil }
        var changes: [String: String?] = [Self.key: role]
        let stored = former["fleet"] == fleet ? Self.position(former) : nil
        let archived = try self.position(of: "archive") ?? JournalPosition(0)
        if former[Self.key] != role { changes[Self.sinceKey] = String(archived.rawValue) }
        let isOwn = former[Self.key] != ReceiverProjections.all.rawValue || stored == nil
        if isOwn, archived > stored ?? JournalPosition(0), archived <= self.end {
            // Pieces begin between two groups: after a clean stop a segment begins where the archive ends.
            let isBetween = try self.hasSegment(at: archived)
            guard archived == self.end || isBetween else { return Self.unread(archived) }
            var generator = SeededGenerator(seed: SystemRandom.seed())
            changes["fleet"] = fleet
            changes["chain"] = ChainName(receiver: self.configuration.name, &generator).description
            changes["position"] = String(archived.rawValue)
        } else if former[Self.key] == role {
            return nil
        }
        try self.commit(changes, to: path)
        return nil
    }

    /// Lets archive and exports continue where the bucket ends, if mergers have what is before; that range is recorded.
    private func leave(_ former: [String: String], _ path: String) throws(FileSystemError) {
        guard former[Self.key] == ReceiverProjections.none.rawValue, let stored = Self.position(former),
            stored <= self.end
        else { return }
        for name in ["archive"] + self.configuration.exports.map({ "export-\($0.provider.rawValue)" }) {
            if let position = try self.position(of: name), position >= stored { continue }
            try self.commit(["position": String(stored.rawValue)], to: self.data.statePath(name))
        }
        let since = former[Self.sinceKey].flatMap { Int($0) } ?? 0
        try self.commit(
            [
                Self.key: Self.aloneRole, Self.sinceKey: nil,
                UploadState.handedKey(from: JournalPosition(since)): String(stored.rawValue),
            ], to: path)
    }

    private static func position(_ entries: [String: String]) -> JournalPosition? {
        entries["position"].flatMap { Int($0) }.map(JournalPosition.init)
    }

    /// Up to where a projection has read the journal; `nil` if it never did.
    private func position(of name: String) throws(FileSystemError) -> JournalPosition? {
        let image = try StateImage.read(self.data.statePath(name), files: self.data.files)
        return image.flatMap { Self.position($0.entries) }
    }

    private func hasSegment(at position: JournalPosition) throws(FileSystemError) -> Bool {
        try self.data.files.list(self.data.journal).contains { JournalPath.position(ofSegment: $0) == position }
    }

    private func commit(_ changes: [String: String?], to path: String) throws(FileSystemError) {
        var state = try StateStore(path: path, files: self.data.files)
        try state.settle()
        try state.commit(changes)
    }

    private static func unread(_ position: JournalPosition) -> String {
        "the archive of this receiver has read its journal up to position \(position.rawValue) only, which is in the middle "
            + "of what was received: start the receiver once more without the section store, and stop it with SIGTERM, so "
            + "that the archive reads all of it; then start it with projections: none"
    }
}

extension Receiver {
    func takeTurn(in data: DataDirectory<POSIXFileSystem>, journalEnd end: JournalPosition) throws(Failure) {
        let turn = FleetTurn(data: data, configuration: self.configuration, fleet: self.store?.fleet, end: end)
        let problem: String?
        do throws(FileSystemError) {
            problem = try turn.take()
        } catch {
            throw .host(.disk(error))
        }
        if let problem { throw .turn(problem) }
    }
}
