internal import WaybillSystem
internal import WaybillTail

/// Which lines of a run became durable, batch by batch; empty unless lines are counted.
struct LineLedger {
    private struct Batch {
        /// The offset after it.
        let end: Int
        let lineCount: Int
    }

    let isKept: Bool
    private var batches: [StreamKey: [Batch]] = [:]
    private(set) var ackedCount = 0

    init(isKept: Bool) {
        self.isKept = isKept
    }

    mutating func sent(_ stream: StreamKey, from offset: Int, byteCount: Int, lineCount: Int) {
        guard self.isKept else { return }
        self.batches[stream, default: []].append(Batch(end: offset + byteCount, lineCount: lineCount))
    }

    mutating func acked(_ stream: StreamKey, upTo offset: Int) {
        guard let batches = self.batches[stream] else { return }
        let acked = batches.prefix { $0.end <= offset }
        self.ackedCount += acked.reduce(0) { $0 + $1.lineCount }
        self.batches[stream] = acked.count == batches.count ? nil : Array(batches.dropFirst(acked.count))
    }

    /// A connection starts the stream at `offset`: everything before it is durable, everything after it is sent again.
    mutating func resumed(_ stream: StreamKey, at offset: Int) {
        self.acked(stream, upTo: offset)
        self.batches[stream] = nil
    }

    /// The number of whole lines of a file from `offset` on.
    static func lineCount(of path: String, from offset: Int, on files: some FileSystem) -> Int {
        do throws(FileSystemError) {
            let file = try files.open(path, .read)
            defer { files.close(file) }
            var chunk = [UInt8](repeating: 0, count: 256 << 10)
            var count = 0
            var position = offset
            while true {
                let filled = try files.readFully(file, at: position, into: &chunk)
                guard filled > 0 else { return count }
                count += chunk[..<filled].count { $0 == UInt8(ascii: "\n") }
                position += filled
            }
        } catch {
            // Gone or unreadable: the next scan reports it.
            return 0
        }
    }
}
