internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// Which days' folders have lines of a batch, from their `.sources`; each folder is read once, when it is asked for.
final class RecordedPlaces<Files: FileSystem> {
    private let root: String
    private let files: Files
    /// By folder and stream: where its runs begin, ascending.
    private var runs: [String: [StreamName: [StreamOffset]]] = [:]
    /// What kept a folder from being read.
    private(set) var failure: FileSystemError?
    /// Without a folder of overflowed apps no line was ever anywhere but with its own app.
    private let hasOverflow: Bool

    init(root: String, files: Files) throws(FileSystemError) {
        self.root = root
        self.files = files
        var hasOverflow = false
        let archive = Path.join(root, "archive")
        if try files.status(at: archive) != nil {
            for name in try files.list(archive) where name.hasPrefix("env=") {
                let folder = Path.join(Path.join(archive, name), "bundle=" + PartitionPath.overflowBundle)
                if try files.status(at: folder) != nil { hasOverflow = true }
            }
        }
        self.hasOverflow = hasOverflow
    }

    /// Whether a folder has lines of the batch.
    func hasLines(of batch: ProjectedBatch, in place: String) -> Bool {
        guard self.hasOverflow, self.failure == nil else { return false }
        do throws(FileSystemError) {
            if self.runs[place] == nil { self.runs[place] = try self.read(place) }
            // A run is never longer than its batch.
            let offsets = self.runs[place]?[batch.description.name] ?? []
            let next = offsets.firstIndex(atOrAfter: batch.offset, of: { $0 })
            return next < offsets.count && offsets[next] < batch.offset.advanced(by: batch.raw.count)
        } catch {
            self.failure = error
            return false
        }
    }

    private func read(_ place: String) throws(FileSystemError) -> [StreamName: [StreamOffset]] {
        var found: [StreamName: [StreamOffset]] = [:]
        let folder = Path.join(self.root, place)
        guard try self.files.status(at: folder) != nil else { return found }
        for name in try self.files.list(folder) where name.hasSuffix(".sources") {
            let path = Path.join(folder, name)
            let byteCount = try self.files.status(at: path)?.byteCount ?? 0
            try SourceRuns.visit(path, byteCount: byteCount, linesByteCount: 1 << 53, files: self.files) { run in
                found[run.description.name, default: []].append(run.offset)
            }
        }
        return found.mapValues { $0.sorted() }
    }
}

extension RandomAccessCollection where Index == Int {
    /// The index of the first element at or after an offset, in elements that ascend by offset; the end if there is none.
    func firstIndex(atOrAfter offset: StreamOffset, of key: (Element) -> StreamOffset) -> Int {
        self.partitionIndex { key($0) < offset }
    }
}
