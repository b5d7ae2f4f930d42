internal import WaybillProtocol
internal import WaybillSystem

/// What the fleet has stored of a file.
struct StoredOffset: Hashable, Sendable {
    /// The fleet's ordinal (``RememberedFleet``).
    let fleet: Int
    /// The number of the content in the stream's id; 0 for a segment.
    let incarnation: Int
    let offset: Int
    /// The proof for the file's bytes below the offset.
    let digest: ProofDigest
    /// The id of the receiver that said so; for people.
    let by: String

    var text: String {
        "\(self.fleet):\(self.incarnation):\(self.offset):\(self.digest.text):\(PercentText.encode(self.by))"
    }

    init(fleet: Int, incarnation: Int, offset: Int, digest: ProofDigest, by: String) {
        self.fleet = fleet
        self.incarnation = incarnation
        self.offset = offset
        self.digest = digest
        self.by = by
    }

    /// Parses one; `nil` for any other text.
    init?(_ text: Substring) {
        let parts = text.split(separator: ":", maxSplits: 4, omittingEmptySubsequences: false)
        guard parts.count == 5, let fleet = parts[0].asCount, fleet > 0, let incarnation = parts[1].asCount,
            let offset = parts[2].asCount, offset > 0, let digest = ProofDigest(parts[3].utf8),
            let by = PercentText.decode(parts[4])
        else { return nil }
        self.init(fleet: fleet, incarnation: incarnation, offset: offset, digest: digest, by: by)
    }
}

/// The one fleet that an agent remembers, what it has stored of each file, and the numbers of contents.
///
/// Offsets name the fleet by an ordinal, so that one record of another fleet makes all of them void.
struct RememberedFleet {
    /// The record's key in the registry, which no stream's id and no receiver has.
    static let key = "@fleet"

    /// 32 hexadecimal digits; `nil` before the first fleet.
    private(set) var id: String?
    private(set) var ordinal = 0
    /// Whether the record in the registry is out of date.
    private(set) var isChanged = false
    /// The id of the present receiver; `nil` if it is not of this fleet.
    var receiver: String?
    /// What is stored of each file.
    var offsets: [StreamKey: StoredOffset] = [:]
    /// What receivers took of each file before they belonged to the fleet.
    var before: [StreamKey: BeforeFleet] = [:]
    /// The numbers of foreign files' contents, which no other fleet makes void.
    var numbers: [StreamKey: ContentNumber] = [:]
    /// Contents whose number is not durable yet.
    var undurable: Set<StreamKey> = []
    /// Contents that are gone, by the file whose next content has no id yet.
    var predecessors: [FileIdentity: [StreamKey]] = [:]
    /// Such contents whose file's next one has an id now.
    var released: [StreamKey] = []
    /// Up to where the last `OPEN` of a stream said that the fleet has it.
    var claims: [StreamKey: Int] = [:]
    /// Streams of which the present receiver holds more than it has said to be stored.
    var awaited: Set<StreamKey> = []
    /// Files of which the present receiver held something before it belonged to the fleet, and has not said what that has.
    var unsaid: Set<StreamKey> = []

    /// - Parameter usedOrdinals: those that offsets in the registry name; none is given to another fleet.
    mutating func restore(_ text: String?, usedOrdinals: some Sequence<Int>) {
        self.ordinal = usedOrdinals.reduce(0, max)
        guard let text, let fields = RegistryEntry.fields(of: text), fields["v"] == "1",
            let ordinal = fields["ordinal"]?.asCount, let id = fields["id"], Incarnation(id.utf8) != nil
        else {
            self.ordinal += 1
            return
        }
        self.id = String(id)
        self.ordinal = ordinal
    }

    /// The record for the registry.
    var text: String? { self.id.map { "v=1 ordinal=\(self.ordinal) id=\($0)" } }

    /// Notes who answers.
    ///
    /// - Returns: whether another fleet was taken: everything that the former had stored is void.
    mutating func meet(_ receiver: String, of fleet: String?) -> Bool {
        self.claims = [:]
        self.awaited = []
        self.unsaid = []
        self.receiver = fleet == nil ? nil : receiver
        guard let fleet, fleet != self.id else { return false }
        self.id = fleet
        self.ordinal += 1
        self.offsets = [:]
        self.before = [:]
        self.isChanged = true
        return true
    }

    mutating func left() {
        self.receiver = nil
        self.claims = [:]
        self.awaited = []
    }

    mutating func forget(_ key: StreamKey) {
        self.offsets[key] = nil
        self.before[key] = nil
        self.numbers[key] = nil
        self.undurable.remove(key)
        self.claims[key] = nil
        self.awaited.remove(key)
        self.unsaid.remove(key)
    }

    /// Adds to an entry of the registry what is remembered of its file.
    func complete(_ entry: inout RegistryEntry, of key: StreamKey) {
        entry.stored = self.offsets[key]
        entry.before = self.before[key]
        entry.number = self.numbers[key]
    }

    /// How many of a content's first bytes the fleet holds in a sealed stream with a lower number.
    func heldByteCount(of number: ContentNumber?) -> Int { number?.held?.byteCount(in: self.ordinal) ?? 0 }

    /// The greatest number under which the fleet may know a file's content.
    func greatestNumber(of key: StreamKey) -> Int {
        max(self.numbers[key]?.number ?? 0, self.offsets[key]?.incarnation ?? 0)
    }

    mutating func written() { self.isChanged = false }
}
