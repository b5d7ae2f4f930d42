package import WaybillData
internal import WaybillProtocol
package import WaybillSystem

/// Builds a receiver's data directory again from the pieces of its journal in the bucket.
///
///     bucket ──▶ lineage of chains ──▶ next piece by its key ──▶ every frame checked ──▶ journal/<position>.journal
///                                                                                          │ all pieces
///     restore.state, removed last  ◀── state/restored.state, store.state ◀── a new incarnation ◀┘
///
/// The journal's segments get the bytes that they had: a piece's own head is dropped. Where pieces are missing, the rest of
/// a segment is written behind a head that opens the streams of all its pieces, as a segment that begins where this head
/// does; so what is whole behind a gap can be read. Archive and exports are not written here: a receiver that starts makes them again from
/// the journal.
///
/// Order of durable steps: `restore.state` in an empty directory; for each segment a commit that says where it begins, then
/// the segment, synced before the next one's commit; the new start in a segment of its own; the uploader's place, which is
/// the end of what the bucket has; what exports may have sent; `restore.state` is removed. A restore that died writes the
/// segment again in which it was.
///
/// Memory: one piece, twice while it is checked (8 MiB and one group each), another one behind a gap, and 8 bytes for the
/// position of each piece.
///
/// - SeeAlso: `Protocol/formats/fleet.md`, "Restoring a receiver".
package struct Restorer<Files: FileSystem>: ~Copyable {
    package struct Setup: Sendable {
        package var receiver: String
        /// The bucket's fleet.
        package var fleet: String
        package var dataDirectory: String
        /// The chain to restore, or a whole lineage, oldest first; empty for the newest chain.
        package var chains: [ChainName] = []
        package var processID = 0

        package init(receiver: String, fleet: String, dataDirectory: String) {
            (self.receiver, self.fleet, self.dataDirectory) = (receiver, fleet, dataDirectory)
        }
    }

    let setup: Setup
    let store: any ObjectStore
    let files: Files
    let data: DataDirectory<Files>
    let seed: StartSeed
    /// Told after each piece where it ends, and where the last one does.
    let progress: @Sendable (JournalPosition, JournalPosition) -> Void

    var report = RestoreReport()
    /// The segment that is being written.
    private var open: (file: FileID, base: JournalPosition)?
    /// Where the journal that is written so far ends.
    private var written: JournalPosition?
    private var lock: FileID?
    /// What was found in the heads of pieces up to the end of a segment whose beginning is missing.
    private var ahead: (end: JournalPosition, streams: [StreamNumber: StreamDescription])?

    package init(
        _ setup: Setup, store: any ObjectStore, files: Files, seed: StartSeed = .random(),
        progress: @escaping @Sendable (JournalPosition, JournalPosition) -> Void = { _, _ in }
    ) {
        self.setup = setup
        self.store = store
        self.files = files
        self.data = DataDirectory(root: setup.dataDirectory, files: files)
        self.seed = seed
        self.progress = progress
        self.report.receiver = setup.receiver
    }

    deinit {
        if let open { self.files.close(open.file) }
        if let lock { self.files.close(lock) }
    }

    /// Restores the directory, or continues a restore that died in it.
    package mutating func run() throws(RestoreFailure) -> RestoreReport {
        try RestoreFailure.onDisk(self.files.createDirectories(self.setup.dataDirectory))
        let isResumed = try self.requireEmpty()
        let chains = try ReceiverChains(of: self.setup.receiver, in: self.store, files: self.files)
        var state = try self.openState(isResumed, chains)
        try self.takeLock()
        var place = try self.resume(state)
        let end = chains[self.report.links[self.report.links.count - 1].chain]?.end ?? JournalPosition(0)
        try self.requireSpace(from: place.position, to: end)
        while place.link < self.report.links.count {
            try self.fetch(&place, chains, &state, end)
            place.link += 1
            if place.link < self.report.links.count { place.position = self.report.links[place.link].start }
        }
        try self.closeSegment()
        self.report.end = self.written ?? place.position
        try self.findTails(chains)
        try self.finish(&state)
        return self.report
    }

    // MARK: The directory

    /// - Returns: whether a restore was begun here before.
    private func requireEmpty() throws(RestoreFailure) -> Bool {
        let root = self.setup.dataDirectory
        let names = try RestoreFailure.onDisk(self.files.list(root))
        if names.contains(where: { RestoreMark.names.contains($0) }) { return true }
        // A new file system has this folder.
        if let name = names.first(where: { $0 != "lost+found" }) { throw .notEmpty(path: root, name: name) }
        return false
    }

    /// Opens `restore.state`; a new one gets the lineage.
    private mutating func openState(
        _ isResumed: Bool, _ chains: ReceiverChains
    ) throws(RestoreFailure) -> StateStore<Files> {
        let path = RestoreMark.path(in: self.setup.dataDirectory)
        var links: [ChainLink] = []
        // Before anything is created: a lineage that is not clear leaves the directory empty.
        if !isResumed { links = try chains.lineage(self.setup.chains, self.store, files: self.files) }
        var state = try RestoreFailure.onDisk(StateStore(path: path, files: self.files))
        try RestoreFailure.onDisk(state.settle())
        if let known = state.entries["chains"] {
            try self.requireSame(state.entries, path)
            links = known.split(separator: " ").compactMap { ChainLink(text: $0) }
            self.report.isResumed = true
        } else {
            if isResumed { links = try chains.lineage(self.setup.chains, self.store, files: self.files) }
            try RestoreFailure.onDisk(
                state.commit([
                    "receiver": self.setup.receiver, "fleet": self.setup.fleet,
                    "chains": links.map(\.text).joined(separator: " "),
                ]))
        }
        guard !links.isEmpty else { throw .otherRestore(path: path, of: "an unknown receiver") }
        self.report.links = links
        return state
    }

    private func requireSame(_ entries: [String: String], _ path: String) throws(RestoreFailure) {
        let links = (entries["chains"] ?? "").split(separator: " ").compactMap { ChainLink(text: $0)?.chain }
        let isSameChain = self.setup.chains.isEmpty || self.setup.chains.last == links.last
        guard entries["receiver"] == self.setup.receiver, entries["fleet"] == self.setup.fleet, isSameChain else {
            throw .otherRestore(
                path: path,
                of: "\(entries["receiver"] ?? "another receiver"), chain \(links.last.map(\.description) ?? "-")")
        }
    }

    private mutating func takeLock() throws(RestoreFailure) {
        try RestoreFailure.onDisk(data.create())
        do throws(DataDirectoryError) {
            self.lock = try self.data.lockForRestore(processID: self.setup.processID)
        } catch {
            throw .locked(error.description)
        }
    }

    // MARK: Pieces

    /// Which piece comes next.
    struct Place {
        var link: Int
        var position: JournalPosition
    }

    /// Removes what the segment in progress has, and everything that no segment is.
    private mutating func resume(_ state: borrowing StateStore<Files>) throws(RestoreFailure) -> Place {
        let entries = state.entries
        let segment = entries["segment"].flatMap { Int($0) }.map(JournalPosition.init)
        let place = Place(
            link: entries["link"].flatMap { Int($0) } ?? 0,
            position: entries["next"].flatMap { Int($0) }.map(JournalPosition.init) ?? self.report.links[0].start)
        self.report.pieceCount = entries["pieces"].flatMap { Int($0) } ?? 0
        self.report.lineCount = entries["lines"].flatMap { Int($0) } ?? 0
        self.report.start = entries["start"].flatMap { Int($0) }.map(JournalPosition.init) ?? place.position
        self.report.firstTime = entries["first"].flatMap { Int64($0) }.map { WallTime(milliseconds: $0) }
        self.report.lastTime = entries["last"].flatMap { Int64($0) }.map { WallTime(milliseconds: $0) }
        self.report.troubles = entries.filter { $0.key.hasPrefix("trouble:") }.sorted { $0.key < $1.key }
            .compactMap { RestoreTrouble(text: $0.value) }
        let journal = self.data.journal
        try RestoreFailure.withDisk { [files] () throws(FileSystemError) in
            for name in try files.list(journal) {
                if let base = JournalPath.position(ofSegment: name), let segment, base < segment { continue }
                try files.unlink(Path.join(journal, name))
            }
            try files.synchronizeDirectory(journal)
        }
        // What precedes the segment is on the disk.
        if segment != nil { self.written = entries["written"].flatMap { Int($0) }.map(JournalPosition.init) }
        return place
    }

    private func requireSpace(from position: JournalPosition, to end: JournalPosition) throws(RestoreFailure) {
        let needed = max(0, end.rawValue - position.rawValue) + (16 << 20)
        let root = self.setup.dataDirectory
        let free = try RestoreFailure.onDisk(self.files.space(at: root).freeByteCount)
        guard free >= needed else { throw .noSpace(neededByteCount: needed, freeByteCount: free) }
    }

    /// Takes the pieces of a link's chain, up to the position from which the next link has them.
    private mutating func fetch(
        _ place: inout Place, _ chains: ReceiverChains, _ state: inout StateStore<Files>, _ end: JournalPosition
    ) throws(RestoreFailure) {
        let link = self.report.links[place.link]
        let until = place.link + 1 < self.report.links.count ? self.report.links[place.link + 1].start : nil
        while until.map({ place.position < $0 }) ?? true {
            let start = place.position
            let key = link.chain.key(of: start)
            let object = try RestoreFailure.inStore(self.store.read(key, nil))
            let listed = chains[link.chain]?.next(from: JournalPosition(start.rawValue + 1))
            let next = [listed, until].compactMap(\.self).min()
            guard let object else {
                guard let next else { return }
                self.note(RestoreTrouble(.missing, link.chain, start..<next))
                place.position = next
                continue
            }
            guard let end = try self.take(object, of: link.chain, at: place, next: next, &state) else {
                let end = next ?? JournalPosition(start.rawValue + object.count)
                self.note(RestoreTrouble(.unusable, link.chain, start..<end))
                // Without a piece behind it, the journal ends before it.
                guard let next else { return }
                place.position = next
                continue
            }
            place.position = end
            self.progress(end, chains[link.chain]?.end ?? end)
        }
    }

    /// Writes one piece.
    ///
    /// - Returns: where it ends; `nil` if nothing of it can be used.
    private mutating func take(
        _ object: [UInt8], of chain: ChainName, at place: Place, next: JournalPosition?,
        _ state: inout StateStore<Files>
    ) throws(RestoreFailure) -> JournalPosition? {
        let start = place.position
        let content = try RestoreFailure.onDisk(PieceContent(object, startingAt: start, endingAt: next, files: files))
        guard let content else { return nil }
        var end = JournalPosition(content.base.rawValue + object.count)
        var own = object[content.headByteCount...]
        if let next, next < end {
            // More bytes than the chain says: the next piece has its own.
            self.note(RestoreTrouble(.damaged, chain, next..<end))
            own = own.prefix(next.rawValue - start.rawValue)
            end = next
        }
        var head: [UInt8] = []
        if self.open == nil || content.beginsSegment || self.written != start {
            if !content.beginsSegment {
                guard let made = try self.head(of: content, at: place) else { return nil }
                head = made
            }
            try self.closeSegment()
            try self.openSegment(JournalPosition(start.rawValue - head.count), at: place, &state)
        }
        guard let open else { preconditionFailure("a segment is open here") }
        try RestoreFailure.withDisk { [files] () throws(FileSystemError) in
            try head.withBytes { (bytes) throws(FileSystemError) in
                try files.writeAll(open.file, UnsafeRawBufferPointer(bytes))
            }
            try object.withBytes { (bytes) throws(FileSystemError) in
                try files.writeAll(open.file, UnsafeRawBufferPointer(rebasing: bytes[own.indices]))
            }
        }
        self.written = end
        self.report.pieceCount += 1
        self.report.lineCount += content.lineCount
        self.report.firstTime = self.report.firstTime ?? content.firstTime
        self.report.lastTime = content.lastTime ?? self.report.lastTime
        for damage in content.damages where damage.lowerBound < end {
            self.note(RestoreTrouble(.damaged, chain, damage.lowerBound..<min(damage.upperBound, end)))
        }
        return end
    }

    /// The head of a segment whose own one is missing, up to a piece in its middle: it opens every stream that this piece
    /// and those behind it in the segment open in theirs.
    ///
    /// - Returns: `nil` if it is longer than the gap.
    private mutating func head(of content: PieceContent, at place: Place) throws(RestoreFailure) -> [UInt8]? {
        let room = place.position.rawValue - (self.written?.rawValue ?? 0)
        guard content.headByteCount <= room else { return nil }
        let streams = content.opened.merging(try self.streams(from: place)) { own, _ in own }
        let head = PieceCutter<Files>.head(streams, before: place.position, lastKnown: content.firstTime ?? .unknown)
        return head.count <= room ? head : nil
    }

    /// The streams that the pieces from one in the middle of a segment on open in their heads, up to the segment's end.
    private mutating func streams(
        from place: Place
    ) throws(RestoreFailure) -> [StreamNumber: StreamDescription] {
        if let ahead, place.position < ahead.end { return ahead.streams }
        var (link, position) = (place.link, place.position)
        var streams: [StreamNumber: StreamDescription] = [:]
        while link < self.report.links.count {
            if link + 1 < self.report.links.count, position >= self.report.links[link + 1].start {
                link += 1
                continue
            }
            let key = self.report.links[link].chain.key(of: position)
            let object = try RestoreFailure.inStore(self.store.read(key, nil))
            guard let object,
                let content = try RestoreFailure.onDisk(
                    PieceContent(object, startingAt: position, endingAt: nil, files: files)), !content.beginsSegment
            else { break }
            streams.merge(content.opened) { first, _ in first }
            position = JournalPosition(content.base.rawValue + object.count)
        }
        self.ahead = (position, streams)
        return streams
    }

    private mutating func note(_ trouble: RestoreTrouble) {
        self.report.troubles.append(trouble)
    }

    // MARK: Segments

    /// Begins a segment's file, after a commit that says with which piece it begins.
    private mutating func openSegment(
        _ base: JournalPosition, at place: Place, _ state: inout StateStore<Files>
    ) throws(RestoreFailure) {
        if self.written == nil { self.report.start = place.position }
        var changes: [String: String?] = [
            "segment": "\(base)", "next": "\(place.position)", "link": "\(place.link)", "start": "\(self.report.start)",
            "pieces": "\(self.report.pieceCount)", "lines": "\(self.report.lineCount)",
            "written": self.written.map { "\($0)" }, "first": self.report.firstTime.map { "\($0.milliseconds)" },
            "last": self.report.lastTime.map { "\($0.milliseconds)" },
        ]
        for (number, trouble) in self.report.troubles.enumerated() {
            let key = "trouble:" + ZeroPadded.text(number, digitCount: 9)
            if state.entries[key] != trouble.text { changes[key] = trouble.text }
        }
        try RestoreFailure.onDisk(state.commit(changes))
        let path = JournalPath.segment(base, in: self.data.journal)
        let journal = self.data.journal
        self.open = try RestoreFailure.withDisk { [files] () throws(FileSystemError) in
            let file = try files.open(path, .appendNew)
            do throws(FileSystemError) {
                try files.synchronizeDirectory(journal)
            } catch {
                files.close(file)
                throw error
            }
            return (file, base)
        }
    }

    private mutating func closeSegment() throws(RestoreFailure) {
        guard let open else { return }
        try RestoreFailure.onDisk(self.files.synchronize(open.file))
        self.files.close(open.file)
        self.open = nil
    }
}
