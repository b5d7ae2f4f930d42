internal import WaybillArchive
internal import WaybillSystem

extension ArchiveIndex.Part {
    /// Calls `body` with each run of the part, in order, until it returns `false`: the only place that reads the
    /// archive.
    ///
    /// Bytes that can no longer be decompressed are unexplained, like lines without a run.
    ///
    /// - Parameter body: the bytes are valid during the call.
    /// - Returns: the number of bytes in the visited runs.
    func visitRuns(
        in data: DataDirectory<Files>,
        _ body: (_ run: SourceRun, _ bytes: UnsafeRawBufferPointer) throws(FileSystemError) -> Bool
    ) throws(FileSystemError) -> Int {
        var reader = try PartReader(self, data: data)
        while true {
            let next: (run: SourceRun, bytes: UnsafeRawBufferPointer)?
            do throws(PartReadError) {
                next = try reader.next()
            } catch {
                guard case .disk(let cause) = error else { break }
                throw cause
            }
            guard let (run, bytes) = next, try body(run, bytes) else { break }
        }
        return reader.explainedByteCount
    }
}
