internal import WaybillData
internal import WaybillFleet
internal import WaybillProtocol
internal import WaybillSystem

/// What must hold of a bucket and its mergers in the end.
extension FleetLife {
    func judge() { self.judge(self.bucket) }

    func judge(_ bucket: FleetBucket) {
        bucket.calm()
        bucket.readAgain()
        // One that begins with nothing takes the rounds that the others have decided.
        let auditor = FleetMerger(self, bucket, number: 9)
        let mergers = self.mergers.filter { $0.bucket === bucket } + [auditor]
        // Time passes meanwhile, and days may be sealed behind another round.
        for _ in 0..<20 {
            for merger in mergers { merger.finish() }
            if mergers.allSatisfy({ $0.round == auditor.round }) { break }
        }
        guard self.violation == nil else { return }
        self.compare(auditor)
        let rounds = bucket.rounds
        self.judgeLines(auditor, bucket)
        self.judgeCounts(auditor, bucket, rounds)
        self.judgeMissing(auditor, bucket)
        self.judgeBarriers(auditor, bucket, rounds)
        if self.isOver, let hole = self.loggers.compactMap(\.untoldHole).first {
            self.violate("NULs from \(hole.lowerBound) to \(hole.upperBound) are in a file, and no one said so")
        }
    }

    private func compare(_ auditor: FleetMerger) {
        let segments = auditor.segments
        for merger in self.mergers where merger.bucket === auditor.bucket {
            if merger.end != auditor.end || merger.round != auditor.round {
                self.violate(
                    "\(merger.label) is at round \(merger.round), position \(merger.end), and one that began with nothing "
                        + "at round \(auditor.round), position \(auditor.end)")
            }
            for (path, bytes) in merger.segments where segments[path] != bytes {
                self.violate("\(merger.label) has other bytes in \(path) than one that began with nothing")
            }
            if merger.barriers != auditor.barriers {
                self.violate("\(merger.label) seals elsewhere than another merger")
            }
            if merger.missing != auditor.missing {
                self.violate("\(merger.label) misses other bytes than another merger")
            }
            if merger.erasures != auditor.erasures {
                self.violate("\(merger.label) erases elsewhere than another merger")
            }
            if merger.erasures.count != merger.bucket.requestCount {
                self.violate("\(merger.label) erases \(merger.erasures.count) of \(merger.bucket.requestCount) people")
            }
            if merger.setAsides != auditor.setAsides || merger.setAsides.count != merger.bucket.setAsideCount {
                self.violate(
                    "\(merger.label) leaves \(merger.setAsides) unread of \(merger.bucket.setAsideCount), and one that "
                        + "began with nothing \(auditor.setAsides)")
            }
        }
    }

    /// Every line of the bucket's pieces is in the merged journal once, and every promised one is in a piece.
    private func judgeLines(_ auditor: FleetMerger, _ bucket: FleetBucket) {
        var counts: [ArraySlice<UInt8>: Int] = [:]
        for (position, entry) in auditor.records() {
            for line in entry.bytes.split(separator: 0x0A) {
                counts[line, default: 0] += 1
                if counts[line] ?? 0 > 1 {
                    let offset = Int(entry.offset) + entry.bytes.distance(from: 0, to: line.startIndex)
                    self.note("\(PromiseLedger.text(line)) again, at \(position): \(entry.stream.id) \(offset)")
                }
            }
        }
        for logger in self.loggers where logger.isRotated { self.streams.rewritten.insert(logger.agent.number) }
        // What is forgotten is not compared: a line with other bytes is dropped, and counted.
        let mayDrop = self.streams.isForgetful && auditor.tally.unprovenLineCount > 0 && self.streams.mayConflict
        let stored = bucket.lines
        let isFinal = bucket === self.bucket && self.isOver
        if let line = self.bucket.firstMissing(of: isFinal ? self.ledger.promised : []) {
            self.violate("the bucket lacks line \(line), \(self.ledger.text(line))")
        }
        let problem = self.ledger.problem(
            stored: [counts], mayRepeat: self.streams.mayRepeat, mayMiss: mayDrop, isFinal: isFinal)
        if let problem { self.violate("the merged journal: \(problem)") }
        let unread = counts.keys.compactMap { self.ledger.number(of: $0) }.filter { !stored.contains($0) }
        if let line = unread.min() {
            self.violate("the merged journal has line \(line), \(self.ledger.text(line)), and no piece has it")
        }
    }

