internal import WaybillSystem
internal import WaybillProtocol

/// What the merged journal has of each stream.
///
/// A stream that is sealed and whole is a digest and a length; the others are ranges. Both go into the merger's state as
/// they change:
///
///     stream/<principal>/<id>      ranges ; skipped ranges ; length once sealed         0-512,1024-2048;512-600;4096
///     whole/<32 digits>            4096
///     before/<principal>/<id>      where the stream stood when its receiver joined      4096
///     told/<principal>/<id>        what receivers were told that others have, and is not there     0-512@collector-1
struct MergedStreams {
    struct Stream: Hashable {
        var ranges = OffsetRanges()
        /// What an agent said that no one will send; bytes of another receiver still count.
        var skipped = OffsetRanges()
        /// The length, once a receiver sealed it.
        var length: UInt64?

        /// Whether the bytes below its length are all that is there.
        ///
        /// One receiver may seal a stream below what another one has of it: a log of which it had less was deleted, or its
        /// host was cloned. What is after the length must not be forgotten: it would be merged again when it comes again.
        var isWhole: Bool {
            guard let length else { return false }
            return length == 0 ? self.ranges.ranges.isEmpty : self.ranges.ranges == [0..<length]
        }

        var text: String {
            "\(self.ranges);\(self.skipped);\(self.length.map(String.init) ?? "")"
        }

        init() {}

        init?(_ text: String) {
            let parts = text.split(separator: ";", omittingEmptySubsequences: false)
            guard parts.count == 3, let ranges = OffsetRanges(parts[0]), let skipped = OffsetRanges(parts[1]),
                parts[2].isEmpty || UInt64(parts[2]) != nil
            else { return nil }
            self.ranges = ranges
            self.skipped = skipped
            self.length = UInt64(parts[2])
        }
    }

    /// Of principal, LF and id.
    private static func digest(of name: StreamName) -> ProofDigest {
        ProofDigest(SHA256.digest(Array("\(name.principal)\n\(name.id.text)".utf8)))
    }

    private(set) var open: [StreamName: Stream] = [:]
    /// What receivers were told that others have, and is not there yet.
    private(set) var told: [StreamName: ToldRanges] = [:]
    /// Where streams stood when their receiver joined the fleet, or when they got another owner: what is before is in the
    /// receiver's own archive, or in the former owner's stream.
    private(set) var before: [StreamName: UInt64] = [:]
    private var whole: [ProofDigest: UInt64] = [:]
    /// Streams that changed since the last ``takeChanges(_:)``.
    private var changed: Set<StreamName> = []

    /// How many streams are sealed and whole.
    var wholeCount: Int { self.whole.count }

    /// Reads an entry of the state; `false` if it is none of a stream.
    mutating func restore(_ key: String, _ value: String) -> Bool {
        if key.hasPrefix("whole/") {
            guard let name = ProofDigest(key.utf8.dropFirst(6)), let length = UInt64(value) else { return false }
            self.whole[name] = length
            return true
        }
        if key.hasPrefix("before/") {
            guard let name = Self.name(in: key.dropFirst(7)), let offset = UInt64(value) else { return false }
            self.before[name] = offset
            return true
        }
        if key.hasPrefix("told/") {
            guard let name = Self.name(in: key.dropFirst(5)), let told = ToldRanges(value) else { return false }
            self.told[name] = told
            return true
        }
        guard key.hasPrefix("stream/"), let name = Self.name(in: key.dropFirst(7)), let stream = Stream(value) else {
            return false
        }
        self.open[name] = stream
        return true
    }

    private static func name(in key: Substring) -> StreamName? {
        guard let slash = key.utf8.lastIndex(of: UInt8(ascii: "/")),
            let id = StreamID(String(key[key.index(after: slash)...])),
            let principal = PercentText.decode(key[..<slash])
        else { return nil }
        return StreamName(principal: principal, id: id)
    }

    /// What is there of a range.
    enum Standing: Hashable {
        case absent
        case partial
        case present
    }

    func standing(of range: Range<UInt64>, in name: StreamName) -> Standing {
        if let stream = self.open[name] {
            if stream.ranges.contains(range) { return .present }
            return stream.ranges.isDisjoint(with: range) ? .absent : .partial
        }
        guard let length = self.wholeLength(of: name) else { return .absent }
        if range.upperBound <= length { return .present }
        return range.lowerBound >= length ? .absent : .partial
    }

    /// Whether none of a range is there.
    func lacks(_ range: Range<UInt64>, of name: StreamName) -> Bool {
        self.standing(of: range, in: name) == .absent
    }

    func wholeLength(of name: StreamName) -> UInt64? {
        self.whole.isEmpty ? nil : self.whole[Self.digest(of: name)]
    }

