internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// A receiver's chains in a bucket, and which of them is whose continuation.
///
///     a~1…   0 ─────── 100 ─────── 200 ──── 300        the disk is lost, or put back from a copy
///     a~2…              └── 100 ─────── 180 ─ 260      began where a~1… had a piece's border
///     lineage of a~2…: a~1… from 0, a~2… from 100      a~1… from 100 on is a tail of its own
///
/// Memory: the position of each piece, 8 bytes.
struct ReceiverChains {
    struct Chain {
        let name: ChainName
        /// Where its pieces begin, as the bucket lists them, in order.
        var starts: [JournalPosition] = []
        /// Where its last piece ends; `nil` if that one is damaged.
        var end: JournalPosition?
        /// The last time of receipt in it.
        var lastTime = WallTime.unknown
        /// When its last piece was created, by the store's clock.
        var modified = WallTime.unknown

        var first: JournalPosition { self.starts[0] }

        /// Whether a piece begins or the last one ends here.
        func hasBorder(at position: JournalPosition) -> Bool {
            self.end == position || self.next(from: position) == position
        }

        /// Where the first piece at or behind a position begins.
        func next(from position: JournalPosition) -> JournalPosition? {
            let index = self.index(from: position)
            return index < self.starts.count ? self.starts[index] : nil
        }

        /// Where the last piece before a position begins.
        func last(before position: JournalPosition) -> JournalPosition? {
            let index = self.index(from: position)
            return index > 0 ? self.starts[index - 1] : nil
        }

        private func index(from position: JournalPosition) -> Int {
            self.starts.partitionIndex { $0 < position }
        }
    }

    private(set) var chains: [Chain] = []

    /// - Throws: `noJournal` if there is none.
    init(of receiver: String, in store: any ObjectStore, files: some FileSystem) throws(RestoreFailure) {
        for name in try RestoreFailure.inStore(ChainName.all(in: store, of: receiver)) where name.receiver == receiver {
            var chain = Chain(name: name)
            try chain.readPieces(store)
            guard !chain.starts.isEmpty else { continue }
            try chain.readEnd(store, files)
            self.chains.append(chain)
        }
        guard self.chains.isEmpty else { return }
        let others = Set(try RestoreFailure.inStore(ChainName.all(in: store)).map(\.receiver))
        let archive = try RestoreFailure.inStore(store.list("archive/", after: nil, isFolded: true))
        throw .noJournal(
            receiver: receiver, others: others.sorted(),
            hasArchive: !archive.folders.isEmpty || !archive.objects.isEmpty)
    }

    subscript(name: ChainName) -> Chain? { self.chains.first { $0.name == name } }

    /// The lineage of the newest chain, or of the named ones.
    func lineage(
        _ chosen: [ChainName], _ store: any ObjectStore, files: some FileSystem
    ) throws(RestoreFailure) -> [ChainLink] {
        for name in chosen where self[name] == nil { throw .unknownChain(name, known: self.chains.map(\.name)) }
        if chosen.count > 1 { return try self.checked(chosen) }
        guard let newest = chosen.first.flatMap({ self[$0] }) ?? self.newest else { return [] }
        var links = [ChainLink(newest.name, from: newest.first)]
        while let link = links.first, link.start > JournalPosition(0) {
            let known = Set(links.map(\.chain))
            let candidates = self.chains.filter {
                !known.contains($0.name) && $0.first < link.start && $0.hasBorder(at: link.start)
            }
            guard let parent = try self.parent(of: link, among: candidates, store, files) else { break }
            links.insert(ChainLink(parent.name, from: parent.first), at: 0)
        }
        return links
    }

    /// The one in which something was received last.
    private var newest: Chain? {
        self.chains.max { left, right in
            let last = (left.starts.last?.rawValue ?? 0, right.starts.last?.rawValue ?? 0)
            return (left.lastTime.milliseconds, left.modified.milliseconds, last.0, left.name.id)
                < (right.lastTime.milliseconds, right.modified.milliseconds, last.1, right.name.id)
        }
    }

    private func checked(_ chosen: [ChainName]) throws(RestoreFailure) -> [ChainLink] {
        var links: [ChainLink] = []
        for name in chosen {
            guard let chain = self[name] else { continue }
            let link = ChainLink(name, from: chain.first)
            if let former = links.last {
                guard let parent = self[former.chain], former.start < link.start, parent.hasBorder(at: link.start)
                else { throw .notContinuous(link, after: former.chain) }
            }
            links.append(link)
        }
        return links
    }

