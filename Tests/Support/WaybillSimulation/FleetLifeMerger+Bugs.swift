internal import WaybillData
internal import WaybillFleet
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// Planted bugs of a merger: it starts again with the state that a merger with the bug would have.
extension FleetMerger {
    /// The planted bug: a batch of which something is there already counts as there.
    func plantBefore() {
        if self.life.has(.eraseAtSight) {
            for number in 1..<(self.bucket.requestCount + 1) where self.seen[number] == nil {
                self.seen[number] = self.end
            }
        }
        guard self.life.has(.mergeWholeBatches), let chains = self.merger?.chains else { return }
        let batches = self.bucket.allPieces.filter { key, piece in
            let chain = chains.first { key.hasPrefix($0.key.prefix) }
            return piece.start >= chain?.value.position.rawValue ?? 0
        }.sorted { $0.key < $1.key }.flatMap(\.value.batches)
        self.editState { entries in
            for batch in batches {
                let key = "stream/\(PercentText.encode(batch.stream.principal))/\(batch.stream.id.text)"
                let range = batch.offset..<(batch.offset + UInt64(batch.bytes.count))
                guard let parts = entries[key]?.split(separator: ";", omittingEmptySubsequences: false),
                    var ranges = OffsetRanges(parts[0]), !ranges.isDisjoint(with: range), !ranges.contains(range)
                else { continue }
                ranges.insert(range)
                entries[key] = "\(ranges);\(parts[1]);\(parts[2])"
            }
        }
    }

    func plantAfter() {
        if self.life.has(.rememberEndsAlone) {
            self.editState { entries in
                for (key, value) in entries where key.hasPrefix("stream/") {
                    let parts = value.split(separator: ";", omittingEmptySubsequences: false)
                    guard let end = OffsetRanges(parts[0])?.ranges.last?.upperBound else { continue }
                    entries[key] = "0-\(end);\(parts[1]);\(parts[2])"
                }
            }
        }
        if self.life.has(.oneMergePosition) {
            let pieces = self.bucket.allPieces
            self.editState { entries in
                let chains = entries.keys.filter { $0.hasPrefix("chain/") }
                let positions = chains.compactMap { entries[$0]?.split(separator: " ").first.flatMap { Int($0) } }
                guard let greatest = positions.max() else { return }
                for key in chains {
                    let folder = "journal/" + key.dropFirst("chain/".count) + "/"
                    let next = pieces.filter { $0.key.hasPrefix(folder) && $0.value.start >= greatest }.map(
                        \.value.start)
                    guard let next = next.min(), let mark = entries[key]?.split(separator: " ").last else { continue }
                    entries[key] = "\(next) \(mark)"
                }
            }
        }
    }

    /// The planted bug: a merger that starts again reads what others leave unread.
    func forgetSetAsides() {
        self.writeState { entries in
            for key in entries.keys where key.hasPrefix("aside/") { entries[key] = nil }
        }
    }

    /// Starts again with another state.
    private func editState(_ change: (inout [String: String]) -> Void) {
        self.kill()
        self.writeState(change)
        self.open()
    }

    private func writeState(_ change: (inout [String: String]) -> Void) {
        let files = FaultyFiles(self.disk.memory)
        do throws(FileSystemError) {
            var log = try StateLog(path: Self.state, files: files)
            var entries = log.takeEntries()
            let before = entries
            change(&entries)
            if entries != before {
                var lines = StateLines()
                for (key, value) in entries.sorted(by: { $0.key < $1.key }) { lines.set(key, value) }
                var rewrite = try log.beginRewrite()
                try log.write(lines, to: &rewrite)
                try log.finish(rewrite)
            }
        } catch {
            preconditionFailure("a disk without faults takes a state: \(error)")
        }
        files.die()
    }
}
