package import WaybillJournal
internal import WaybillProtocol
package import WaybillSystem

/// The part of a stream's tail that one file holds.
private struct TailPiece {
    let path: String
    /// Where the batch begins in its stream.
    let offset: StreamOffset
    var range: Range<Int>

    var end: StreamOffset { self.offset.advanced(by: self.range.count) }

    /// The day of its lines; `nil` in the quarantine.
    var day: CalendarDay? { DayFolder(path: Path.parent(of: self.path))?.day }
}

/// How far the archive has a stream.
private struct StreamExtent {
    let description: StreamDescription
    /// Where the last batch begins.
    let offset: StreamOffset
    let byteCount: Int

    var end: StreamOffset { self.offset.advanced(by: self.byteCount) }
}

extension ArchiveIndex {
    /// The extent of each stream in the archive and the quarantine, up to the last checkpoint, with its last bytes.
    ///
    /// Without a checkpoint, or with one that the journal does not reach back to, the files count in full: the checkpoint
    /// is rebuilt from them. Otherwise what follows the checkpoint is cut off, also when the checkpoint has no file yet.
    /// The lines of the last batch may be spread over several files. Where each file is another day, the lines are
    /// supposed to be in the order of the days: if they were not, the proof disagrees with the agent's file, as no proof
    /// does too. Any other spread batch ends the known part of a tail.
    /// - Parameter start: where the journal begins.
    package func standings(ofJournalFrom start: JournalPosition) throws(FileSystemError) -> [StreamStanding] {
        var lengths = self.lengths
        if self.position.map({ $0 < start }) ?? true {
            for folder in ["archive", "quarantine"] { try self.collect(folder, into: &lengths) }
        }
        var extents: [StreamName: StreamExtent] = [:]
        try self.visitRuns(lengths) { _, run in
            let known = extents[run.description.name]
            if let known, known.offset > run.offset { return }
            // A batch is spread over the files of its lines: the lengths add up to its own.
            let before = known.map { $0.offset == run.offset ? $0.byteCount : 0 } ?? 0
            extents[run.description.name] = StreamExtent(
                description: run.description, offset: run.offset, byteCount: before + run.streamByteCount)
        }
        var pieces: [StreamName: [TailPiece]] = [:]
        // Empty lines are only counted, so the bytes of their batch are not at hand.
        try self.visitRuns(lengths) { path, run in
            guard run.emptyLineCount == 0 else { return }
            let piece = TailPiece(path: path, offset: run.offset, range: run.range)
            guard let extent = extents[run.description.name], piece.end <= extent.end,
                piece.offset == extent.offset
                    || extent.end.rawValue - piece.end.rawValue < UInt64(StreamProof.byteCountMax)
            else { return }
            pieces[run.description.name, default: []].append(piece)
        }
        let chains = extents.mapValues { Self.chain(of: pieces[$0.description.name] ?? [], upTo: $0) }
        let contents = try self.contents(of: chains)
        return extents.map { name, extent in
            let tail = StreamTail(end: extent.end, bytes: contents[name] ?? [])
            return StreamStanding(
                description: extent.description, tail: tail ?? StreamTail(unknownBelow: extent.end))
        }
    }

    private func visitRuns(
        _ lengths: [String: Int], _ body: (_ path: String, SourceRun) -> Void
    ) throws(FileSystemError) {
        for (path, byteCount) in lengths.sorted(by: { $0.key < $1.key }) where path.hasSuffix(".ndjson") {
            let sources = String(path.dropLast(7) + ".sources")
            guard let sourcesByteCount = lengths[sources] else { continue }
            let runs = try SourceRuns.runs(
                of: Path.join(self.data.root, sources), byteCount: sourcesByteCount,
                linesByteCount: byteCount, files: self.data.files)
            for run in runs { body(path, run) }
        }
    }

    /// The pieces that join up to the stream's end, first to last, cut to the length of a tail.
    private static func chain(of pieces: [TailPiece], upTo extent: StreamExtent) -> [TailPiece] {
        var chain: [TailPiece] = []
        var missing = StreamProof.byteCount(at: extent.end)
        func take(_ piece: TailPiece) {
            var piece = piece
            piece.range = max(piece.range.lowerBound, piece.range.upperBound - missing)..<piece.range.upperBound
            missing -= piece.range.count
            chain.append(piece)
        }
        let last = pieces.filter { $0.offset == extent.offset }
        guard last.reduce(0, { $0 + $1.range.count }) == extent.byteCount else { return [] }
        let (known, isWhole) = Self.ordered(last)
        for piece in known.reversed() where missing > 0 { take(piece) }
        var position = extent.offset
        while isWhole, missing > 0, let piece = pieces.first(where: { $0.end == position && $0.range.count > 0 }) {
            position = piece.offset
            take(piece)
        }
        return chain.reversed()
    }

    /// The last pieces of a batch whose order is known, and whether they are all.
    private static func ordered(_ pieces: [TailPiece]) -> (known: [TailPiece], isWhole: Bool) {
        guard pieces.count > 1 else { return (pieces, true) }
        let days = pieces.compactMap(\.day)
        // Any line of the batch may be in the quarantine, the last one too.
        guard days.count == pieces.count else { return ([], false) }
        let sorted = zip(days, pieces).sorted { $0.0 < $1.0 }
        let shared = sorted.indices.last { index in
            index + 1 < sorted.endIndex && sorted[index].0 == sorted[index + 1].0
        }
        let known = sorted[(shared.map { $0 + 2 } ?? 0)...].map(\.1)
        return (known, known.count == pieces.count)
    }

    /// Reads each file once, from its start on.
    private func contents(of chains: [StreamName: [TailPiece]]) throws(FileSystemError) -> [StreamName: [UInt8]] {
        var reads: [String: [(name: StreamName, index: Int, range: Range<Int>)]] = [:]
        for (name, chain) in chains {
            for (index, piece) in chain.enumerated() {
                reads[piece.path, default: []].append((name, index, piece.range))
            }
        }
        var parts: [StreamName: [Int: [UInt8]]] = [:]
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
        do throws(FileSystemError) {
            return try PartBytes(path: Path.join(self.data.root, path), isSealed: false, files: self.data.files)
        } catch {
            throw .disk(error)
        }
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
