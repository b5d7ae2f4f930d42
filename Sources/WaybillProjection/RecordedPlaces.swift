internal import WaybillArchive
internal import WaybillJournal
internal import WaybillProtocol
internal import WaybillSystem

/// Which days' folders have lines of a batch, from their `.sources`; each folder is read once, when it is asked for.
final class RecordedPlaces<Files: FileSystem> {
    private struct Batch: Hashable {
        let name: StreamName
        let offset: StreamOffset
    }

    private let root: String
    private let files: Files
    private var batches: [String: Set<Batch>] = [:]
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
                let folder = Path.join(Path.join(archive, name), "app=" + PartitionPath.overflowApp)
                if try files.status(at: folder) != nil { hasOverflow = true }
            }
        }
        self.hasOverflow = hasOverflow
    }

    /// Whether a folder has lines of the batch.
    func hasLines(of batch: ProjectedBatch, in place: String) -> Bool {
        guard self.hasOverflow, self.failure == nil else { return false }
        do throws(FileSystemError) {
            if self.batches[place] == nil { self.batches[place] = try self.read(place) }
            let key = Batch(name: batch.description.name, offset: batch.offset)
            return self.batches[place]?.contains(key) ?? false
        } catch {
            self.failure = error
            return false
        }
    }

    private func read(_ place: String) throws(FileSystemError) -> Set<Batch> {
        var batches: Set<Batch> = []
        let folder = Path.join(self.root, place)
        guard try self.files.status(at: folder) != nil else { return batches }
        for name in try self.files.list(folder) where name.hasSuffix(".sources") {
            let path = Path.join(folder, name)
            let byteCount = try self.files.status(at: path)?.byteCount ?? 0
            let runs = try SourceRuns.runs(
                of: path, byteCount: byteCount, linesByteCount: 1 << 53, files: self.files)
            for run in runs { batches.insert(Batch(name: run.description.name, offset: run.offset)) }
        }
        return batches
    }
}
