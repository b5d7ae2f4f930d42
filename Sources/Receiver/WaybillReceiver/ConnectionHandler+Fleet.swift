internal import NIOCore
internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// What a receiver of a fleet adds: `STORED`, a late `SEALED`, and skips of what the fleet has.
extension ConnectionHandler {
    /// What an agent said with `OPEN` about bytes that the fleet has stored.
    struct StoredClaim {
        let from: StreamOffset
        let proof: ProofDigest
    }

    /// Remembers what an `OPEN` says; nothing without a fleet.
    func remember(_ claim: OpenClaim, of number: StreamNumber) {
        guard self.shared.membership != nil else { return }
        self.storedClaims[number] = nil
        if let from = claim.from, from > StreamOffset(0), let proof = claim.proof {
            self.storedClaims[number] = StoredClaim(from: from, proof: proof)
        }
    }

    /// Takes a skip; one of bytes that the fleet is said to have only if this connection's `OPEN` spoke of them, and one of
    /// a hole only if its tail has nothing but NULs.
    ///
    /// An agent can lie in each: it harms streams of its own principal alone, as with any other reason.
    func skip(_ number: StreamNumber, _ range: SkippedRange, _ context: ChannelHandlerContext) {
        guard let connection, let description = self.descriptions[number] else { return }
        if let text = self.fault(in: range, of: description.id, number) {
            let untoldCount = self.denials.admit(at: self.shared.clock.monotonicTime())
            self.shared.telemetry.denied(
                "SKIP", of: description, .notAllowed, by: connection, untoldCount: untoldCount)
            for message in self.session.refused(number, at: range.offset, .notAllowed, text: text) {
                self.write(message, context)
            }
            return
        }
        self.admit(.skip(connection, number, description, range), context)
    }

    /// Why a skip is not taken; `nil` if it may be.
    private func fault(in range: SkippedRange, of id: StreamID, _ number: StreamNumber) -> String? {
        if range.reason == .hole, !range.hasOnlyNULs {
            return "the tail of a hole has a byte that is not NUL: send what is before the next line as a batch"
        }
        guard range.reason.isOfFleet, !self.isClaimed(range, of: id, number) else { return nil }
        return self.shared.membership == nil
            ? "this receiver belongs to no fleet: no other one has these bytes"
            : "OPEN did not say that the fleet has the stream up to the end of this skip"
    }

    private func isClaimed(_ range: SkippedRange, of id: StreamID, _ number: StreamNumber) -> Bool {
        guard self.shared.membership != nil, let claim = self.storedClaims[number], let tail = range.tail else {
            return false
        }
        // What is stored lies behind what was before the fleet: the skip that has the proof follows.
        if range.reason == .before, range.end < claim.from { return true }
        guard claim.from == range.end else { return false }
        return StreamProof(of: id, at: range.end, tail: tail).digest == claim.proof
    }

    /// Handles an `OPEN` that was answered: what the stream has is owed `STORED`, or `SEALED`.
    ///
    /// What a stream has that this process has not changed was durable before it began: in a fleet that is new, the store
    /// counts from there, and `STORED` goes with the first `AT`.
    func opened(
        _ number: StreamNumber, at offset: StreamOffset, _ proof: StreamProof, isSealed: Bool, isChanged: Bool,
        end: UInt64
    ) -> [Message] {
        guard let membership = self.shared.membership else {
            return self.session.opened(number, at: offset, proof, isSealed: isSealed, end: end)
        }
        if let claim = self.storedClaims[number], claim.from <= offset { self.storedClaims[number] = nil }
        let durableAt = isChanged ? end : membership.formerEnd.map { UInt64($0.rawValue) } ?? end
        guard durableAt > UInt64(membership.stored.rawValue) else {
            let messages = self.session.opened(number, at: offset, proof, isSealed: isSealed, end: end)
            guard !isSealed, offset > StreamOffset(0) else { return messages }
            return messages + self.session.stored(number, upTo: offset)
        }
        guard isSealed else {
            if offset > StreamOffset(0) {
                self.storageReports.add(PendingStorageReports.Report(end: durableAt, offset: offset), of: number)
            }
            return self.session.opened(number, at: offset, proof, isSealed: false, end: end)
        }
        self.storageReports.add(PendingStorageReports.Report(end: durableAt, offset: offset, seal: proof), of: number)
        return self.session.openedUnstored(number, at: offset, proof, end: end)
    }

    /// Handles an `ACK` that is about to be written.
    func acknowledged(_ number: StreamNumber, upTo offset: StreamOffset, end: UInt64) {
        guard self.shared.membership != nil else { return }
        if let claim = self.storedClaims[number], claim.from <= offset { self.storedClaims[number] = nil }
        self.storageReports.add(PendingStorageReports.Report(end: end, offset: offset), of: number)
    }

    /// Handles a stream's end, which is durable.
    func sealed(
        _ number: StreamNumber, at offset: StreamOffset, _ proof: StreamProof, end: UInt64
    ) -> [Message] {
        guard self.shared.membership != nil else { return self.sealedNow(number, proof, end: end) }
        self.storageReports.add(PendingStorageReports.Report(end: end, offset: offset, seal: proof), of: number)
        return []
    }

    /// A stream that was sealed on this connection is forgotten; one that was sealed before is still known here: the agent
    /// may have more on the way.
    private func sealedNow(_ number: StreamNumber, _ proof: StreamProof, end: UInt64) -> [Message] {
        let messages = self.session.sealed(number, proof, end: end)
        if !messages.isEmpty, !self.session.knows(number), let closed = self.descriptions.removeValue(forKey: number),
            let connection
        {
            self.storedClaims[number] = nil
            self.shared.streams.forget(closed.byteCount, of: connection)
        }
        return messages
    }

    /// The store has more of the journal.
    func storageAdvanced() {
        self.isAwaitingStorage = false
        guard let context else { return }
        self.reportStorage(context)
        context.flush()
    }

    /// Tells what the store has meanwhile, as long as the agent reads; asks to be told of the next advance.
    func reportStorage(_ context: ChannelHandlerContext) {
        guard let membership = self.shared.membership, let connection else { return }
        repeat {
            let stored = UInt64(membership.stored.rawValue)
            while context.channel.isWritable, let (number, report) = self.storageReports.next(at: stored) {
                let messages =
                    report.seal.map { self.sealedNow(number, $0, end: self.durableEnd) }
                    ?? self.session.stored(number, upTo: report.offset)
                for message in messages { self.write(message, context) }
            }
            // An agent that does not read is told when it does.
            guard context.channel.isWritable, !self.storageReports.isEmpty, !self.isAwaitingStorage else { return }
            self.isAwaitingStorage = true
            membership.tell(connection, on: context.eventLoop)
        } while self.storageReports.isDue(at: UInt64(membership.stored.rawValue))
    }
}