    mutating func add(_ range: Range<UInt64>, to name: StreamName) {
        self.change(name) { $0.ranges.insert(range) }
    }

    /// - Returns: whether neither these bytes nor the skip were known.
    mutating func skip(_ range: Range<UInt64>, of name: StreamName) -> Bool {
        guard self.lacks(range, of: name), self.open[name]?.skipped.contains(range) != true else { return false }
        self.change(name) { $0.skipped.insert(range) }
        return true
    }

    /// Remembers that a receiver was told that the fleet has a range, or `holder` from before the fleet, unless it is there.
    mutating func tell(
        _ range: Range<UInt64>, of name: StreamName, to receiver: String, holder: String? = nil
    ) {
        guard !range.isEmpty, self.standing(of: range, in: name) != .present else { return }
        let former = self.told[name] ?? ToldRanges()
        var told = former
        told.add(range, receiver, holder: holder)
        guard told != former else { return }
        self.told[name] = told
        self.changed.insert(name)
    }

    /// Whether pieces have spoken of a range: as being there, as skipped, or, to this receiver, as being elsewhere.
    func isHeard(_ range: Range<UInt64>, of name: StreamName, from receiver: String) -> Bool {
        if !self.lacks(range, of: name) || self.open[name]?.skipped.isDisjoint(with: range) == false { return true }
        return self.told[name]?.entries.contains { $0.receiver == receiver && $0.range.overlaps(range) } ?? false
    }

    /// A receiver has a stream from an offset on: what is before, its own archive has, or another owner's stream.
    mutating func join(_ name: StreamName, at offset: UInt64) {
        guard offset > self.before[name] ?? 0, self.standing(of: 0..<offset, in: name) != .present else { return }
        self.before[name] = offset
        self.changed.insert(name)
    }

    /// - Returns: whether the seal is news.
    mutating func seal(_ name: StreamName, at length: UInt64) -> Bool {
        if let known = self.open[name]?.length ?? self.wholeLength(of: name), known >= length { return false }
        self.change(name) { $0.length = length }
        return true
    }

    private mutating func change(_ name: StreamName, _ body: (inout Stream) -> Void) {
        var stream = self.open.removeValue(forKey: name) ?? Stream()
        if stream == Stream(), let length = self.wholeLength(of: name) {
            stream.ranges.insert(0..<length)
            stream.length = length
        }
        body(&stream)
        self.open[name] = stream
        self.changed.insert(name)
    }

    /// Adds what changed to a commit of the state.
    mutating func takeChanges(_ lines: inout StateLines) {
        for name in self.changed.sorted() {
            self.takeTold(of: name, &lines)
            if let offset = self.before[name] { lines.set(Self.beforeKey(of: name), String(offset)) }
            guard let stream = self.open[name] else { continue }
            let key = Self.key(of: name)
            if stream.isWhole, let length = stream.length {
                self.open[name] = nil
                let whole = Self.digest(of: name)
                self.whole[whole] = length
                lines.remove(key)
                lines.set("whole/" + whole.text, String(length))
            } else {
                lines.set(key, stream.text)
            }
        }
        self.changed = []
    }

    private mutating func takeTold(of name: StreamName, _ lines: inout StateLines) {
        guard var told = self.told[name] else { return }
        let skipped = self.open[name]?.skipped
        told.remove { range in
            self.standing(of: range, in: name) == .present || skipped?.contains(range) == true
        }
        self.told[name] = told.isEmpty ? nil : told
        let key = Self.toldKey(of: name)
        if told.isEmpty { lines.remove(key) } else { lines.set(key, told.text) }
    }

    /// Adds all of it to a rewrite of the state, in parts.
    func forEachPart<Failure: Error>(_ body: (StateLines) throws(Failure) -> Void) throws(Failure) {
        var lines = StateLines()
        func set(_ key: String, _ text: String) throws(Failure) {
            lines.set(key, text)
            guard lines.count >= 4096 else { return }
            try body(lines)
            lines = StateLines()
        }
        for (name, stream) in self.open { try set(Self.key(of: name), stream.text) }
        for (name, offset) in self.before { try set(Self.beforeKey(of: name), String(offset)) }
        for (name, told) in self.told { try set(Self.toldKey(of: name), told.text) }
        for (key, length) in self.whole { try set("whole/" + key.text, String(length)) }
        try body(lines)
    }

    private static func key(of name: StreamName) -> String {
        "stream/\(PercentText.encode(name.principal))/\(name.id.text)"
    }

    private static func beforeKey(of name: StreamName) -> String {
        "before/\(PercentText.encode(name.principal))/\(name.id.text)"
    }

    private static func toldKey(of name: StreamName) -> String {
        "told/\(PercentText.encode(name.principal))/\(name.id.text)"
    }
}
