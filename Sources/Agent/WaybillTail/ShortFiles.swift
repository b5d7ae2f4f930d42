internal import WaybillSystem

/// Files that are shorter than what was read of them, until it is known whether they grow back.
///
/// A network mount reports an old length for a moment, and a program takes its last line back: both are no new content.
struct ShortFiles {
    /// How long a file may be shorter.
    static let patience = Duration.seconds(5)
    /// In which time a look decides after that, unless the file cannot be read.
    private static let lookPatience = Duration.seconds(3)

    struct Short {
        let since: MonotonicTime
        /// The smallest length that was seen.
        var byteCountMin: Int
        /// Up to where it was sent: a receiver may hold that, though it has not said so.
        var sentByteCount: Int
        /// Where it ended when it had grown again.
        var end: SeenEnd?
    }

    private var files: [StreamKey: Short] = [:]

    var isEmpty: Bool { self.files.isEmpty }
    var keys: [StreamKey] { self.files.keys.sorted { $0.rawValue < $1.rawValue } }

    subscript(file: StreamKey) -> Short? { self.files[file] }

    func contains(_ file: StreamKey) -> Bool { self.files[file] != nil }

    mutating func note(_ file: StreamKey, byteCount: Int, sent sentByteCount: Int, _ now: MonotonicTime) {
        var short = self.files[file] ?? Short(since: now, byteCountMin: byteCount, sentByteCount: sentByteCount)
        short.byteCountMin = min(short.byteCountMin, byteCount)
        short.sentByteCount = max(short.sentByteCount, sentByteCount)
        self.files[file] = short
    }

    mutating func note(_ file: StreamKey, _ end: SeenEnd) { self.files[file]?.end = end }

    /// Whether a file had its time to grow back.
    func isOver(_ file: StreamKey, after patience: Duration, _ now: MonotonicTime) -> Bool {
        self.files[file].map { now - $0.since >= patience } ?? false
    }

    /// Whether there is a file about which a look to come decides.
    func isAnyPending(_ now: MonotonicTime) -> Bool {
        self.files.values.contains { now - $0.since < Self.patience + Self.lookPatience }
    }

    mutating func forget(_ file: StreamKey) { self.files[file] = nil }
}

/// The first bytes of a content that one receiver holds in the stream of the file's content before: this one's stream
/// begins with a skip of them there.
struct EarlierBytes: Hashable, Sendable {
    /// The receiver's ordinal (``KnownReceivers``).
    let receiver: Int
    let byteCount: Int
    /// How many of them a fleet has stored: its other receivers begin with a skip of these alone.
    let stored: FleetBytes?

    var text: String {
        "\(self.receiver):\(self.byteCount)" + (self.stored.map { ":\($0.text)" } ?? "")
    }

    init(receiver: Int, byteCount: Int, stored: FleetBytes? = nil) {
        self.receiver = receiver
        self.byteCount = byteCount
        self.stored = stored
    }

    /// Parses one; `nil` for any other text.
    init?(_ text: Substring) {
        let parts = text.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, let receiver = parts[0].asCount, receiver > 0, let byteCount = parts[1].asCount,
            byteCount > 0
        else { return nil }
        var stored: FleetBytes?
        if parts.count == 3 {
            guard let bytes = FleetBytes(parts[2]), bytes.byteCount <= byteCount else { return nil }
            stored = bytes
        }
        self.init(receiver: receiver, byteCount: byteCount, stored: stored)
    }
}
