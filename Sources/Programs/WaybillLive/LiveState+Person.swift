internal import WaybillData
internal import WaybillJSON
package import WaybillSystem

/// One install, while its events are gone through.
private struct Install {
    var user: String?
    /// Events since the last one of a user.
    var open: [LiveRow] = []
}

/// A person's events: those of a user, and those on the same installs before the sign-in.
extension LiveState {
    private static var personRowCountMax: Int { 200 }
    /// How much of the journal is gone through at once for what is older than the ring, and how often.
    private static var personByteCount: Int { 2 << 20 }
    private static var personReadCountMax: Int { 8 }

    /// The answer of `/api/person`: newest first.
    ///
    /// An event without a user belongs to the next user on its install, else to the last one before, else to the install
    /// itself; the same rule as in reports. What is older than the ring is looked for in the journal, when it is asked
    /// for.
    package mutating func person(_ key: String, before: LineID?) throws(FileSystemError) -> [UInt8] {
        let kept = (self.ring.start..<self.ring.end).map { self.ring[$0] }
        var (rows, anons) = self.rows(of: key, in: kept)
        var scanned = kept.count
        if let before {
            rows.removeAll { $0.id >= before }
            if rows.isEmpty { (rows, anons) = try self.olderRows(of: key, before: before, scanned: &scanned) }
        }
        var json = JSONWriter()
        json.beginObject()
        json.member("key", key)
        json.member("anons", array: anons) { $0.string($1) }
        json.key("rows")
        json.beginArray()
        for row in rows.suffix(Self.personRowCountMax).reversed() {
            self.line.load(row)
            self.write(row, [], to: &json)
        }
        json.endArray()
        json.member("scanned", scanned)
        json.member("oldest", self.ring.oldest.map { Int($0.batch.receivedAt.milliseconds) })
        json.endObject()
        return Array(json.output.bytes)
    }

    /// A person's events in the journal before a place, piece by piece until there are some.
    private mutating func olderRows(
        of key: String, before: LineID, scanned: inout Int
    ) throws(FileSystemError) -> ([LiveRow], [String]) {
        guard let first = try JournalTip.segments(of: self.data.journal, files: self.data.files)?.lowerBound else {
            return ([], [])
        }
        var end = min(before, LineID(batch: self.position ?? first, line: 0))
        for _ in 0..<Self.personReadCountMax where end.batch > first {
            let start = JournalPosition(max(first.rawValue, end.batch.rawValue - Self.personByteCount))
            var installs: Set<String> = [key]
            // First the person's installs, then everything on them.
            _ = try self.read(from: start, to: end, scanned: &scanned) { user, anon in
                if user == key, let anon { installs.insert(anon) }
                return false
            }
            var count = 0
            let found = try self.read(from: start, to: end, scanned: &count) { user, anon in
                user == key || anon.map(installs.contains) ?? false
            }
            let (rows, anons) = self.rows(of: key, in: found)
            if !rows.isEmpty { return (rows, anons) }
            end = LineID(batch: start, line: 0)
        }
        return ([], [])
    }

    /// The events between two places that `isWanted`, by their users and installs.
    private mutating func read(
        from start: JournalPosition, to end: LineID, scanned: inout Int,
        _ isWanted: (_ user: String?, _ anon: String?) -> Bool
    ) throws(FileSystemError) -> [LiveRow] {
        var follower = Follower(
            journal: self.data.journal, from: start, files: self.data.files, erased: self.erased,
            poison: self.poison)
        var found: [LiveRow] = []
        let limit = self.position ?? end.batch
        // The batch of the place itself may have lines before it.
        while let batch = try follower.next(upTo: limit)?.batch, batch.position <= end.batch {
            for row in batch.rows where row.id < end {
                scanned += 1
                self.line.load(row)
                if isWanted(self.line.user, self.line.anon) { found.append(row) }
            }
        }
        return found
    }

    /// Those of the events that are a person's, in order, and the installs that they are from.
    private mutating func rows(of key: String, in rows: [LiveRow]) -> (rows: [LiveRow], anons: [String]) {
        var installs: [String: Install] = [:]
        var found: [LiveRow] = []
        var anons: [String] = []
        for row in rows {
            self.line.load(row)
            let user = self.line.user
            guard let anon = self.line.anon else {
                if user == key { found.append(row) }
                continue
            }
            var install = installs.removeValue(forKey: anon) ?? Install()
            if let user {
                if user == key {
                    found += install.open + [row]
                    if !anons.contains(anon) { anons.append(anon) }
                }
                install.user = user
                install.open = []
            } else {
                install.open.append(row)
            }
            installs[anon] = install
        }
        for (anon, install) in installs where install.user == key || (install.user == nil && anon == key) {
            found += install.open
            if !install.open.isEmpty, !anons.contains(anon) { anons.append(anon) }
        }
        return (found.sorted { $0.id < $1.id }, anons.sorted())
    }
}
