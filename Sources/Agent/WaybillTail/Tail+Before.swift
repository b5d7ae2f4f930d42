internal import WaybillProtocol
internal import WaybillSystem

/// Bytes of a file that a receiver took before it belonged to the fleet: its own archive has them, and the store has not.
struct BeforeFleet: Hashable, Sendable {
    /// The fleet's ordinal (``RememberedFleet``).
    let fleet: Int
    /// The ordinal of the receiver that has them (``KnownReceivers``).
    let holder: Int
    /// Up to where it has the file; 0 after it came back without, until it has said what it has now.
    let offset: Int
    /// Whether another receiver was told to skip them.
    var isSkipped: Bool
    /// The holder's name.
    let name: String

    var text: String { "\(self.fleet):\(self.holder):\(self.offset):\(self.isSkipped ? 1 : 0):\(self.name)" }

    init(fleet: Int, holder: Int, offset: Int, isSkipped: Bool, name: String) {
        self.fleet = fleet
        self.holder = holder
        self.offset = offset
        self.isSkipped = isSkipped
        self.name = name
    }

    /// Parses one; `nil` for any other text.
    init?(_ text: Substring) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 5, let fleet = parts[0].asCount, fleet > 0, let holder = parts[1].asCount, holder > 0,
            let offset = parts[2].asCount, parts[3] == "0" || parts[3] == "1", SkippedRange.isHolder(parts[4])
        else { return nil }
        self.init(fleet: fleet, holder: holder, offset: offset, isSkipped: parts[3] == "1", name: String(parts[4]))
    }
}

/// Skips what is in the own archive of a receiver that stood alone before, and keeps such segments for that receiver.
///
///     its first STORED ─▶ another one: SKIP before ─▶ SEALED there ─▶ waits, as a disputed segment does
///                                                                      │   │ unknown or older: sent from its AT on
///     deleted ◀─ SEALED of the holder itself ◀─────────────────────────┴───┘
///     another id ◀─ away for `Reshipment.patience` ◀───────────────────┘
///
/// - SeeAlso: `Protocol/protocol.md`, section 20.2.
extension Tail {
    /// Takes what the present receiver says to be stored; with its first word about a file it is the holder of that.
    ///
    /// - Parameter isFirst: whether the receiver held something of the file before it belonged to the fleet, and has not
    ///   said yet what the fleet has.
    /// - Returns: whether it counts.
    mutating func noteBefore(_ stream: StreamKey, upTo offset: Int, isFirst: Bool) -> Bool {
        guard let current = self.receivers.current, let id = self.rememberedFleet.receiver else { return false }
        let known = self.rememberedFleet.before[stream]
        let isAwaited = known?.offset == 0
        // Another receiver has skipped bytes that are nowhere now.
        if isAwaited, known?.holder != current { return false }
        guard isFirst || isAwaited else { return true }
        let name = id[..<(id.lastIndex(of: "~") ?? id.endIndex)]
        guard SkippedRange.isHolder(name) else { return false }
        self.rememberedFleet.before[stream] = BeforeFleet(
            fleet: self.rememberedFleet.ordinal, holder: current, offset: offset,
            isSkipped: known?.isSkipped ?? false, name: String(name))
        return true
    }

    /// What is before the fleet of the bytes between the cursor and `end`; `nil` if nothing is.
    func bytesBefore(_ stream: StreamKey) -> BeforeFleet? {
        guard let before = self.rememberedFleet.before[stream], before.offset > self.table[stream].cursor else {
            return nil
        }
        return before
    }

    /// Remembers, durably, that a receiver is about to be told to skip what is before the fleet.
    mutating func rememberSkip(_ stream: StreamKey, _ now: TailTime) throws(FileSystemError) {
        guard self.rememberedFleet.before[stream]?.isSkipped == false else { return }
        self.rememberedFleet.before[stream]?.isSkipped = true
        self.changes.insert(stream)
        do throws(FileSystemError) {
            try self.checkpoint(now)
        } catch {
            self.rememberedFleet.before[stream]?.isSkipped = false
            throw error
        }
    }

