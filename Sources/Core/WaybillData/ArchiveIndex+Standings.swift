internal import WaybillProtocol
package import WaybillSystem

/// The part of a stream's tail that one file holds.
private struct TailPiece {
    /// `nil` for line feeds of empty lines, which are counted and not stored.
    let path: String?
    /// Where it begins in its stream.
    let offset: StreamOffset
    var range: Range<Int>

    var end: StreamOffset { self.offset.advanced(by: self.range.count) }
}

/// What a checkpoint that is rebuilt from the files will have.
private struct RebuiltExtent {
    /// The lengths of the files, without what a power cut has torn.
    var lengths: [String: Int]
    /// Where the first run of a stream begins that is torn, or behind a torn one in its file.
    var losses: [StreamName: StreamOffset] = [:]
}

/// How far the archive has a stream.
private struct StreamExtent {
    let description: StreamDescription
    let end: StreamOffset
}

extension ArchiveIndex {
    /// The extent of each stream in the archive and the quarantine, up to the last checkpoint, with its last bytes.
    ///
    /// Without a checkpoint, or with one that the journal does not reach back to, each file counts up to the first run
    /// that a power cut has torn: the checkpoint is rebuilt so. A stream that has lost a run ends before it, even if
    /// another file has a later one: it is stored twice rather than never. Otherwise what follows the checkpoint is cut
    /// off, also when the checkpoint has no file yet; a day that was sealed after it counts as the checkpoint has it,
    /// because other files lose the lines that came with it. Bytes that were skipped end the known part of a tail.
    /// - Parameter start: where the journal begins.
    package func standings(ofJournalFrom start: JournalPosition) throws(FileSystemError) -> [StreamStanding] {
        let found =
            try self.isRebuilt(fromJournalAt: start)
            ? self.rebuiltExtent() : RebuiltExtent(lengths: self.lengthsAtCheckpoint())
        var extents: [StreamName: StreamExtent] = [:]
        try self.visitRuns(found.lengths) { _, run in
            if let loss = found.losses[run.description.name], run.offset >= loss { return }
            if let known = extents[run.description.name], known.end >= run.end { return }
            extents[run.description.name] = StreamExtent(description: run.description, end: run.end)
        }
        var pieces: [StreamName: [TailPiece]] = [:]
        try self.visitRuns(found.lengths) { path, run in
            let isEmpty = run.emptyLineCount > 0
            guard !isEmpty || run.range.isEmpty else { return }
            let piece = TailPiece(
                path: isEmpty ? nil : path, offset: run.offset, range: isEmpty ? 0..<run.emptyLineCount : run.range)
            // An empty run would join itself without end.
            guard !piece.range.isEmpty, let end = extents[run.description.name]?.end, piece.end <= end,
                end.rawValue - piece.end.rawValue < UInt64(StreamProof.byteCountMax)
            else { return }
            pieces[run.description.name, default: []].append(piece)
        }
        let chains = extents.mapValues { Self.chain(of: pieces[$0.description.name] ?? [], upTo: $0.end) }
        let contents = try self.contents(of: chains)
        return extents.map { name, extent in
            let tail = StreamTail(end: extent.end, bytes: contents[name] ?? [])
            return StreamStanding(
                description: extent.description, tail: tail ?? StreamTail(unknownBelow: extent.end))
        }
    }

    /// Makes durable what ``standings(ofJournalFrom:)`` counts and no checkpoint speaks of, before an agent relies on it.
    package func secureUncommitted(ofJournalFrom start: JournalPosition) throws(FileSystemError) {
        guard self.isRebuilt(fromJournalAt: start) else { return }
        let found = try self.lengthsOnDisk()
        try self.data.rewrite(
            found.filter { path, byteCount in
                (path.hasSuffix(".ndjson") || path.hasSuffix(".sources")) && byteCount > self.lengths[path] ?? -1
            }
            .keys.sorted())
    }

    private func isRebuilt(fromJournalAt start: JournalPosition) -> Bool {
        self.position.map { $0 < start } ?? true
    }

    /// The files as they are, up to the first run in each that a power cut has torn.
    ///
    /// The checkpoint vouches for what it has; what follows it may never have been synced.
    private func rebuiltExtent() throws(FileSystemError) -> RebuiltExtent {
        let found = try self.lengthsOnDisk()
        var extent = RebuiltExtent(lengths: found)
        for (path, byteCount) in found.sorted(by: { $0.key < $1.key })
        where path.hasSuffix(".ndjson") && byteCount > self.lengths[path] ?? 0 {
            let sources = String(path.dropLast(7) + ".sources")
            let absolute = Path.join(self.data.root, sources)
            guard let sourcesByteCount = found[sources],
                try self.data.files.status(at: absolute)?.kind == .regular
            else { continue }
            var reader = try SourceRuns(
                path: absolute, byteCount: sourcesByteCount, linesByteCount: byteCount, files: self.data.files)
            var (linesEnd, sourcesEnd, isTorn) = (0, 0, false)
            while let item = try reader.next() {
                guard case .run(let run, let end) = item else { continue }
                if !isTorn { isTorn = try !self.isWhole(run, in: path) }
                if isTorn {
                    let name = run.description.name
                    extent.losses[name] = min(extent.losses[name] ?? run.offset, run.offset)
                } else {
                    (linesEnd, sourcesEnd) = (run.range.upperBound, end)
                }
            }
            if isTorn { (extent.lengths[path], extent.lengths[sources]) = (linesEnd, sourcesEnd) }
        }
        return extent
    }

