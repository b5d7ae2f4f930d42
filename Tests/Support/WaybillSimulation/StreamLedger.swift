internal import WaybillProtocol

/// Which lines agents of a fleet have sent in which streams, and what may have two contents under one name.
///
/// Lines go by their numbers in a ``PromiseLedger``.
final class StreamLedger {
    private let lines: PromiseLedger
    /// Streams of two hosts under one name.
    var contested: Set<StreamID> = []
    /// Hosts whose log was cut, or replaced by one that begins alike.
    var rewritten: Set<Int> = []
    /// Whether mergers compare with few batches.
    var isForgetful = false
    /// Hosts whose agent has lost its registry.
    var unregistered: Set<Int> = []
    /// Hosts that were copied with their agent's registry.
    var cloned: Set<Int> = []
    /// Which host's log has a line.
    private var hosts: [Int: Int] = [:]
    /// What agents have sent of each stream to the present fleet: the places of lines, and their numbers.
    private var sent: [StreamID: [Range<UInt64>: Int]] = [:]
    /// The stream in which each line was sent.
    private var streams: [Int: StreamID] = [:]
    /// Streams that had two lines at one offset.
    private var ambiguous: Set<StreamID> = []

    /// The number of the line with which logs begin where they begin alike; it is not promised.
    private static let head = -1

    init(_ lines: PromiseLedger) {
        self.lines = lines
    }

    /// A line is in a log of a host.
    func wrote(_ line: ArraySlice<UInt8>, on host: Int) {
        if let number = self.lines.number(of: line) { self.hosts[number] = host }
    }

    /// Files with these lines may be taken for others by an agent that remembers nothing.
    func noteRewritten(_ lines: [ArraySlice<UInt8>]) {
        self.rewritten.formUnion(lines.compactMap { self.lines.number(of: $0).flatMap { self.hosts[$0] } })
    }

    /// The present fleet begins.
    func beginFleet() {
        self.sent = [:]
        self.ambiguous = []
    }

    /// Whether a line may be stored as often as it comes.
    func mayRepeat(_ line: ArraySlice<UInt8>) -> Bool {
        guard let number = self.lines.number(of: line) else { return false }
        guard let host = self.hosts[number] else {
            // Hosts that were cloned have two lines at one place. If one of them comes again after it was forgotten, it
            // is compared with the other, and kept.
            return self.isForgetful && self.streams[number].map { self.contested.contains($0) } ?? false
        }
        return self.isConfused(host)
    }

    /// Whether a host's log was cut, or is one of several that begin alike, and what its agent knew of it is gone; or the
    /// host was cloned: the clone seals the log, which it does not have, at one receiver, while the host continues with it
    /// at another; where it is sealed it needs the next name.
    private func isConfused(_ host: Int) -> Bool {
        self.cloned.contains(host) || self.rewritten.contains(host) && self.unregistered.contains(host)
    }

    /// Whether two sources may have other bytes under one name.
    var mayConflict: Bool {
        !self.contested.isEmpty || self.hosts.values.contains { self.isConfused($0) }
    }

    // MARK: What was sent

    func sent(_ id: StreamID, at offset: StreamOffset, _ bytes: some Collection<UInt8>) {
        var start = offset.rawValue
        var line: [UInt8] = []
        for byte in bytes {
            guard byte == 0x0A else {
                line.append(byte)
                continue
            }
            let end = start + UInt64(line.count) + 1
            let isHead = self.lines.isIgnored(line[...])
            if let number = isHead ? Self.head : self.lines.number(of: line[...]) {
                self.streams[number] = id
                let isOther = self.sent[id, default: [:]].contains {
                    $0.key.overlaps(start..<end) && ($0.key, $0.value) != (start..<end, number)
                }
                if isOther { self.ambiguous.insert(id) }
                self.sent[id, default: [:]][start..<end] = number
            }
            start = end
            line = []
        }
    }

    /// The lines that were sent of a stream below an offset; `nil` if two files may have that name.
    func sent(_ id: StreamID, below offset: StreamOffset) -> [Int]? {
        guard !self.contested.contains(id), !self.ambiguous.contains(id) else { return nil }
        return (self.sent[id] ?? [:]).filter { $0.key.lowerBound < offset.rawValue && $0.value != Self.head }.map(
            \.value)
    }
}