    // MARK: Waiting

    /// The receiver that has to seal a segment, because another one skipped what is in its archive; `nil` if that is the
    /// present one.
    private func awaited(_ stream: StreamKey) -> BeforeFleet? {
        guard self.table.contains(stream), self.table[stream].isSegment,
            let before = self.rememberedFleet.before[stream], before.isSkipped, before.holder != self.receivers.current
        else { return nil }
        return before
    }

    /// The name of the receiver without which a segment is not deleted; `nil` if the present one may seal it.
    package func awaitedHolder(of stream: StreamKey) -> String? { self.awaited(stream)?.name }

    /// Whether the receiver that has to seal a segment stayed away for too long, or is known no more: the bytes are to be
    /// shipped under another id.
    package func isOverdue(_ stream: StreamKey, _ now: TailTime) -> Bool {
        guard let before = self.awaited(stream) else { return false }
        guard self.receivers.contains(before.holder) else { return true }
        let patience = Reshipment.patience.nanoseconds / 1_000_000
        return self.table[stream].disputes.contains {
            now.wall.milliseconds.saturatingSum(-$0.since.milliseconds) >= patience
        }
    }

    /// Keeps a segment that a receiver has sealed without what is in another one's archive.
    ///
    /// - Returns: `nil` if it may go.
    mutating func holdBack(_ stream: StreamKey) -> AnswerOutcome? {
        guard let before = self.awaited(stream) else { return nil }
        self.table[stream].isPositioned = false
        self.table[stream].isAsking = true
        let path = self.table[stream].path
        self.notices.complain(
            path, .segmentAwaits(self.id(of: stream), path: path, holder: before.name, byteCount: before.offset))
        return .disputed
    }

    /// Where a receiver was met that has to seal segments that wait; `nil` without any.
    var awaitedAddress: String? {
        var holders: Set<Int> = []
        for (key, before) in self.rememberedFleet.before
        where before.isSkipped && self.table[key].isSegment && !self.table[key].disputes.isEmpty {
            holders.insert(before.holder)
        }
        for entry in self.former.segments.values where !entry.disputes.isEmpty {
            if let before = entry.before, before.isSkipped { holders.insert(before.holder) }
        }
        for holder in holders.sorted() {
            if let receiver = self.receivers[holder] { return receiver.address }
        }
        return nil
    }

    // MARK: Holders that came back without

    /// Handles a receiver that is not the one that was known at its address: what that one alone had is sent again.
    ///
    /// Behind one address there may be several receivers: one of another name does not stand for the holder.
    mutating func replaceHolders(_ former: Set<Int>, by identity: ReceiverIdentity) {
        guard let current = self.receivers.current else { return }
        let receivers = self.receivers
        func isReplaced(_ before: BeforeFleet) -> Bool {
            former.contains(before.holder)
                && (!receivers.contains(before.holder) || before.name == identity.name)
        }
        for (key, before) in self.rememberedFleet.before where isReplaced(before) {
            self.rememberedFleet.before[key] = before.replaced(by: current)
            self.rememberedFleet.offsets[key] = nil
            self.changes.insert(key)
        }
        self.former.update { entry in
            guard let before = entry.before, isReplaced(before) else { return nil }
            var entry = entry
            entry.before = before.replaced(by: current)
            entry.stored = nil
            return entry
        }
    }
}

extension BeforeFleet {
    /// The receiver that came instead of the holder has to be sent everything; `nil` if no one has skipped anything.
    fileprivate func replaced(by holder: Int) -> BeforeFleet? {
        guard self.isSkipped else { return nil }
        return BeforeFleet(fleet: self.fleet, holder: holder, offset: 0, isSkipped: true, name: self.name)
    }
}