    /// What receivers took is merged or dropped; conflicts are counted where there are some.
    private func judgeCounts(_ auditor: FleetMerger, _ bucket: FleetBucket, _ rounds: [MergeRound]) {
        let pieces = bucket.allPieces
        var positions: [ChainName: Int] = [:]
        var lineCount = 0
        for piece in rounds.flatMap(\.pieces) {
            guard let found = pieces[piece.key] else {
                return self.violate("a round names \(piece.key), which is gone")
            }
            if found.start != positions[piece.chain] ?? found.start {
                self.violate("a round names \(piece.key), and its chain is at \(positions[piece.chain] ?? 0)")
            }
            positions[piece.chain] = found.end
            lineCount += found.lineCount
        }
        if pieces.count != rounds.reduce(0, { $0 + $1.pieces.count }) {
            self.violate("the bucket has \(pieces.count) pieces, and rounds name others")
        }
        let tally = auditor.tally
        if lineCount != tally.lineCount + tally.droppedLineCount || tally.damagedByteCount > 0 {
            self.violate("receivers took \(lineCount) lines, and a merger says \(tally)")
        }
        // These lives have fewer batches than mergers remember, unless they remember few.
        if tally.unprovenLineCount > 0, !self.streams.isForgetful {
            self.violate("nothing is forgotten, and \(tally.unprovenLineCount) lines were not compared")
        }
        var taken: [StreamName: [Range<UInt64>]] = [:]
        var conflictCount = 0
        for (_, entry) in auditor.records() {
            var start = entry.offset
            for line in entry.bytes.split(separator: 0x0A, omittingEmptySubsequences: false) where !line.isEmpty {
                let range = start..<(start + UInt64(line.count) + 1)
                if taken[entry.stream]?.contains(where: { $0.overlaps(range) }) ?? false { conflictCount += 1 }
                taken[entry.stream, default: []].append(range)
                start = range.upperBound
            }
        }
        if conflictCount != tally.conflictLineCount {
            self.violate("\(conflictCount) lines are beside others, and a merger counts \(tally.conflictLineCount)")
        }
        if conflictCount > 0, !self.streams.mayConflict {
            self.violate("\(conflictCount) conflicts where every source has one content")
        }
    }

    /// Missing are the bytes below a seal, or said to be in the bucket, that no piece has and no agent gave up.
    private func judgeMissing(_ auditor: FleetMerger, _ bucket: FleetBucket) {
        var known: [StreamName: [Bool]] = [:]
        var lengths: [StreamName: Int] = [:]
        for piece in bucket.allPieces.values {
            for (stream, length) in piece.seals { lengths[stream] = max(lengths[stream] ?? 0, Int(length)) }
            let ranges =
                piece.skips
                + piece.batches.map { ($0.stream, $0.offset..<($0.offset + UInt64($0.bytes.count))) }
            for (stream, range) in ranges {
                var bytes = known.removeValue(forKey: stream) ?? []
                let end = Int(range.upperBound)
                if bytes.count < end { bytes += Array(repeating: false, count: end - bytes.count) }
                for index in Int(range.lowerBound)..<end { bytes[index] = true }
                known[stream] = bytes
            }
        }
        var demanded = lengths.mapValues { [Bool](repeating: true, count: $0) }
        for (stream, range) in bucket.allPieces.values.flatMap(\.told) {
            var bytes = demanded.removeValue(forKey: stream) ?? []
            bytes += Array(repeating: false, count: max(0, Int(range.upperBound) - bytes.count))
            for index in Int(range.lowerBound)..<Int(range.upperBound) { bytes[index] = true }
            demanded[stream] = bytes
        }
        var missing = 0
        for (stream, bytes) in demanded {
            let present = known[stream] ?? []
            missing += bytes.indices.count { bytes[$0] && !($0 < present.count && present[$0]) }
        }
        let named = auditor.missing.reduce(0) { $0 + $1.byteCount }
        if missing != named { self.violate("\(missing) bytes are missing, and \(named) are named: \(auditor.missing)") }
        if missing > 0 { self.violate("\(missing) bytes were said to be in the bucket, and no piece has them") }
    }

    /// What a live receiver took before a barrier lies before it.
    ///
    /// A chain's time never goes back: behind a mark everything is later, also where the receiver's clock was set back. So
    /// what is compared is the latest time that the chain had reached when a line came.
    private func judgeBarriers(_ auditor: FleetMerger, _ bucket: FleetBucket, _ rounds: [MergeRound]) {
        let pieces = bucket.allPieces
        let patience: Int64 = 1_800_000
        var marks: [ChainName: WallTime] = [:]
        var reached: [ChainName: WallTime] = [:]
        var through = WallTime.unknown
        /// For each chain the latest time that a round has promised to be in.
        var promised: [ChainName: (time: WallTime, round: Int)] = [:]
        for round in rounds {
            for piece in round.pieces {
                guard let found = pieces[piece.key] else { continue }
                for entry in found.batches where entry.receivedAt != .unknown {
                    let time = max(reached[piece.chain] ?? .unknown, entry.receivedAt)
                    reached[piece.chain] = time
                    if let promise = promised[piece.chain], time < promise.time {
                        self.violate(
                            "\(piece.key) has lines of \(time), and round \(promise.round) had sealed through "
                                + "\(promise.time)")
                    }
                }
                reached[piece.chain] = max(reached[piece.chain] ?? .unknown, found.lastMark)
                if found.lastMark != .unknown { marks[piece.chain] = found.lastMark }
            }
            guard round.through >= through else { return self.violate("round \(round.number) goes back in time") }
            guard round.through > through else { continue }
            through = round.through
            for (chain, mark) in marks where mark.milliseconds > round.time.milliseconds - patience {
                promised[chain] = (through, round.number)
            }
        }
        if auditor.barriers.contains(where: { $0.through > through }) {
            self.violate("a barrier goes further than any round")
        }
    }
}
