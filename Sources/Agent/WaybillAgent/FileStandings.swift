internal import WaybillSystem
internal import WaybillTail

/// How each file stands with the receiver: disputed, behind since a time, or not shipped for a reason.
///
///     grew ─▶ behind ──acked──▶ shipped
///                ├─ disputed: asked again later ──acked, sealed, agreed──▶ settled
///                └─ an error, which stays until bytes of the file are acknowledged
struct FileStandings {
    private var disputes = Disputes()
    private var lags = FileLags()
    /// Why files are not shipped, by path.
    private var errors: [String: String] = [:]

    var disputedCount: Int { self.disputes.count }

    // MARK: What happened

    /// The file has `byteCount` bytes, and not all of them are acknowledged.
    mutating func grew(_ stream: StreamKey, to byteCount: Int, at now: MonotonicTime) {
        self.lags.grew(stream, to: byteCount, now)
    }

    /// - Parameters:
    ///   - position: of the stream, with what is acknowledged.
    ///   - hasAdvanced: whether more is acknowledged than was known.
    mutating func acked(_ stream: StreamKey, _ position: StreamPosition, hasAdvanced: Bool, at now: MonotonicTime) {
        self.lags.acked(stream, upTo: position.acked, of: position.byteCount, now)
        guard hasAdvanced else { return }
        self.disputes.settle(stream)
        if !self.errors.isEmpty { self.errors[position.path] = nil }
    }

    /// Takes an answer whose proof agrees with the bytes before the stream's position.
    mutating func agreed(_ stream: StreamKey, _ position: StreamPosition) {
        self.disputes.agreed(stream, at: position.acked, of: position.byteCount)
    }

    /// - Returns: when to ask again.
    mutating func disputed(_ stream: StreamKey, by receiver: ReceiverTag, at now: MonotonicTime) -> MonotonicTime {
        self.disputes.add(stream, by: receiver, now)
    }

    mutating func settled(_ stream: StreamKey) { self.disputes.settle(stream) }

    /// The receiver has closed the stream.
    mutating func sealed(_ stream: StreamKey) { self.lags.remove(stream) }

    /// The file is followed no more.
    mutating func remove(_ stream: StreamKey) {
        self.lags.remove(stream)
        self.disputes.settle(stream)
    }

    /// Drops times of files that are followed no more.
    mutating func prune(_ isFollowed: (StreamKey) -> Bool) { self.lags.prune(isFollowed) }

    /// Remembers why a file is not shipped, for as long as it takes.
    mutating func failed(_ text: String, _ path: String) {
        guard self.errors.count < AgentReport.fileCountMax || self.errors[path] != nil else { return }
        self.errors[path] = String(text.prefix(AgentReport.errorCharacterCountMax))
    }

    /// Other files are followed from now on.
    mutating func forgetErrors() { self.errors.removeAll() }

    // MARK: What follows

    /// When a stream may be asked for at this receiver; `nil` when it may be at once.
    func nextAsking(_ stream: StreamKey, of receiver: ReceiverTag, _ now: MonotonicTime) -> MonotonicTime? {
        self.disputes.nextAsking(stream, of: receiver, now)
    }

    /// How long the oldest byte that is not acknowledged has waited: as noted, else since the file was written last, or
    /// for as long as no receiver was there, which is `alone`.
    func lag(of key: StreamKey, _ position: StreamPosition, alone: Duration, _ now: TailTime) -> Duration {
        if let since = self.lags.since(key) { return max(.zero, now.monotonic - since) }
        // A file may say any time.
        let written = Duration.milliseconds(now.wall.milliseconds) - .nanoseconds(position.modified)
        return max(.zero, written, alone)
    }

    /// Those with a problem, then those that are furthest behind, then the others in no order.
    func worst(of files: [StreamKey], _ position: (StreamKey) -> StreamPosition) -> [StreamKey] {
        var late: [(rank: Int, key: StreamKey)] = []
        var others: [StreamKey] = []
        for key in files {
            let position = position(key)
            let behind = max(0, position.byteCount - position.acked)
            if position.isFaulty || position.isGone || self.disputes.contains(key) {
                late.append((.max, key))
            } else if behind > 0 {
                late.append((behind, key))
            } else if others.count < AgentReport.fileCountMax {
                others.append(key)
            }
        }
        late.sort { ($1.rank, $0.key.rawValue) < ($0.rank, $1.key.rawValue) }
        return late.map(\.key) + others
    }

    /// - Parameter isRefused: whether the receiver ignores the stream until it is opened again.
    func state(of key: StreamKey, _ position: StreamPosition, isRefused: Bool) -> AgentReport.FileState {
        if position.isFaulty { return .unreadable }
        if position.isGone { return .gone }
        if self.disputes.contains(key) { return .disputed }
        if isRefused { return .refused }
        if position.byteCount <= position.acked { return .shipped }
        if position.cursor > position.acked { return .sending }
        return position.isDrained ? .unfinished : .waiting
    }

    /// Why a file in this state is not shipped.
    ///
    /// - Parameters:
    ///   - holder: the receiver whose own archive has the file's first bytes, and which is waited for.
    ///   - mount: the mount of the file, if it does not answer.
    func error(of path: String, _ state: AgentReport.FileState, holder: String?, mount: String?) -> String? {
        switch state {
        case .disputed:
            holder.map { "waits for \($0), whose own archive has its first bytes" }
                ?? "the receiver holds other bytes of this file; see: waybill reship --help"
        case .unreadable, .refused, .waiting, .gone:
            mount.map { "the file system at \($0) does not answer" } ?? self.errors[path]
        case .shipped, .sending, .unfinished: nil
        }
    }
}