    /// Whether a run has its lines, as far as the checkpoint does not vouch for them.
    private func isWhole(_ run: SourceRun, in path: String) throws(FileSystemError) -> Bool {
        guard run.range.upperBound > self.lengths[path] ?? 0, !run.range.isEmpty else { return true }
        return try self.data.files.hasLines(
            at: Path.join(self.data.root, path), in: run.range, mayHaveNULs: path.hasPrefix("quarantine"))
    }

    private func visitRuns(
        _ lengths: [String: Int], _ body: (_ path: String, SourceRun) -> Void
    ) throws(FileSystemError) {
        for (path, byteCount) in lengths.sorted(by: { $0.key < $1.key }) where path.hasSuffix(".ndjson") {
            let sources = String(path.dropLast(7) + ".sources")
            guard let sourcesByteCount = lengths[sources] else { continue }
            try SourceRuns.visit(
                Path.join(self.data.root, sources), byteCount: sourcesByteCount, linesByteCount: byteCount,
                files: self.data.files
            ) { body(path, $0) }
        }
    }

    /// The pieces that join up to the stream's end, first to last, cut to the length of a tail.
    private static func chain(of pieces: [TailPiece], upTo end: StreamOffset) -> [TailPiece] {
        var chain: [TailPiece] = []
        var position = end
        var missing = StreamProof.byteCount(at: end)
        while missing > 0, var piece = pieces.first(where: { $0.end == position }) {
            position = piece.offset
            piece.range = max(piece.range.lowerBound, piece.range.upperBound - missing)..<piece.range.upperBound
            missing -= piece.range.count
            chain.append(piece)
        }
        return chain.reversed()
    }

    /// Reads each file once, from its start on.
    private func contents(of chains: [StreamName: [TailPiece]]) throws(FileSystemError) -> [StreamName: [UInt8]] {
        var reads: [String: [(name: StreamName, index: Int, range: Range<Int>)]] = [:]
        var parts: [StreamName: [Int: [UInt8]]] = [:]
        for (name, chain) in chains {
            for (index, piece) in chain.enumerated() {
                if let path = piece.path {
                    reads[path, default: []].append((name, index, piece.range))
                } else {
                    parts[name, default: [:]][index] = [UInt8](repeating: 0x0A, count: piece.range.count)
                }
            }
        }
        for (path, wanted) in reads.sorted(by: { $0.key < $1.key }) {
            let ranges = wanted.sorted { $0.range.lowerBound < $1.range.lowerBound }
            let found = try self.bytes(of: path, in: ranges.map(\.range))
            for (read, bytes) in zip(ranges, found) { parts[read.name, default: [:]][read.index] = bytes }
        }
        var contents: [StreamName: [UInt8]] = [:]
        for (name, chain) in chains {
            // What precedes a piece that cannot be read is of no use.
            for index in chain.indices.reversed() {
                guard let bytes = parts[name]?[index] else { break }
                contents[name, default: []].insert(contentsOf: bytes, at: 0)
            }
        }
        return contents
    }

    /// The bytes of a file in ranges that do not overlap, in order; none from the first one on that cannot be read.
    private func bytes(of path: String, in ranges: [Range<Int>]) throws(FileSystemError) -> [[UInt8]] {
        var found: [[UInt8]] = []
        do throws(PartReadError) {
            var part = try self.open(path)
            for range in ranges {
                try part.skip(to: range.lowerBound)
                var bytes = [UInt8](repeating: 0, count: range.count)
                let count = try bytes.withMutableBytes { (buffer) throws(PartReadError) in
                    try part.read(into: buffer)
                }
                guard count == range.count else { break }
                found.append(bytes)
            }
        } catch {
            // Without these bytes the tail is shorter, and the agent finds that it disagrees.
            if case .disk(let cause) = error, cause.errno != Errno.noEntry { throw cause }
        }
        return found
    }

    private func open(_ path: String) throws(PartReadError) -> PartBytes<Files> {
        try PartReadError.onDisk(
            PartBytes(path: Path.join(self.data.root, path), isSealed: false, files: self.data.files))
    }

    private func lengthsAtCheckpoint() -> [String: Int] {
        var lengths = self.lengths
        for part in self.parts {
            guard let sealed = part.sealed, let position = self.position, sealed.position > position else { continue }
            for path in [part.path, part.sourcesPath] { lengths[path] = self.checkpointedLengths[path] }
        }
        return lengths
    }

    private func lengthsOnDisk() throws(FileSystemError) -> [String: Int] {
        var lengths = self.lengths
        for folder in ["archive", "quarantine"] { try self.collect(folder, into: &lengths) }
        return lengths
    }

    private func collect(_ path: String, into lengths: inout [String: Int]) throws(FileSystemError) {
        guard let status = try self.data.files.status(at: Path.join(self.data.root, path)) else { return }
        guard status.kind == .directory else {
            lengths[path] = status.byteCount
            return
        }
        for name in try self.data.files.list(Path.join(self.data.root, path)) {
            try self.collect(Path.join(path, name), into: &lengths)
        }
    }
}
