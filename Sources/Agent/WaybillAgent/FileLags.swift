internal import WaybillSystem
internal import WaybillTail

/// Since when each file has bytes that no receiver has acknowledged.
///
///     since          marked
///       ├──────────────┤                      the file had `markedEnd` bytes at `marked`
///     offset ──▶ acked ──▶ markedEnd ──▶ byteCount
///
/// Once `markedEnd` is acknowledged, what is left is younger than `marked`. So a time is never too short, and too long by
/// one such step at most. Files above a count are left out: memory does not depend on a backlog.
struct FileLags {
    private struct Lag {
        var since: MonotonicTime
        var marked: MonotonicTime
        var markedEnd: Int
    }

    static let countMax = 4096

    private var lags: [StreamKey: Lag] = [:]

    /// The file has `byteCount` bytes, and not all of them are acknowledged.
    mutating func grew(_ stream: StreamKey, to byteCount: Int, _ now: MonotonicTime) {
        guard self.lags[stream] == nil, self.lags.count < Self.countMax else { return }
        self.lags[stream] = Lag(since: now, marked: now, markedEnd: byteCount)
    }

    mutating func acked(_ stream: StreamKey, upTo offset: Int, of byteCount: Int, _ now: MonotonicTime) {
        guard !self.lags.isEmpty, var lag = self.lags[stream] else { return }
        guard offset < byteCount else {
            self.lags[stream] = nil
            return
        }
        guard offset >= lag.markedEnd else { return }
        lag.since = lag.marked
        lag.marked = now
        lag.markedEnd = byteCount
        self.lags[stream] = lag
    }

    /// The file is followed no more.
    mutating func remove(_ stream: StreamKey) {
        if !self.lags.isEmpty { self.lags[stream] = nil }
    }

    /// Drops files that are followed no more.
    mutating func prune(_ isFollowed: (StreamKey) -> Bool) {
        self.lags = self.lags.filter { isFollowed($0.key) }
    }

    /// `nil` if that is not known.
    func since(_ stream: StreamKey) -> MonotonicTime? { self.lags[stream]?.since }
}
