/// How many connections may be open.
package struct ConnectionLimits: Equatable, Sendable {
    package let countMax: Int
    /// Silent ones together.
    package let silentCountMax: Int
    /// Of one group: an address or a network.
    package let groupCountMax: Int

    package init(countMax: Int, silentCountMax: Int = .max, groupCountMax: Int = .max) {
        self.countMax = countMax
        self.silentCountMax = silentCountMax
        self.groupCountMax = groupCountMax
    }
}

/// The limit for which a connection ends; the set is closed.
package enum ConnectionLimit: Hashable, Sendable {
    /// Connections of one group.
    case group
    /// Silent connections.
    case silent
    /// Connections.
    case all
}

/// Which connections are open, and which one ends for a newcomer: the one that has been silent longest.
///
///     silent ──asked──▶ busy ──rested──▶ silent                                         of who sends requests
///     silent ──identified──▶ identified, in no group ──known──▶ known                   of an agent
///
/// For one more than a group may have, a silent one of the group ends; for one more than all may have, a silent one, and if
/// there is none, one that was only identified. Busy and known ones stay, and then the newcomer is refused.
///
/// Each call takes constant time in the mean. An order has at most twice as many entries as connections, and eight.
package struct ConnectionTable<Key: Hashable> {
    /// What happens to a newcomer.
    package enum Arrival: Equatable {
        case admitted
        /// It is admitted, and this one ends.
        case admittedInsteadOf(Key, ConnectionLimit)
        /// None of those that could end for it may.
        case refused
    }

    private enum Standing {
        case silent
        case identified
        /// Busy or known.
        case kept
    }

    private struct Entry {
        let group: String?
        let standing: Standing
        /// Grows with each change of a standing.
        let turn: Int
    }

    /// Connections in the order in which they came to a standing; those that have left it are skipped.
    private struct Order {
        typealias Place = (key: Key, turn: Int)

        private var places: [Place] = []
        private var start = 0
        /// Of connections that have not left it.
        var count = 0

        mutating func append(_ place: Place, of entries: [Key: Entry]) {
            self.places.append(place)
            self.count += 1
            guard self.places.count > 2 * self.count + 8 else { return }
            self.places = self.places[self.start...].filter { entries[$0.key]?.turn == $0.turn }
            self.start = 0
        }

        mutating func first(of entries: [Key: Entry]) -> Key? {
            while self.start < self.places.count {
                let place = self.places[self.start]
                if entries[place.key]?.turn == place.turn { return place.key }
                self.start += 1
            }
            return nil
        }
    }

    private struct Members {
        var count = 0
        var silent = Order()
    }

    private var entries: [Key: Entry] = [:]
    private var turn = 0
    private var silent = Order()
    private var identified = Order()
    private var groups: [String: Members] = [:]

    package init() {}

    package var count: Int { self.entries.count }

    /// - Parameter group: `nil`: it counts for none.
    package mutating func arrived(_ key: Key, of group: String?, _ limits: ConnectionLimits) -> Arrival {
        var arrival = Arrival.admitted
        if let limit = self.reached(limits, group) {
            guard let victim = self.victim(for: limit, group) else { return .refused }
            self.left(victim)
            arrival = .admittedInsteadOf(victim, limit)
        }
        if let group { self.groups[group, default: Members()].count += 1 }
        self.enter(key, group, .silent)
        return arrival
    }

    private func reached(_ limits: ConnectionLimits, _ group: String?) -> ConnectionLimit? {
        if let group, self.groups[group]?.count ?? 0 >= limits.groupCountMax { return .group }
        if self.silent.count >= limits.silentCountMax { return .silent }
        return self.entries.count >= limits.countMax ? .all : nil
    }

    private mutating func victim(for limit: ConnectionLimit, _ group: String?) -> Key? {
        switch limit {
        case .group: group.flatMap { self.groups[$0]?.silent.first(of: self.entries) }
        case .silent: self.silent.first(of: self.entries)
        case .all: self.silent.first(of: self.entries) ?? self.identified.first(of: self.entries)
        }
    }

    /// Ends the connection that has been silent longest.
    ///
    /// - Returns: `nil` if none is silent.
    package mutating func endSilent() -> Key? {
        let victim = self.silent.first(of: self.entries)
        if let victim { self.left(victim) }
        return victim
    }

    /// It waits for an answer.
    package mutating func asked(_ key: Key) {
        guard let entry = self.leave(key) else { return }
        self.enter(key, entry.group, .kept)
    }

    /// It has its answer, and may ask again.
    package mutating func rested(_ key: Key) {
        guard let entry = self.leave(key) else { return }
        self.enter(key, entry.group, .silent)
    }

    /// It is silent, and has said who it is.
    package mutating func identified(_ key: Key) {
        guard case .silent = self.entries[key]?.standing, let entry = self.leave(key) else { return }
        self.leave(entry.group)
        self.enter(key, nil, .identified)
    }

    /// It is identified, and something that it sent is durable.
    package mutating func known(_ key: Key) {
        guard case .identified = self.entries[key]?.standing, self.leave(key) != nil else { return }
        self.enter(key, nil, .kept)
    }

    package mutating func left(_ key: Key) {
        guard let entry = self.leave(key) else { return }
        self.entries[key] = nil
        self.leave(entry.group)
    }

    private mutating func enter(_ key: Key, _ group: String?, _ standing: Standing) {
        self.turn += 1
        self.entries[key] = Entry(group: group, standing: standing, turn: self.turn)
        switch standing {
        case .silent:
            self.silent.append((key, self.turn), of: self.entries)
            if let group { self.groups[group]?.silent.append((key, self.turn), of: self.entries) }
        case .identified: self.identified.append((key, self.turn), of: self.entries)
        case .kept: break
        }
    }

    /// Takes it out of the order of its standing.
    private mutating func leave(_ key: Key) -> Entry? {
        guard let entry = self.entries[key] else { return nil }
        switch entry.standing {
        case .silent:
            self.silent.count -= 1
            if let group = entry.group { self.groups[group]?.silent.count -= 1 }
        case .identified: self.identified.count -= 1
        case .kept: break
        }
        return entry
    }

    private mutating func leave(_ group: String?) {
        guard let group, let members = self.groups[group] else { return }
        if members.count == 1 { self.groups[group] = nil } else { self.groups[group]?.count -= 1 }
    }
}
