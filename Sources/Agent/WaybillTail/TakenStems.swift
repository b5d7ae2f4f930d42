internal import WaybillSystem

/// Stems that left their inode with a content (``FileStem``): a new file there must not get the ids of that content.
///
/// Each is a record of the registry, until the content is gone and ``age`` is over.
struct TakenStems {
    /// Begins the records' keys, which no stream's id does.
    static let keyPrefix: Character = "#"
    /// How long a stem stays taken after its content is gone: receivers know the streams for so long.
    static let age = Duration.seconds(7 * 86_400)

    struct Record: Hashable {
        /// The first number that a new file may have with this stem and head.
        var next: Int
        /// When the content that took it was gone; `nil` while it is there.
        var gone: WallTime?

        var text: String { "v=1 next=\(self.next) gone=\(self.gone?.milliseconds ?? 0)" }

        init(next: Int, gone: WallTime?) {
            self.next = next
            self.gone = gone
        }

        /// Parses one; `nil` for any other text.
        init?(_ text: String) {
            guard let fields = RegistryEntry.fields(of: text), fields["v"] == "1", let next = fields["next"]?.asCount,
                let gone = fields["gone"]?.asCount
            else { return nil }
            self.init(next: next, gone: gone == 0 ? nil : WallTime(milliseconds: Int64(gone)))
        }
    }

    private var records: [String: Record] = [:]
    /// Keys whose line in the registry is out of date.
    private(set) var changed: Set<String> = []

    static func key(_ stem: FileStem, _ head: Fingerprint) -> String {
        "\(self.keyPrefix)\(stem.text)-\(Hexadecimal.text(head.hash, digitCount: 16))"
    }

    subscript(key: String) -> Record? { self.records[key] }

    /// All, in a fixed order.
    var sorted: [(key: String, record: Record)] {
        self.records.sorted { $0.key < $1.key }.map { (key: $0.key, record: $0.value) }
    }

    mutating func restore(_ record: Record, of key: String) { self.records[key] = record }

    /// Takes a stem for a content, or says that this is gone.
    ///
    /// - Parameter countMax: of more, those whose content went first are dropped.
    mutating func set(_ record: Record, of key: String, countMax: Int) {
        guard self.records[key] != record else { return }
        self.records[key] = record
        self.changed.insert(key)
        guard self.records.count > countMax,
            let oldest = self.records.min(by: { ($0.value.gone ?? .max, $0.key) < ($1.value.gone ?? .max, $1.key) })
        else { return }
        self.remove(oldest.key)
    }

    /// Gives free those whose content is gone for long enough.
    mutating func expire(_ now: WallTime) {
        for (key, record) in self.records {
            guard let gone = record.gone,
                now.milliseconds.saturatingSum(-gone.milliseconds) >= Self.age.nanoseconds / 1_000_000
            else { continue }
            self.remove(key)
        }
    }

    private mutating func remove(_ key: String) {
        self.records[key] = nil
        self.changed.insert(key)
    }

    mutating func written() { self.changed.removeAll() }
}

extension WallTime {
    fileprivate static var max: WallTime { WallTime(milliseconds: .max) }
}

/// Which stems are taken, and what numbers that leaves to others.
extension Tail {
    /// Keeps the stem of a content that leaves its inode from being given to a new file there.
    mutating func takeStem(of key: StreamKey) {
        let file = self.table[key]
        guard let head = file.fingerprint else { return }
        let next = self.greatestNumber(of: key) + 1
        self.successions.stems.set(
            TakenStems.Record(next: next, gone: nil), of: TakenStems.key(file.stem, head),
            countMax: self.limits.takenStemCountMax)
    }

    /// Notes that a content is gone whose stem is taken, or may be another file's: without births, one that is made in its
    /// inode has its ids, and a fleet's receivers do not know each other's.
    mutating func leaveStem(of key: StreamKey) {
        let file = self.table[key]
        guard let head = file.fingerprint else { return }
        let stem = TakenStems.key(file.stem, head)
        let record = self.successions.stems[stem]
        let isReusable = file.birth == 0 && self.rememberedFleet.numbers[key] != nil
        guard record.map({ $0.gone == nil }) ?? false || isReusable else { return }
        let next = max(record?.next ?? 0, self.greatestNumber(of: key) + 1)
        self.successions.stems.set(
            TakenStems.Record(next: next, gone: self.looks.time.wall), of: stem,
            countMax: self.limits.takenStemCountMax)
    }

    /// The first number that a new file may have with its stem, if another content has taken that.
    func numberAfterTaken(_ key: StreamKey, _ head: Fingerprint) -> Int? {
        let stem = self.table[key].stem
        guard let record = self.successions.stems[TakenStems.key(stem, head)] else { return nil }
        var next = record.next
        for other in self.table.keys where other != key && self.table[other].fingerprint == head {
            if self.table[other].stem == stem { next = max(next, self.greatestNumber(of: other) + 1) }
        }
        return next
    }

    /// Asks a receiver that holds nothing of a file from its own number on: those before are of the content that was in
    /// its inode, and continues elsewhere with the same first bytes.
    mutating func passTakenNumbers(_ key: StreamKey) {
        let file = self.table[key]
        guard !file.isSegment, file.receiver == 0, file.walk == nil, !file.hasFormerStem, let head = file.fingerprint,
            self.successions.stems[TakenStems.key(file.stem, head)] != nil
        else { return }
        self.table[key].walk = IncarnationWalk(next: file.incarnation)
    }

    /// The greatest number of a content, in the registry and at receivers.
    func greatestNumber(of key: StreamKey) -> Int {
        let file = self.table[key]
        let known = max(file.incarnation, file.streamIncarnation, self.rememberedFleet.greatestNumber(of: key))
        return file.others.reduce(known) { max($0, $1.incarnation) }
    }
}
