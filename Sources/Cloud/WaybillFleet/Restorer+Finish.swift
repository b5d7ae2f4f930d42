internal import WaybillData
internal import WaybillSystem

/// What a restore does when the journal is there.
extension Restorer {
    /// Pieces of other chains are read for their lines up to so many bytes for each chain.
    private static var countedByteCountMax: Int { 1 << 30 }

    // MARK: The other chains

    /// Finds what other chains have that is not in the journal.
    mutating func findTails(_ chains: ReceiverChains) throws(RestoreFailure) {
        for chain in chains.chains {
            var position = chain.first
            if let index = self.report.links.firstIndex(where: { $0.chain == chain.name }) {
                // It was taken up to where the next one begins.
                guard index + 1 < self.report.links.count else { continue }
                position = self.report.links[index + 1].start
            }
            guard let tail = try self.tail(of: chain, from: position) else { continue }
            self.report.tails.append(tail)
        }
    }

    private func tail(
        of chain: ReceiverChains.Chain, from position: JournalPosition
    ) throws(RestoreFailure) -> RestoreTail? {
        var tail: RestoreTail?
        var readByteCount = 0
        var start = chain.next(from: position)
        while let piece = start {
            let next = chain.next(from: JournalPosition(piece.rawValue + 1))
            start = next
            guard readByteCount < Self.countedByteCountMax else {
                tail?.isCounted = false
                tail?.byteCount += max(0, (chain.end ?? piece).rawValue - piece.rawValue)
                return tail
            }
            let key = chain.name.key(of: piece)
            let object = try RestoreFailure.inStore(self.store.read(key, nil))
            guard let object else { continue }
            readByteCount += object.count
            guard
                let content = try RestoreFailure.onDisk(
                    PieceContent(object, startingAt: piece, endingAt: next, files: files))
            else { continue }
            let own = object[content.headByteCount...]
            // Another name for the same bytes, as when an uploader lost its state.
            if tail == nil, try self.has(own, at: piece) { continue }
            var found = tail ?? RestoreTail(chain: chain.name, start: piece)
            found.byteCount += own.count
            found.lineCount += content.lineCount
            tail = found
        }
        return tail
    }

    /// Whether the journal has these bytes at a position.
    private func has(_ bytes: ArraySlice<UInt8>, at position: JournalPosition) throws(RestoreFailure) -> Bool {
        let journal = self.data.journal
        return try RestoreFailure.withDisk { [files] () throws(FileSystemError) in
            let segments = try JournalPath.segments(in: journal, files)
            guard let base = segments.filter({ $0 <= position }).max() else { return false }
            let path = JournalPath.segment(base, in: journal)
            return try files.bytes(at: path, offset: position.rawValue - base.rawValue, count: bytes.count)
                .elementsEqual(bytes)
        }
    }

    // MARK: The end

    /// The last day that an archive has (`archive.md`): without any time of receipt every day is in doubt.
    private static var lastDay: CalendarDay { CalendarDay(daysSince1970: 47_481) }

    /// Events of the next day may be from a place or a clock that is ahead.
    private static func sentThrough(_ last: WallTime) -> CalendarDay {
        CalendarDay(daysSince1970: Int32(clamping: last.milliseconds / 86_400_000 + 1))
    }

    /// Begins an incarnation, and says where the uploader continues and what may have been sent.
    mutating func finish(_ state: inout StateStore<Files>) throws(RestoreFailure) {
        let (seed, end) = (self.seed, self.report.end)
        let (data, setup) = (self.data, self.setup)
        let chain = self.report.links[self.report.links.count - 1].chain
        let through = self.report.lastTime.map(Self.sentThrough) ?? Self.lastDay
        let sent = RestoredDays(id: Hexadecimal.text(seed.id, digitCount: 16), through: through)
        self.report.sentThrough = through
        try RestoreFailure.withDisk { [files] () throws(FileSystemError) in
            var journal = try Journal(directory: data.journal, files: files, endMin: end, tables: .all)
            try journal.begin(seed, isLossy: true, at: .unknown)
            var uploader = try StateStore(path: UploadState.path(in: setup.dataDirectory), files: files)
            try uploader.commit([
                "fleet": setup.fleet, "chain": chain.description, "position": String(end.rawValue),
            ])
            try sent.write(in: data)
            try files.synchronizeDirectory(data.state)
        }
        try self.removeMark()
    }

    private func removeMark() throws(RestoreFailure) {
        let root = self.setup.dataDirectory
        try RestoreFailure.withDisk { [files] () throws(FileSystemError) in
            for name in RestoreMark.names.reversed() {
                let path = Path.join(root, name)
                if try files.status(at: path) != nil { try files.unlink(path) }
            }
            try files.synchronizeDirectory(root)
        }
    }
}
