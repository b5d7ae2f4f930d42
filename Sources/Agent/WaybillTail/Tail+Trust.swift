internal import WaybillProtocol
internal import WaybillSystem

/// Remembers what receivers disagree with, and what they must have because no file does.
extension Tail {
    /// Remembers, durably, when the present receiver began to disagree with a segment's bytes.
    package mutating func disputed(_ stream: StreamKey, _ now: TailTime) {
        guard self.table.contains(stream), self.table[stream].isSegment, let receiver = self.receivers.current,
            !self.table[stream].disputes.contains(where: { $0.receiver == receiver })
        else { return }
        self.table[stream].disputes.append(SegmentDispute(receiver: receiver, since: now.wall))
        self.changes.insert(stream)
    }

    /// Whether the receivers of all these addresses have disagreed with a segment's bytes for so long.
    package func isDisputed(
        _ stream: StreamKey, at addresses: [String], for duration: Duration, _ now: TailTime
    ) -> Bool {
        guard self.table.contains(stream), !addresses.isEmpty else { return false }
        let disputes = self.table[stream].disputes.filter {
            now.wall.milliseconds.saturatingSum(-$0.since.milliseconds) >= duration.nanoseconds / 1_000_000
        }
        return addresses.allSatisfy { address in
            disputes.contains { self.receivers[$0.receiver]?.address == address }
        }
    }

    // MARK: Deleted segments

    /// Remembers a segment that was deleted because the present receiver had sealed it.
    mutating func rememberDeleted(_ id: StreamID, byteCount: Int) {
        guard let receiver = self.receivers.current.flatMap({ self.receivers[$0] }) else { return }
        self.deleted.add(
            DeletedSegment(
                id: id.description, byteCount: byteCount, receiver: receiver.ordinal, start: receiver.start,
                end: receiver.end))
    }

    /// Names the segments that were delivered to this address and deleted, and that its receiver does not hold.
    ///
    /// - Parameter returned: the ids of segments that are shipped again.
    mutating func tellMissing(
        at identity: ReceiverIdentity, _ formerOrdinals: Set<Int>, except returned: Set<String>, _ now: TailTime
    ) {
        // Of an address where nothing was delivered nothing is missing.
        guard !formerOrdinals.isEmpty else { return }
        var missing = MissingSegments()
        do throws(FileSystemError) {
            missing.knownSince = try self.deleted.read(now.wall) { segment in
                guard formerOrdinals.contains(segment.receiver), !returned.contains(segment.id),
                    !segment.isHeld(by: identity)
                else { return }
                missing.add(segment)
            }
        } catch {
            self.notices.complain(error.path, .unreadable(path: error.path, error))
        }
        self.notices.append(.segmentsMissing(missing))
    }
}
