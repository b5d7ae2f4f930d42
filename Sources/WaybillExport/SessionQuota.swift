internal import WaybillSystem

/// What Flurry kept of one session while it ran: so many events, of so many names.
///
/// The only memory from event to event that decides about a record, so a checkpoint keeps it: one entry for each session,
///
///     session:9f86d081884c7d65 1740820459003 2 7cb69c7a,0b1c2d3e      time of its last event, events, names by checksum
///
/// Memory is bounded: beyond ``sessionCountMax`` the quarter whose last events are the oldest is forgotten.
struct SessionQuota: Sendable {
    private struct Session: Sendable {
        var last: Int64
        var eventCount = 0
        var names: [UInt32] = []

        init(at time: WallTime) {
            self.last = time.milliseconds
        }

        init?(text: String) {
            let fields = text.split(separator: " ", omittingEmptySubsequences: false)
            guard fields.count == 3, let last = Int64(fields[0]), let count = Int(fields[1]), count >= 0 else {
                return nil
            }
            self.last = last
            self.eventCount = count
            self.names = fields[2].split(separator: ",").compactMap { UInt32($0, radix: 16) }
        }

        var text: String {
            let names = self.names.map { Hexadecimal.text($0, digitCount: 8) }
            return "\(self.last) \(self.eventCount) \(names.joined(separator: ","))"
        }
    }

    static let sessionCountMax = 16_384
    private static let keyPrefix = "session:"

    private var sessions: [UInt64: Session] = [:]
    private var touched: Set<UInt64> = []

    static func isKey(_ key: String) -> Bool {
        key.hasPrefix(Self.keyPrefix)
    }

    /// Goes on where a checkpoint was.
    init(entries: [String: String]) {
        for (key, value) in entries where Self.isKey(key) {
            guard let id = UInt64(key.dropFirst(Self.keyPrefix.utf8.count), radix: 16),
                let session = Session(text: value)
            else { continue }
            self.sessions[id] = session
        }
    }

    /// Counts an event of a session; false, and nothing counted, when Flurry would not have kept it.
    mutating func admit(_ session: UnsafeRawBufferPointer, name: UnsafeRawBufferPointer, at time: WallTime) -> Bool {
        let id = FNV1a.hash(session)
        let name = UInt32(truncatingIfNeeded: FNV1a.hash(name))
        var known = self.sessions[id] ?? Session(at: time)
        guard known.eventCount < Limits.Flurry.eventsPerSessionMax else { return false }
        if !known.names.contains(name) {
            guard known.names.count < Limits.Flurry.namesPerSessionMax else { return false }
            known.names.append(name)
        }
        known.eventCount += 1
        known.last = max(known.last, time.milliseconds)
        self.sessions[id] = known
        self.touched.insert(id)
        if self.sessions.count > Self.sessionCountMax { self.forgetOldest() }
        return true
    }

    private mutating func forgetOldest() {
        let oldest = self.sessions.sorted { ($0.value.last, $0.key) < ($1.value.last, $1.key) }
        for (id, _) in oldest.prefix(Self.sessionCountMax / 4) {
            self.sessions[id] = nil
            self.touched.insert(id)
        }
    }

    /// What a checkpoint must say of the sessions that had events since the last call; `nil` for forgotten ones.
    mutating func takeChanges() -> [String: String?] {
        var changes: [String: String?] = [:]
        for id in self.touched {
            changes.updateValue(
                self.sessions[id]?.text, forKey: Self.keyPrefix + Hexadecimal.text(id, digitCount: 16))
        }
        self.touched.removeAll(keepingCapacity: true)
        return changes
    }
}
