internal import WaybillProtocol
internal import WaybillSystem

/// Which segments a journal's stream table is read from.
package enum JournalTables: Hashable, Sendable {
    /// The last one: its head has all that those before it say.
    case last
    /// Each, oldest first, where the last head may not have everything: after a range that is missing, or where it
    /// counts streams at rest, which no segment has. `resting.table` is made again.
    case all

    func recover(
        _ directory: String, _ files: some FileSystem, _ awake: AwakeLimits
    ) throws(FileSystemError) -> JournalRecovery.Found {
        var found = try JournalRecovery.recover(directory: directory, files: files)
        if self == .all, found.needsAllTables {
            found.table = try JournalRecovery.tableOfAll(
                found, awake, directory: directory, files: files)
        }
        return found
    }
}

extension JournalRecovery.Found {
    /// Whether the last segment may not have the whole table without the files beside it.
    fileprivate var needsAllTables: Bool {
        self.table.resting.byteCount > 0 || !self.report.damages.isEmpty || self.table.history.incarnation == nil
    }
}

extension JournalRecovery {
    /// The stream table of all segments together: of two positions of a stream the greater one counts, and a stream
    /// sealed in any is sealed.
    ///
    /// Streams above the limits go to `resting.table`, which is written again, as far as the segments know them. Memory: the
    /// table of one segment, and the streams that stay awake.
    ///
    /// - Parameter found: what ``recover(directory:files:)`` returned; its history stays.
    fileprivate static func tableOfAll<Files: FileSystem>(
        _ found: Found, _ awake: AwakeLimits, directory: String, files: Files
    ) throws(FileSystemError) -> StreamTable {
        var restingTable = try RestingTable(
            directory: directory, extent: RestingExtent(), remadeByteCountMin: awake.remadeByteCountMin, files: files)
        var table = StreamTable()
        for (index, segment) in found.segments.enumerated() {
            let next = index + 1 < found.segments.count ? found.segments[index + 1] : found.end
            let path = JournalPath.segment(segment, in: directory)
            let byteCount = try files.status(at: path)?.byteCount ?? 0
            let limit = min(next, JournalPosition(segment.rawValue + byteCount))
            guard let scan = try self.scan(segment, upTo: limit, directory: directory, files: files) else { continue }
            var own = try scan.builder.table(of: path, on: nil, files: files)
            try own.join(restingIn: restingTable)
            own.resting = RestingExtent()
            own.fill(from: table)
            table = own
            try table.rest(into: &restingTable, awake)
        }
        table.history = found.table.history
        table.resting = restingTable.extent
        return table
    }
}

extension StreamTable {
    /// Takes over what a table of resting ones has of its streams, and removes those that are sealed there.
    fileprivate mutating func join(
        restingIn restingTable: borrowing RestingTable<some FileSystem>
    ) throws(FileSystemError) {
        // Sorted: the same table is read in the same way each time.
        for (name, standing) in self.streams.sorted(by: { $0.key < $1.key }) {
            guard let resting = try restingTable.standing(of: standing.description) else { continue }
            if resting.isSealed {
                self.streams[name] = nil
                self.unverified.remove(name)
            } else {
                var earlier = StreamTable()
                earlier.streams[name] = resting
                // The table has no descriptions: this one is as good as it was.
                if self.unverified.contains(name) { earlier.unverified.insert(name) }
                self.fill(from: earlier)
            }
        }
    }

    /// Moves the streams above the limits to the table of resting ones, and names each sealed stream once.
    fileprivate mutating func rest<Files: FileSystem>(
        into restingTable: inout RestingTable<Files>, _ awake: AwakeLimits
    ) throws(FileSystemError) {
        let streams = self.streams
        let rested = RestOrder(self).rested(of: streams, awake, isStarting: false, except: [])
        _ = try restingTable.stage(rested.compactMap { streams[$0] })
        restingTable.commit()
        for name in rested {
            self.streams[name] = nil
            self.unverified.remove(name)
        }
        let awakeStreams = self.streams
        var seen: Set<StreamName> = []
        self.sealedOrder = self.sealedOrder.filter {
            awakeStreams[$0]?.isSealed == true && seen.insert($0).inserted
        }
    }
}
