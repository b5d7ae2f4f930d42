internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// The `.sources` beside an archive file, which no checksum covers: any bytes are read, and runs say nothing impossible.
enum ArchiveIndexFuzz {
    @Sendable static func run(_ input: [UInt8]) throws {
        let disk = FaultyFiles()
        let data = DataDirectory(root: "/data", files: disk)
        try data.create()
        let directory = "archive/env=prod/bundle=b/date=2026-11-20"
        try disk.createDirectories(Path.join(data.root, directory))
        let sources = Array(Self.head.utf8) + input
        disk.place("/data/\(directory)/part-00000.sources", sources)
        disk.place("/data/\(directory)/part-00000.ndjson", [UInt8](repeating: 0x0A, count: 100))
        do {
            var state = try StateStore(path: data.statePath("archive"), files: disk)
            try state.commit([
                "file:\(directory)/part-00000.ndjson": "100",
                "file:\(directory)/part-00000.sources": String(sources.count),
            ])
        }
        let index = try ArchiveIndex(data: data)
        try require(index.parts.count == 1, "\(index.parts)")
        var runs: [SourceRun] = []
        try index.visitRuns(of: index.parts[0]) { runs.append($0) }
        let lineCount = sources.split(separator: 0x0A).count
        try require(runs.count <= lineCount, "\(runs.count) runs from \(lineCount) lines")
        for run in runs {
            try require(run.range.lowerBound >= 0 && run.lineCount >= 0, "a run that cannot be: \(run)")
        }
        for (last, next) in zip(runs, runs.dropFirst()) where next.continues(last) {
            try require(next.offset > last.end, "a run that continues within the one before it: \(last), \(next)")
        }
        // What stands before the damage is read.
        try require(runs.first?.range == 0..<60 && runs.first?.lineCount == 3, "the first run is lost: \(runs)")
    }

    private static var head: String {
        "OPEN 1 \(SmallMessages.description(1).json)\nFROM 1 0 1790000000000 0 60 3\n"
    }
}
