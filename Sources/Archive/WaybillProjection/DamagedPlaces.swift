internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// Tells in which damaged pair of files a run of the journal belongs, which is not decided by its day alone.
struct DamagedPlaces {
    private struct Day {
        /// The damaged pairs of the day, with the runs in their `.sources`.
        var damaged: [(stem: String, keys: Set<RunKey>)] = []
        /// The runs in other open files of the day.
        var elsewhere: Set<RunKey> = []
        let standing: DayStanding
        let seal: Seal?
    }

    private var days: [String: Day] = [:]
    private var quarantined: Set<String> = []

    /// Reads how the days of damaged pairs stand, and what their other files have.
    ///
    /// - Parameters:
    ///   - damaged: by stem.
    ///   - lengths: of files in the checkpoint, by path.
    ///   - seals: those in progress, by folder.
    init(
        of damaged: [String: DamagedPair], in data: DataDirectory<some FileSystem>, lengths: [String: Int],
        seals: [String: Seal]
    ) throws(FileSystemError) {
        for (stem, pair) in damaged.sorted(by: { $0.key < $1.key }) {
            let folder = Path.parent(of: stem)
            guard DayFolder(path: folder) != nil else {
                self.quarantined.insert(stem)
                continue
            }
            if self.days[folder] == nil {
                let seal = seals[folder]
                var day = Day(standing: try DayStanding(of: folder, in: data, seal: seal), seal: seal)
                for path in lengths.keys.sorted() where path.hasSuffix(".ndjson") && Path.parent(of: path) == folder {
                    let other = String(path.dropLast(7))
                    guard damaged[other] == nil else { continue }
                    let runs = try DamagedPair(other, in: data, lengths: lengths).runs
                    day.elsewhere.formUnion(runs.map { RunKey($0) })
                }
                self.days[folder] = day
            }
            self.days[folder]?.damaged.append((stem, Set(pair.runs.map { RunKey($0) })))
        }
    }

    /// The damaged pair in which a run belongs; `nil` if it belongs in another file.
    func stem(of run: RoutedRun, _ route: ArchiveRouter.Route, _ batch: ProjectedBatch) -> String? {
        guard route.isDay else { return self.quarantined.contains(route.place) ? route.place : nil }
        guard let day = self.days[route.place], batch.position >= day.standing.sealedBefore else { return nil }
        let key = RunKey(run, of: batch)
        if let known = day.damaged.first(where: { $0.keys.contains(key) }) { return known.stem }
        if day.elsewhere.contains(key) { return nil }
        // The .sources do not have it, so the position at which the sealing began decides.
        var name = DayFolder.openPart(revision: day.standing.revision)
        if let seal = day.seal, batch.position.rawValue < seal.position { name = seal.stem }
        return day.damaged.first { Path.name(of: $0.stem) == name }?.stem
    }
}
