internal import WaybillProtocol

/// How many streams stay in memory and in the heads of segments when one begins; the others come to rest.
package struct AwakeLimits: Hashable, Sendable {
    /// Sealed streams, of which those sealed last stay.
    package var sealedCount: Int
    /// Others, of which those written last stay, in the first segment of a start.
    package var openCountAtStart: Int
    /// The same in later segments.
    package var openCount: Int
    /// With more of them a segment begins, however short the last one is.
    package var openCountMax: Int
    /// A table of streams at rest that is shorter is not made again, however many of its records count no more.
    package var remadeByteCountMin: Int

    package init(
        sealedCount: Int = 10_000, openCountAtStart: Int = 1_000, openCount: Int = 10_000, openCountMax: Int = 20_000,
        remadeByteCountMin: Int = 1 << 20
    ) {
        self.sealedCount = sealedCount
        self.openCountAtStart = openCountAtStart
        self.openCount = openCount
        self.openCountMax = openCountMax
        self.remadeByteCountMin = remadeByteCountMin
    }
}

/// In which order the streams that are awake come to rest.
struct RestOrder {
    /// Sealed streams, each once, in the order of sealing.
    private var sealedOrder: [StreamName]
    /// When each of the others was written last, counted in entries; nothing for one that was not since the start.
    private var changes: [StreamName: Int]
    private var entryCount: Int
    /// Streams that woke and were not written since: the table has them as they are.
    private var unwritten: Set<StreamName> = []

    init(_ table: StreamTable) {
        var seen: Set<StreamName> = []
        self.sealedOrder = table.sealedOrder.filter {
            table.streams[$0]?.isSealed == true && seen.insert($0).inserted
        }
        self.changes = table.changes.filter { table.streams[$0.key]?.isSealed == false }
        self.entryCount = self.changes.values.max() ?? 0
    }

    /// How many sealed streams are awake.
    var sealedCount: Int { self.sealedOrder.count }

    /// How many streams woke and were not written since.
    var unwrittenCount: Int { self.unwritten.count }

    /// Whether the table lacks a stream, or has it as it was.
    func isUnrecorded(_ name: StreamName) -> Bool { !self.unwritten.contains(name) }

    mutating func woke(_ name: StreamName) { self.unwritten.insert(name) }

    mutating func wrote(_ name: StreamName) {
        self.unwritten.remove(name)
        self.entryCount += 1
        self.changes[name] = self.entryCount
    }

    mutating func sealed(_ name: StreamName) {
        self.changes[name] = nil
        self.sealedOrder.append(name)
    }

    /// Which streams can rest at once, without a head that leaves them out: the table has them as they are.
    func restingAgain(except staged: some Sequence<StreamName>) -> Set<StreamName> {
        self.unwritten.subtracting(staged)
    }

    /// Which streams come to rest now; those that only woke do in any case, so that no head has them.
    ///
    /// - Parameter staged: those that the next group writes.
    func rested(
        of streams: [StreamName: StreamStanding], _ limits: AwakeLimits, isStarting: Bool,
        except staged: Set<StreamName>
    ) -> [StreamName] {
        let sealed = self.sealedOrder.prefix(max(0, self.sealedOrder.count - limits.sealedCount))
        let again = self.restingAgain(except: staged)
        let resting = Array(sealed) + again.sorted()
        let kept = isStarting ? limits.openCountAtStart : limits.openCount
        let openCount = streams.count - self.sealedOrder.count - again.count
        guard openCount > kept else { return resting }
        let open = streams.filter { !$0.value.isSealed && !staged.contains($0.key) && !again.contains($0.key) }.keys
            .map { (name: $0, change: self.changes[$0] ?? 0) }
            .sorted { ($0.change, $0.name) < ($1.change, $1.name) }
        let staying = max(0, kept - (openCount - open.count))
        return resting + open.dropLast(staying).map(\.name)
    }

    /// These streams are at rest.
    mutating func rest(_ names: Set<StreamName>) {
        self.sealedOrder.removeAll { names.contains($0) }
        for name in names {
            self.changes[name] = nil
            self.unwritten.remove(name)
        }
    }
}
