/// Every line that was written at a source, and what must become of it: the memory against which a life is judged.
final class PromiseLedger {
    private struct Line {
        let bytes: ArraySlice<UInt8>
        /// Whether it must arrive; otherwise it may, once.
        var isPromised: Bool
        /// Whether it was written for good at its source.
        let isWritten: Bool
        /// The honest receivers that have acknowledged it and still hold it.
        var holders: Set<Int> = []
        var isAcknowledged: Bool { !self.holders.isEmpty }
        /// Whether it was in a file that was cut or deleted, known to the agent, before the line was acknowledged.
        var isCutAway = false
    }

    private var lines: [Line] = []
    private var indices: [ArraySlice<UInt8>: Int] = [:]
    /// Lines that a power cut left at a source instead of others; they may arrive.
    private var strays: Set<ArraySlice<UInt8>> = []
    /// Lines that many files have.
    private var ignored: Set<ArraySlice<UInt8>> = []
    /// Lines that may be stored several times.
    private var repeatable: Set<ArraySlice<UInt8>> = []
    /// How many times more than once lines may be stored, of which files had copies.
    private var copyCounts: [ArraySlice<UInt8>: Int] = [:]
    private var found: Set<Int> = []
    /// Whether anything was cut away before it was acknowledged.
    private(set) var hasCutAway = false
    /// Promised lines that no receiver has acknowledged.
    private(set) var openCount = 0

    var count: Int { self.lines.count }

    /// A line is at a source for good: it must arrive exactly once.
    func promise(_ bytes: ArraySlice<UInt8>) {
        self.add(bytes, isPromised: true)
    }

    /// The process died while it wrote the line, or no one will read its end: it may arrive, at most once.
    func allow(_ bytes: ArraySlice<UInt8>) {
        self.add(bytes, isPromised: false)
    }

    /// The line may be stored as often as it comes.
    func ignore(_ bytes: ArraySlice<UInt8>) {
        self.ignored.insert(bytes)
    }

    /// The lines are shipped again on purpose.
    func allowRepeats(of lines: some Sequence<ArraySlice<UInt8>>) {
        self.repeatable.formUnion(lines)
    }

    /// Another file has these lines too, or it cannot be seen that they were shipped: each may be stored once more.
    func allowCopy(of lines: some Sequence<ArraySlice<UInt8>>) {
        for line in lines { self.copyCounts[line, default: 0] += 1 }
    }

    func isIgnored(_ bytes: ArraySlice<UInt8>) -> Bool { self.ignored.contains(bytes) }

    func isAcknowledged(_ bytes: ArraySlice<UInt8>) -> Bool {
        self.indices[bytes].map { self.lines[$0].isAcknowledged } ?? false
    }

    /// Whether the line was written for good at a source.
    func isWritten(_ bytes: ArraySlice<UInt8>) -> Bool {
        self.indices[bytes].map { self.lines[$0].isWritten } ?? false
    }

    /// The number of a line, in the order in which they were written; `nil` for what was never written.
    func number(of bytes: ArraySlice<UInt8>) -> Int? { self.indices[bytes] }

    func numbers(in bytes: some Collection<UInt8>) -> [Int] {
        FileLines.of(bytes).compactMap { self.indices[$0] }
    }

    /// The lines that must arrive.
    var promised: [Int] { self.lines.indices.filter { self.lines[$0].isPromised } }

    func text(_ number: Int) -> String { Self.text(self.lines[number].bytes) }

    private func add(_ bytes: ArraySlice<UInt8>, isPromised: Bool) {
        // A full disk may have taken such a line without its LF, as the last half line of a file.
        guard self.indices[bytes] == nil, !self.ignored.contains(bytes) else { return }
        guard bytes.first != 0 else { return self.addStray(bytes) }
        self.indices[bytes] = self.lines.count
        self.lines.append(Line(bytes: bytes, isPromised: isPromised, isWritten: isPromised))
        if isPromised { self.openCount += 1 }
    }

    /// A line that a power cut left at a source; NULs before it are skipped as a hole, or come with it.
    private func addStray(_ bytes: ArraySlice<UInt8>) {
        self.strays.formUnion([bytes, bytes.drop { $0 == 0 }])
    }

    /// - Parameter holder: the receiver's number.
    func acknowledge(_ bytes: ArraySlice<UInt8>, by holder: Int) {
        guard let index = self.indices[bytes] else { return }
        let wasAcknowledged = self.lines[index].isAcknowledged
        self.lines[index].holders.insert(holder)
        guard !wasAcknowledged else { return }
        if self.lines[index].isPromised { self.openCount -= 1 } else { self.lines[index].isPromised = true }
    }

