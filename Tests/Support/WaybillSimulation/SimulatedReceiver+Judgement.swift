internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillReplay
internal import WaybillSystem
internal import WaybillTestSupport

extension SimulatedReceiver {
    /// Every line of archive and quarantine, with how often it is there.
    func storedLines() -> [ArraySlice<UInt8>: Int] {
        var counts: [ArraySlice<UInt8>: Int] = [:]
        for (_, bytes) in self.disk.storedFiles() {
            for line in bytes.split(separator: 0x0A) { counts[line, default: 0] += 1 }
        }
        return counts
    }

    /// Which files have lines that are stored several times, for a trace.
    func noteRepeats(in counts: [ArraySlice<UInt8>: Int]) {
        for (path, bytes) in self.disk.storedFiles() {
            let repeated = bytes.split(separator: 0x0A).filter { counts[$0] ?? 0 > 1 }.map(PromiseLedger.text)
            if !repeated.isEmpty { self.life.note("\(self.label): \(path) has \(repeated)") }
        }
    }

    /// Dead letters hold the events that they are about, so that events can be counted.
    static func options(of provider: Destination) -> ExportOptions {
        var options = ExportOptions(provider: provider)
        options.keepsRefusedEvents = true
        return options
    }

    /// Compares the exports with the archive: each event once, and a replay gives the same.
    ///
    /// - Parameter poison: events that nothing reads.
    func exportProblem(without poison: Set<Int>) -> String? {
        var archived: [Int: Int] = [:]
        for (path, bytes) in self.disk.storedFiles() where path.hasPrefix("/data/archive/") {
            bytes.countTokens(&archived)
        }
        for provider in self.exports {
            let folder = "/data/exports/\(provider.rawValue)"
            var exported: [Int: Int] = [:]
            for (path, bytes) in self.disk.files(below: folder) where !path.hasSuffix("/held") {
                bytes.countTokens(&exported)
            }
            for line in self.heldLines(folder, of: provider) { Array(line).countTokens(&exported) }
            if let token = archived.keys.sorted().first(where: { exported[$0, default: 0] > archived[$0, default: 0] })
            {
                return "\(provider.rawValue) has event k\(token)x \(exported[token] ?? 0) times"
            }
            // A dead letter of a line that nothing reads has no event.
            let missing = archived.keys.filter { exported[$0] == nil && !poison.contains($0) }.sorted()
            if let token = missing.first {
                return "\(provider.rawValue) misses \(missing.count) events: k\(token)x"
            }
            if let token = exported.keys.sorted().first(where: { archived[$0] == nil }) {
                return "\(provider.rawValue) has event k\(token)x, which is not in the archive"
            }
        }
        guard let provider = self.exports.first, self.life.dice.chance(250) else { return nil }
        return self.replayProblem(provider)
    }

    /// Makes an export again, elsewhere, and compares its records with the live one's.
    private func replayProblem(_ provider: Destination) -> String? {
        let files = self.disk.files()
        defer { files.die() }
        var request = Replay.Request(providers: [provider], now: self.clock.wallTime())
        request.output = "/replay"
        request.options = [provider: Self.options(of: provider)]
        do throws(Replay.Failure) {
            _ = try Replayer(dataDirectory: "/data", files: files, request: request).run()
        } catch {
            return "a replay fails: \(error)"
        }
        let live = self.records("/data/exports/\(provider.rawValue)", of: provider)
        let replayed = self.records("/replay/exports/\(provider.rawValue)", of: provider)
        if live == replayed { return nil }
        let text = Set(live.keys).symmetricDifference(replayed.keys).sorted { $0.lexicographicallyPrecedes($1) }.first
        return "a replay of \(provider.rawValue) differs: \(text.map(PromiseLedger.text) ?? "a record twice")"
    }

    /// Records and ids, with how often each is there.
    ///
    /// Of a provider whose records hold many events only the ids count: which neighbours share a record depends on
    /// the order of days.
    private func records(_ folder: String, of provider: Destination) -> [ArraySlice<UInt8>: Int] {
        var counts: [ArraySlice<UInt8>: Int] = [:]
        for (path, bytes) in self.disk.files(below: folder) where !path.hasSuffix(".json") {
            if provider == .ga4, !path.hasSuffix(".ids") { continue }
            var bytes = bytes[...]
            // How many parts there are depends on when their days were sealed, and each has a head.
            if provider == .csv, path.hasSuffix(".csv") {
                bytes = bytes.drop { $0 != 0x0A }
            }
            if path.hasSuffix("/held") { continue }
            for record in bytes.split(whereSeparator: { $0 == 0x0A || (provider == .ga4 && $0 == 0x2C) }) {
                // A replay makes that of another day only where the event was received on its own day.
                if path.contains("/dead/"), PromiseLedger.text(record).contains("poison") { continue }
                counts[record, default: 0] += 1
            }
        }
        for line in self.heldLines(folder, of: provider) {
            // As it will stand in a part.
            let fields = line.split(separator: 0x20, maxSplits: 3)
            for record in [fields.first, fields.last].compactMap({ $0 }) { counts[record, default: 0] += 1 }
        }
        return counts
    }

    /// What an export holds, without what a seal has written into parts.
    private func heldLines(_ folder: String, of provider: Destination) -> [ArraySlice<UInt8>] {
        let state = self.disk.memory.bytes(of: "/data/state/export-\(provider.rawValue).state") ?? []
        let entries = StateImage(bytes: state)?.entries ?? [:]
        return self.disk.memory.files(below: folder).filter { $0.path.hasSuffix("/held") }.flatMap { path, bytes in
            let partition = Path.parent(of: String(path.dropFirst("/data/".utf8.count)))
            return bytes.dropFirst(HeldRecord.releasedByteCount(of: partition, in: entries)).split(separator: 0x0A)
        }
    }

    /// What the shipped verifier finds.
    func verifyProblem() -> String? {
        let files = self.disk.files()
        defer { files.die() }
        var verifier = DataVerifier(data: DataDirectory(root: "/data", files: files))
        return verifier.verify().problems.first.map { "inspect --verify reports \($0)" }
    }
}

extension [UInt8] {
    /// Counts each number between `k1` and `x`, as ``LifeState/nextToken()`` makes them.
    fileprivate func countTokens(_ counts: inout [Int: Int]) {
        self.withUnsafeBytes { bytes in
            var index = 0
            while index + 9 <= bytes.count {
                guard bytes[index] == UInt8(ascii: "k"), bytes[index + 1] == UInt8(ascii: "1"),
                    bytes[index + 8] == UInt8(ascii: "x")
                else {
                    index += 1
                    continue
                }
                let digits = bytes[(index + 1)..<(index + 8)]
                let isNumber = digits.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
                if isNumber { counts[digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }, default: 0] += 1 }
                index += isNumber ? 9 : 1
            }
        }
    }
}
