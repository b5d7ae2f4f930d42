internal import WaybillProtocol
internal import WaybillSystem

/// How a receiver that answers compares with what the agent remembers of it.
package enum ReceiverMeeting: Hashable, Sendable {
    /// It still has everything that it acknowledged.
    case known
    /// The agent remembers no receiver of this address and incarnation.
    case unknown
    /// It came back from a copy, or lost the end of its journal.
    case older
}

/// The receivers that an agent remembers, each by the address that was asked for and the incarnation that answered.
///
/// A receiver gets an ordinal when it is first met, and another one when it came back older: an offset names the ordinal
/// of its receiver, so that forgetting a receiver forgets all its offsets in one record.
struct KnownReceivers {
    struct Entry: Hashable {
        let ordinal: Int
        let address: String
        let incarnation: Incarnation
        /// The start of the receiver's process to which ``end`` belongs.
        var start: UInt64
        /// The greatest end of the receiver's journal that came with an answer.
        var end: UInt64
        /// When it was last met, counted in meetings.
        var lastMeeting: Int
        /// Whether it belongs to the fleet, and has said what that has of everything that it held before.
        var isOfFleet = false
    }

    static let countMax = 8

    private(set) var entries: [Entry] = []
    /// The ordinal of the receiver that was met last; `nil` before the first.
    private(set) var current: Int?
    /// The start that the present receiver named.
    private var presentStart: UInt64 = 0
    /// Ordinals whose line in the registry is out of date.
    private(set) var changed: Set<Int> = []
    private var nextOrdinal = 1

    func contains(_ ordinal: Int) -> Bool {
        self.entries.contains { $0.ordinal == ordinal }
    }

    /// The receivers that were met at an address.
    func ordinals(at address: String) -> Set<Int> {
        Set(self.entries.filter { $0.address == address }.map(\.ordinal))
    }

    subscript(ordinal: Int) -> Entry? {
        self.entries.first { $0.ordinal == ordinal }
    }

    /// Adds what the registry has; `nil` entries are left out.
    mutating func restore(_ entries: [Entry], usedOrdinals: some Sequence<Int>) {
        self.entries = entries.sorted { $0.ordinal < $1.ordinal }
        self.current = entries.max { $0.lastMeeting < $1.lastMeeting }?.ordinal
        // An ordinal that offsets still name must not be given to another receiver.
        self.nextOrdinal = (entries.map(\.ordinal) + usedOrdinals).reduce(0, max) + 1
    }

    /// Notes whether the present receiver belongs to the fleet, and has said what that has of everything that it held.
    mutating func settle(ofFleet isOfFleet: Bool) {
        guard let current, let index = self.entries.firstIndex(where: { $0.ordinal == current }),
            self.entries[index].isOfFleet != isOfFleet
        else { return }
        self.entries[index].isOfFleet = isOfFleet
        self.changed.insert(current)
    }

    /// No receiver has said what another fleet has.
    mutating func leaveFleet() {
        for index in self.entries.indices where self.entries[index].isOfFleet {
            self.entries[index].isOfFleet = false
            self.changed.insert(self.entries[index].ordinal)
        }
    }

    /// Receivers that may hold something from before there was a fleet, the one that was met last first; of those that were
    /// met at one address only the last.
    var aloneBefore: [Entry] {
        let entries = self.entries.sorted { $0.lastMeeting > $1.lastMeeting }
        var addresses: Set<String> = []
        return entries.filter { addresses.insert($0.address).inserted && !$0.isOfFleet }
    }

    mutating func meet(_ identity: ReceiverIdentity, at address: String) -> ReceiverMeeting {
        let meeting = (self.entries.map(\.lastMeeting).max() ?? 0) + 1
        self.presentStart = identity.start
        var outcome = ReceiverMeeting.unknown
        if let index = self.entries.firstIndex(where: {
            $0.address == address && $0.incarnation == identity.incarnation
        }) {
            let entry = self.entries[index]
            if identity.holds(start: entry.start, end: entry.end) {
                self.entries[index].lastMeeting = meeting
                self.changed.insert(entry.ordinal)
                self.current = entry.ordinal
                return .known
            }
            self.remove(at: index)
            outcome = .older
        }
        if self.entries.count == Self.countMax,
            let index = self.entries.indices.min(by: { self.entries[$0].lastMeeting < self.entries[$1].lastMeeting })
        {
            self.remove(at: index)
        }
        let entry = Entry(
            ordinal: self.nextOrdinal, address: address, incarnation: identity.incarnation, start: identity.start,
            end: identity.end, lastMeeting: meeting)
        self.nextOrdinal += 1
        self.entries.append(entry)
        self.changed.insert(entry.ordinal)
        self.current = entry.ordinal
        return outcome
    }

    private mutating func remove(at index: Int) {
        self.changed.insert(self.entries[index].ordinal)
        self.entries.remove(at: index)
    }

    /// Takes the journal's end from an answer of the present receiver.
    mutating func answered(end: UInt64) {
        guard let current, let index = self.entries.firstIndex(where: { $0.ordinal == current }) else { return }
        let entry = self.entries[index]
        if entry.start != self.presentStart {
            self.entries[index].start = self.presentStart
            self.entries[index].end = end
        } else {
            guard end > entry.end else { return }
            self.entries[index].end = end
        }
        self.changed.insert(current)
    }

    mutating func written() {
        self.changed.removeAll()
    }
}

extension KnownReceivers.Entry {
    /// Begins the keys of receivers, which no stream's id does.
    static let keyPrefix: Character = "@"

    static func key(_ ordinal: Int) -> String { "\(self.keyPrefix)\(ordinal)" }

    var text: String {
        "v=1 address=\(PercentText.encode(self.address)) incarnation=\(self.incarnation.text)"
            + " start=\(Hexadecimal.text(self.start, digitCount: 16)) end=\(self.end) met=\(self.lastMeeting)"
            + (self.isOfFleet ? " fleet=1" : "")
    }

    /// Parses an entry; `nil` if a field is missing or out of range.
    init?(_ text: String, key: String) {
        guard let fields = RegistryEntry.fields(of: text), fields["v"] == "1",
            let ordinal = key.dropFirst().asCount,
            let address = fields["address"].flatMap({ PercentText.decode($0) }),
            let incarnation = fields["incarnation"].flatMap({ Incarnation($0.utf8) }),
            let start = fields["start"]?.asHexadecimal, let end = fields["end"]?.asCount,
            let meeting = fields["met"]?.asCount
        else { return nil }
        self.init(
            ordinal: ordinal, address: address, incarnation: incarnation, start: start, end: UInt64(end),
            lastMeeting: meeting, isOfFleet: fields["fleet"] == "1")
    }
}