    /// A receiver lost data, and holds these lines now.
    ///
    /// - Parameter sources: the lines that files at the sources still have: these must arrive again.
    func recount(_ held: Set<ArraySlice<UInt8>>, by holder: Int, sources: Set<ArraySlice<UInt8>>) {
        for index in self.lines.indices {
            if held.contains(self.lines[index].bytes) {
                self.acknowledge(self.lines[index].bytes, by: holder)
            } else if self.lines[index].holders.remove(holder) != nil, !self.lines[index].isAcknowledged {
                self.lines[index].isPromised =
                    self.lines[index].isWritten && sources.contains(self.lines[index].bytes)
                if self.lines[index].isPromised { self.openCount += 1 }
            }
        }
    }

    /// Whether a line must be stored, and this receiver has not acknowledged it.
    func isOwed(_ bytes: ArraySlice<UInt8>, by holder: Int) -> Bool {
        guard let index = self.indices[bytes] else { return false }
        return self.lines[index].isPromised && !self.lines[index].holders.contains(holder)
    }

    /// Lines that no file holds any more, or that wait for their owner: they are not promised unless a receiver has
    /// them.
    func excuse(_ lines: some Sequence<ArraySlice<UInt8>>) {
        for bytes in lines { if let index = self.indices[bytes] { self.release(index) } }
    }

    /// The power of the sources' machine failed; a file of it holds these lines now, and a last one without LF.
    func find(_ lines: some Sequence<ArraySlice<UInt8>>, ending: ArraySlice<UInt8>) {
        for bytes in lines {
            if let index = self.indices[bytes] {
                self.found.insert(index)
            } else {
                self.addStray(bytes)
            }
        }
        if self.indices[ending] == nil { self.addStray(ending) }
    }

    /// What no file holds any more is not promised any more.
    func keepFound() {
        for index in self.lines.indices where !self.found.contains(index) { self.release(index) }
        self.found = []
    }

    /// A file was cut or deleted at its source.
    func cutAway(_ bytes: ArraySlice<UInt8>, isKnown: Bool) {
        guard let index = self.indices[bytes], self.release(index) else { return }
        self.lines[index].isCutAway = isKnown
        if isKnown { self.hasCutAway = true }
    }

    @discardableResult
    private func release(_ index: Int) -> Bool {
        guard self.lines[index].isPromised, !self.lines[index].isAcknowledged else { return false }
        self.lines[index].isPromised = false
        self.openCount -= 1
        return true
    }

    /// The first promised line that no receiver has acknowledged.
    var firstOpen: String? {
        self.lines.first { $0.isPromised && !$0.isAcknowledged }.map { Self.text($0.bytes) }
    }

    /// Compares with what the receivers stored.
    ///
    /// - Parameters:
    ///   - stored: for each receiver every line of archive and quarantine, with how often it is there.
    ///   - repeating: the receivers that may have a line several times.
    ///   - mayRepeat: whether a line may be there several times.
    ///   - mayMiss: whether lines may be missing.
    ///   - isFinal: whether lines that no receiver has acknowledged must be there, too.
    /// - Returns: what is wrong; `nil` when all is well.
    func problem(
        stored: [[ArraySlice<UInt8>: Int]], repeating: Set<Int> = [],
        mayRepeat: (ArraySlice<UInt8>) -> Bool = { _ in false }, mayMiss: Bool, isFinal: Bool = true
    ) -> String? {
        for line in self.lines {
            let counts = stored.map { $0[line.bytes] ?? 0 }
            let most = 1 + (self.copyCounts[line.bytes] ?? 0)
            let repeated = counts.indices.first { counts[$0] > most && !repeating.contains($0) }
            if let repeated, !self.repeatable.contains(line.bytes), !mayRepeat(line.bytes) {
                return "stored \(counts[repeated]) times: \(Self.text(line.bytes))"
            }
            if line.isPromised, isFinal || line.isAcknowledged, !mayMiss, counts.allSatisfy({ $0 == 0 }) {
                let how = line.isAcknowledged ? "acknowledged" : "written"
                return "\(how), but stored nowhere: \(Self.text(line.bytes))"
            }
        }
        for lines in stored {
            let unknown = lines.keys.filter { self.indices[$0] == nil && !self.strays.union(self.ignored).contains($0) }
            if let line = unknown.min(by: { $0.lexicographicallyPrecedes($1) }) {
                return "stored, but never written: \(Self.text(line))"
            }
        }
        return nil
    }

    /// How many lines went with a file that was cut or deleted, and that the agent knew.
    func lostCount(stored: [[ArraySlice<UInt8>: Int]]) -> Int {
        self.lines.count { line in line.isCutAway && !stored.contains { $0[line.bytes] != nil } }
    }

    static func text(_ bytes: ArraySlice<UInt8>) -> String {
        String(decoding: bytes.prefix(160).map { (0x20..<0x7F).contains($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
            + (bytes.count > 160 ? "… \(bytes.count) bytes" : "")
    }
}