    /// Which of several chains another one continues: the one with the starts of the receiver that its own heads name, or
    /// any of them if they end there with the same bytes.
    private func parent(
        of link: ChainLink, among candidates: [Chain], _ store: any ObjectStore, _ files: some FileSystem
    ) throws(RestoreFailure) -> Chain? {
        guard candidates.count > 1 else { return candidates.first }
        let starts = try self.firstStarts(of: link.chain, store, files)
        var (confirmed, unknown): ([Chain], [Chain]) = ([], [])
        for candidate in candidates {
            switch try self.has(starts, candidate, before: link.start, store, files) {
            case true?: confirmed.append(candidate)
            case false?: continue
            case nil: unknown.append(candidate)
            }
        }
        let left = confirmed.isEmpty ? unknown : confirmed
        guard left.count > 1 else { return left.first }
        var endings: [[UInt8]] = []
        for candidate in left {
            guard let ending = try self.ending(of: candidate, at: link.start, store, files) else {
                throw .ambiguous(link, left.map(\.name))
            }
            endings.append(ending)
        }
        let shared = endings.map(\.count).min() ?? 0
        guard Set(endings.map { Array($0.suffix(shared)) }).count == 1 else {
            throw .ambiguous(link, left.map(\.name))
        }
        // The one that goes back furthest.
        return left.min { ($0.first, $0.name) < ($1.first, $1.name) }
    }

    /// What the first head in a chain says of the receiver's starts.
    private func firstStarts(
        of name: ChainName, _ store: any ObjectStore, _ files: some FileSystem
    ) throws(RestoreFailure) -> [ReceiverStart] {
        for start in self[name]?.starts ?? [] {
            guard let content = try self.content(of: name, at: start, store, files)?.content else { continue }
            if !content.starts.isEmpty { return content.starts }
        }
        return []
    }

    /// Whether a chain has the last of these starts before a position; `nil` if that start is not of its time.
    private func has(
        _ starts: [ReceiverStart], _ chain: Chain, before end: JournalPosition, _ store: any ObjectStore,
        _ files: some FileSystem
    ) throws(RestoreFailure) -> Bool? {
        guard let start = starts.last(where: { $0.position < UInt64(end.rawValue) }) else { return nil }
        let position = JournalPosition(Int(start.position))
        guard position >= chain.first else { return nil }
        // A start begins a segment, and so a piece.
        guard chain.next(from: position) == position else { return false }
        return try self.content(of: chain.name, at: position, store, files).map { $0.content.starts.last == start }
    }

    private func content(
        of name: ChainName, at start: JournalPosition, endingAt end: JournalPosition? = nil, _ store: any ObjectStore,
        _ files: some FileSystem
    ) throws(RestoreFailure) -> (object: [UInt8], content: PieceContent)? {
        let key = name.key(of: start)
        let object = try RestoreFailure.inStore(store.read(key, nil))
        guard let object,
            let content = try RestoreFailure.onDisk(
                PieceContent(object, startingAt: start, endingAt: end, files: files))
        else { return nil }
        return (object, content)
    }

    /// At most the last 64 KiB of the piece that ends at a position.
    private func ending(
        of chain: Chain, at position: JournalPosition, _ store: any ObjectStore, _ files: some FileSystem
    ) throws(RestoreFailure) -> [UInt8]? {
        guard let start = chain.last(before: position),
            let (object, content) = try self.content(of: chain.name, at: start, endingAt: position, store, files),
            content.base.rawValue + object.count == position.rawValue
        else { return nil }
        return Array(object.dropFirst(content.headByteCount).suffix(64 << 10))
    }

}

extension ReceiverChains.Chain {
    fileprivate mutating func readPieces(_ store: any ObjectStore) throws(RestoreFailure) {
        var pages = ListingPages(store, self.name.prefix, isFolded: false)
        while let page = try RestoreFailure.inStore(pages.next()) {
            for object in page.objects {
                guard let start = self.name.position(of: object.key) else { continue }
                self.starts.append(start)
                self.modified = max(self.modified, object.modified)
            }
        }
    }

    /// Reads the last piece, and those before it until one has a time.
    fileprivate mutating func readEnd(_ store: any ObjectStore, _ files: some FileSystem) throws(RestoreFailure) {
        for (index, start) in self.starts.enumerated().reversed() {
            let key = self.name.key(of: start)
            let object = try RestoreFailure.inStore(store.read(key, nil))
            let next = index + 1 < self.starts.count ? self.starts[index + 1] : nil
            guard let object,
                let content = try RestoreFailure.onDisk(
                    PieceContent(object, startingAt: start, endingAt: next, files: files))
            else { continue }
            if next == nil { self.end = JournalPosition(content.base.rawValue + object.count) }
            guard let time = content.lastTime else { continue }
            self.lastTime = time
            return
        }
    }
}
