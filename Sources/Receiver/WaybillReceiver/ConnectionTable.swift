internal import NIOCore

/// Which connections are open, and which one ends for a newcomer.
///
///     silent ──HELLO accepted──▶ identified ──something of it is durable──▶ known
///
/// Silent ones are bounded, by address and together; the one that has been silent longest ends. When all places are
/// taken, silent ones end first, then those of agents that have never delivered anything; known agents stay.
struct ConnectionTable<Key: Hashable> {
    /// What happens to a newcomer.
    enum Arrival: Equatable {
        case admitted
        /// It is admitted, and this one ends.
        case admittedInsteadOf(Key, Limit)
        /// Every place is taken by a known agent.
        case refused
    }

    enum Limit: Hashable {
        /// Silent connections of one address.
        case address
        /// Silent connections.
        case silent
        case connections
    }

    private enum Standing {
        case silent
        case identified
        case known
    }

    private struct Entry {
        let address: String
        var standing: Standing
    }

    /// Connections in the order in which they came to a standing; those that have left it are skipped.
    private struct Order {
        private var keys = CircularBuffer<Key>()
        private(set) var count = 0

        mutating func add(_ key: Key) {
            self.keys.append(key)
            self.count += 1
        }

        mutating func removed(isStale: (Key) -> Bool) {
            self.count -= 1
            if self.keys.count > 2 * self.count + 64 {
                self.keys = CircularBuffer(self.keys.filter { !isStale($0) })
            }
        }

        mutating func first(isStale: (Key) -> Bool) -> Key? {
            while let key = self.keys.first {
                if !isStale(key) { return key }
                self.keys.removeFirst()
            }
            return nil
        }
    }

    private let countMax: Int
    private let silentMax: Int
    private let silentPerAddressMax: Int
    private var entries: [Key: Entry] = [:]
    private var silent = Order()
    private var silentOf: [String: Order] = [:]
    private var identified = Order()

    /// - Parameters:
    ///   - countMax: connections that may be open.
    ///   - silentPerAddressMax: those of one address that have not said `HELLO`.
    init(countMax: Int, silentPerAddressMax: Int) {
        self.countMax = countMax
        self.silentMax = max(1, countMax / 4)
        self.silentPerAddressMax = silentPerAddressMax
    }

    var count: Int { self.entries.count }

    mutating func arrived(_ key: Key, from address: String) -> Arrival {
        var arrival = Arrival.admitted
        if let (victim, limit) = self.victim(for: address) {
            self.left(victim)
            arrival = .admittedInsteadOf(victim, limit)
        } else if self.entries.count >= self.countMax {
            return .refused
        }
        self.entries[key] = Entry(address: address, standing: .silent)
        self.silent.add(key)
        self.silentOf[address, default: Order()].add(key)
        return arrival
    }

    private mutating func victim(for address: String) -> (Key, Limit)? {
        let entries = self.entries
        let isHeard: (Key) -> Bool = { entries[$0]?.standing != .silent }
        if self.silentOf[address]?.count ?? 0 >= self.silentPerAddressMax,
            let key = self.silentOf[address]?.first(isStale: isHeard)
        {
            return (key, .address)
        }
        if self.silent.count >= self.silentMax, let key = self.silent.first(isStale: isHeard) { return (key, .silent) }
        guard self.entries.count >= self.countMax else { return nil }
        if let key = self.silent.first(isStale: isHeard) { return (key, .connections) }
        return self.identified.first { entries[$0]?.standing != .identified }.map { ($0, .connections) }
    }

    /// Its `HELLO` was accepted.
    mutating func identified(_ key: Key) {
        guard let entry = self.entries[key], case .silent = entry.standing else { return }
        self.entries[key]?.standing = .identified
        self.leaveSilent(entry.address)
        self.identified.add(key)
    }

    /// Something that it sent is durable.
    mutating func known(_ key: Key) {
        guard let entry = self.entries[key], case .identified = entry.standing else { return }
        self.entries[key]?.standing = .known
        let entries = self.entries
        self.identified.removed { entries[$0]?.standing != .identified }
    }

    mutating func left(_ key: Key) {
        guard let entry = self.entries.removeValue(forKey: key) else { return }
        switch entry.standing {
        case .silent: self.leaveSilent(entry.address)
        case .identified:
            let entries = self.entries
            self.identified.removed { entries[$0]?.standing != .identified }
        case .known: break
        }
    }

    private mutating func leaveSilent(_ address: String) {
        let entries = self.entries
        self.silent.removed { entries[$0]?.standing != .silent }
        self.silentOf[address]?.removed { entries[$0]?.standing != .silent }
        if self.silentOf[address]?.count == 0 { self.silentOf[address] = nil }
    }
}
