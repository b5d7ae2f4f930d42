internal import WaybillSystem
internal import WaybillTail

/// Bounds the log lines about files that are no NDJSON: some of each format at once, then one a minute.
struct FormatNoticeLimit {
    private struct Standing {
        var lineCount = 0
        var next = MonotonicTime(nanoseconds: 0)
        var untoldCount = 0
    }

    private static var burst: Int { 10 }

    private var standings: [ForeignFormat: Standing] = [:]

    /// - Returns: how many files of that format were left out since the last line; `nil` to leave this one out too.
    mutating func admit(_ format: ForeignFormat, _ now: MonotonicTime) -> Int? {
        var standing = self.standings[format] ?? Standing()
        defer { self.standings[format] = standing }
        guard standing.lineCount < Self.burst || standing.next <= now else {
            standing.untoldCount += 1
            return nil
        }
        standing.lineCount += 1
        standing.next = now + .seconds(60)
        defer { standing.untoldCount = 0 }
        return standing.untoldCount
    }
}
