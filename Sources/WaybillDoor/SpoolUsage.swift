internal import WaybillSpool
internal import WaybillSystem

/// How many bytes of the door's spools no agent has taken away yet.
///
/// What an agent has shipped and keeps has other names, and does not count. While the disk does not answer, one
/// measurement waits for it, and the others leave at once.
final class SpoolUsage: Sendable {
    private struct State {
        var byteCount: Int?
        /// No measurement begins before; `nil`: there was none.
        var due: MonotonicTime?
        var isMeasuring = false
    }

    private static let interval = Duration.seconds(10)

    private let state = Lock(State())

    /// As of the last measurement; `nil`: it is not known.
    var byteCount: Int? { self.state.withLock { $0.byteCount } }

    /// Measures unless that was done a moment ago; it may block.
    ///
    /// - Parameter root: the folder of the spools.
    func measure(_ root: String, on files: some FileSystem, now: MonotonicTime) {
        let isDue = self.state.withLock { state -> Bool in
            if state.isMeasuring { return false }
            if let due = state.due, now < due { return false }
            state.isMeasuring = true
            return true
        }
        guard isDue else { return }
        let byteCount = Self.byteCount(of: root, on: files)
        self.state.withLock { $0 = State(byteCount: byteCount, due: now + Self.interval) }
    }

    private static func byteCount(of root: String, on files: some FileSystem) -> Int? {
        do throws(FileSystemError) {
            guard try files.status(at: root) != nil else { return 0 }
            var byteCount = 0
            for folder in try files.list(root) {
                let path = Path.join(root, folder)
                guard try files.status(at: path)?.kind == .directory else { continue }
                for name in try files.list(path) where SegmentName(parsing: name) != nil {
                    // An agent may have taken it away since the look.
                    byteCount += try files.status(at: Path.join(path, name))?.byteCount ?? 0
                }
            }
            return byteCount
        } catch {
            // Nothing is said rather than too little.
            return nil
        }
    }
}
