internal import WaybillProtocol

/// Every line that was written at the sources of a fleet, by the number in it.
///
///     {"n":1000001,"f":"…"}
final class FleetLedger {
    private struct Line {
        let bytes: [UInt8]
        /// Which host's file has it, if it is a foreign one.
        let logger: Int?
    }

    private var lines: [Line] = []
    /// Lines that the present fleet must have in the end.
    private(set) var promised: Set<Int> = []
    /// How many times more than once lines may be stored, of which files had copies.
    private var copyCounts: [Int: Int] = [:]
    /// Lines that may be stored as often as they come.
    private var repeatable: Set<Int> = []
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
    /// What agents have sent of each stream to the present fleet: the places of lines, and their numbers.
    private var sent: [StreamID: [Range<UInt64>: Int]] = [:]
    /// The stream in which each line was sent.
    private var streams: [Int: StreamID] = [:]
    /// Streams that had two lines at one offset.
    private var ambiguous: Set<StreamID> = []

    static let firstToken = 1_000_001
    /// The line with which logs begin where they begin alike; it is no promise.
    static let head = Array("{\"n\":1000000,\"f\":\"head\"}\n".utf8)

    var count: Int { self.lines.count }

    /// Makes a line, with its LF; it is promised.
    func makeLine(filledBy byteCount: Int, logger: Int?, isPromised: Bool) -> [UInt8] {
        let token = Self.firstToken + self.lines.count
        let filler = String(repeating: "x", count: byteCount)
        let bytes = Array("{\"n\":\(token),\"f\":\"\(filler)\"}\n".utf8)
        self.lines.append(Line(bytes: bytes, logger: logger))
        if isPromised { self.promised.insert(token) }
        return bytes
    }

    /// The number in a line, if it is one that was written; `nil` for the head of a log.
    enum Finding: Hashable {
        case line(Int)
        case head
        case stranger
    }

    func find(_ line: some Collection<UInt8>) -> Finding {
        if line.elementsEqual(Self.head) { return .head }
        guard let token = Self.token(in: line), self.lines.indices.contains(token - Self.firstToken),
            self.lines[token - Self.firstToken].bytes.elementsEqual(line)
        else { return .stranger }
        return .line(token)
    }

    private static func token(in line: some Collection<UInt8>) -> Int? {
        Int(String(decoding: line.dropFirst(5).prefix(7), as: UTF8.self))
    }

    /// The numbers of the whole lines of some bytes.
    static func tokens(in bytes: some Collection<UInt8>) -> [Int] {
        Self.tokens(of: FileLines.of(bytes))
    }

    static func tokens(of lines: [ArraySlice<UInt8>]) -> [Int] { lines.compactMap { Self.token(in: $0) } }

    func text(_ token: Int) -> String {
        let line = self.lines[token - Self.firstToken]
        return "\(line.bytes.count) bytes, \(line.logger.map { "of logger \($0)" } ?? "of an app")"
    }

    /// Lines that are at no source any more: they are promised only if the bucket has them.
    func cut(_ tokens: [Int], stored: Set<Int>) {
        self.promised.subtract(tokens.filter { !stored.contains($0) })
        self.noteRewritten(tokens)
    }

    /// Each of these lines may be stored once more.
    func allowOnceMore(_ tokens: [Int]) {
        for token in tokens { self.copyCounts[token, default: 0] += 1 }
        self.noteRewritten(tokens)
    }

    /// These lines may be stored as often as they come.
    func allowRepeats(of tokens: [Int]) {
        self.repeatable.formUnion(tokens)
        self.noteRewritten(tokens)
    }

    /// Files with these lines may be taken for others by an agent that remembers nothing.
    private func noteRewritten(_ tokens: [Int]) {
        for token in tokens where token >= Self.firstToken {
            if let logger = self.lines[token - Self.firstToken].logger { self.rewritten.insert(logger) }
        }
    }

    /// Whether a line may be stored so many times.
    func mayBeStored(_ token: Int, times count: Int) -> Bool {
        count <= 1 + (self.copyCounts[token] ?? 0) || self.isRepeatable(token)
    }

    /// The present fleet begins: it must get what the sources have.
    func beginFleet(sources: Set<Int>) {
        self.promised.formIntersection(sources)
        self.sent = [:]
        self.ambiguous = []
    }

    /// Whether a line may be stored as often as it comes.
    private func isRepeatable(_ token: Int) -> Bool {
        if self.repeatable.contains(token) { return true }
        guard let host = self.lines[token - Self.firstToken].logger else {
            // Hosts that were cloned have two lines at one place. If one of them comes again after it was forgotten, it
            // is compared with the other, and kept.
            return self.isForgetful && self.streams[token].map { self.contested.contains($0) } ?? false
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
        !self.contested.isEmpty || self.lines.contains { $0.logger.map { self.isConfused($0) } ?? false }
    }

    // MARK: What was sent

    func sent(_ id: StreamID, at offset: StreamOffset, _ bytes: some Collection<UInt8>) {
        var start = offset.rawValue
        var line: [UInt8] = []
        for byte in bytes {
            line.append(byte)
            guard byte == 0x0A else { continue }
            if let token = Self.token(in: line) {
                self.streams[token] = id
                let place = start..<(start + UInt64(line.count))
                let isOther = self.sent[id, default: [:]].contains {
                    $0.key.overlaps(place) && ($0.key, $0.value) != (place, token)
                }
                if isOther { self.ambiguous.insert(id) }
                self.sent[id, default: [:]][place] = token
            }
            start += UInt64(line.count)
            line = []
        }
    }

    /// The lines that were sent of a stream below an offset; `nil` if two files may have that name.
    func sent(_ id: StreamID, below offset: StreamOffset) -> [Int]? {
        guard !self.contested.contains(id), !self.ambiguous.contains(id) else { return nil }
        return (self.sent[id] ?? [:]).filter { $0.key.lowerBound < offset.rawValue && $0.value >= Self.firstToken }.map(
            \.value)
    }
}
