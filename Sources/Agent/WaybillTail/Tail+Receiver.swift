package import WaybillProtocol
package import WaybillSystem

/// Handles the receiver's answers for a stream.
extension Tail {
    /// Handles the receiver's greeting.
    ///
    /// Every file of which this receiver is not known to hold anything asks for its position, and no other. Offsets of a
    /// receiver that came back older are forgotten first, durably, and so is what another fleet had stored.
    ///
    /// - Parameter fleet: the receiver's fleet.
    package mutating func receiverMet(
        _ identity: ReceiverIdentity, at address: String, of fleet: String? = nil, _ now: TailTime
    ) throws(FileSystemError) -> ReceiverMeeting {
        self.connectionLost()
        let before = self.receivers.current
        let formerOrdinals = self.receivers.ordinals(at: address)
        let meeting = self.receivers.meet(identity, at: address)
        let isOtherFleet = self.rememberedFleet.meet(identity.id, of: fleet)
        self.keeping.seenAt = now.wall
        self.successions.stems.expire(now.wall)
        if meeting != .known {
            let returned = try self.returnKept(of: formerOrdinals, now)
            self.tellMissing(at: identity, formerOrdinals, except: returned, now)
        }
        let ordinal = self.receivers.current
        if isOtherFleet { self.receivers.leaveFleet() }
        if meeting != .known { self.replaceHolders(formerOrdinals, by: identity) }
        for key in self.table.keys {
            if ordinal != before { self.switchReceiver(key) }
            self.leaveNumber(key)
            self.number(key)
            self.table[key].walkCount = 0
            if case .sealed = self.table[key].phase { continue }
            guard self.table[key].receiver == 0 else {
                self.askBeforeFleet(key)
                continue
            }
            if self.table[key].reach == .gone {
                self.forgetUnheld(key)
            } else if !self.restInFleet(key) {
                self.table[key].isAsking = true
                self.enqueue(key)
            }
        }
        if !self.isInFleet { self.receivers.settle(ofFleet: false) }
        self.settleIfSaid()
        if meeting != .known || isOtherFleet { try self.checkpoint(now) }
        return meeting
    }

    /// How a receiver compares with what is remembered of it.
    package func recognizes(_ identity: ReceiverIdentity, at address: String) -> ReceiverMeeting {
        var receivers = self.receivers
        return receivers.meet(identity, at: address)
    }

    /// Handles the receiver's demand for a proof: it holds a stream of this id up to `offset` from before it knew
    /// principals.
    ///
    /// A file whose bytes are others is opened as if the receiver had shown them: a foreign one under the next
    /// incarnation, for another one may have its bytes. A segment has one id, and begins at 0.
    ///
    /// - Parameter isRefused: whether the receiver has refused the proof for this offset.
    package mutating func proofDemanded(_ stream: StreamKey, at offset: Int, isRefused: Bool) -> ProofAnswer {
        guard self.table.contains(stream), self.table[stream].isIdentified else { return .outcome(.postponed) }
        guard !isRefused else { return self.unproven(stream, at: offset) }
        self.refresh(stream)
        guard self.table.contains(stream) else { return .outcome(.postponed) }
        let file = self.table[stream]
        let end = StreamOffset(UInt64(offset))
        guard file.reach != .gone, offset <= file.byteCount else {
            // The file has these bytes no more, but the digest of what was sent may be remembered.
            guard let sent = file.anchors.first(where: { $0.end == offset }) else {
                return self.unproven(stream, at: offset)
            }
            return .claim(OpenClaim(from: end, proof: sent.digest))
        }
        guard case .opened(let descriptor) = self.open(stream) else { return .outcome(.postponed) }
        do throws(FileSystemError) {
            let proof = StreamProof(
                of: self.id(of: stream), at: end, tail: try self.lastBytes(descriptor, below: offset))
            return .claim(OpenClaim(from: end, proof: proof.digest))
        } catch {
            self.readFailed(stream, error)
            return .outcome(.postponed)
        }
    }

    private mutating func unproven(_ stream: StreamKey, at offset: Int) -> ProofAnswer {
        if !self.table[stream].isSegment, self.table[stream].reach != .gone {
            // No bytes prove nothing but an empty stream.
            let outcome = self.positionLearned(stream, at: offset, .empty)
            if outcome != .goOn { return .outcome(outcome) }
        }
        return .claim(OpenClaim(from: StreamOffset(0)))
    }

    /// Exchanges what the last receiver holds of a file for what the present one does.
    private mutating func switchReceiver(_ key: StreamKey) {
        let file = self.table[key]
        let known = ((file.held.map { [$0] } ?? []) + file.others).filter { self.receivers.contains($0.receiver) }
        self.table[key].resume(known.first { $0.receiver == self.receivers.current })
        self.table[key].others = known.filter { $0.receiver != self.receivers.current }
        self.passTakenNumbers(key)
        self.table[key].disputes.removeAll { !self.receivers.contains($0.receiver) }
        self.table[key].rest()
        self.changes.insert(key)
        self.enqueue(key)
        // The last receiver may have held less: then it was not checked for a departed writer.
        if self.table[key].isDrained { self.enqueueProbe(key) }
    }

    /// Takes the end of the receiver's journal from an answer.
    package mutating func answered(end: UInt64) {
        self.receivers.answered(end: end)
    }

    /// Handles the receiver's durable position (`AT`): reading continues there if the proof agrees with the file's
    /// bytes, whatever the registry has.
    ///
    /// A segment of which the receiver holds other bytes stays untouched. A foreign file is opened under the next
    /// incarnation. Does nothing for a removed stream.
    package mutating func positionLearned(
        _ stream: StreamKey, at offset: Int, _ proof: StreamProof
    ) -> AnswerOutcome {
        guard self.table.contains(stream), self.table[stream].isIdentified else { return .goOn }
        precondition(offset >= 0, "an offset is not negative: \(offset)")
        self.table[stream].overlong = nil
        self.refresh(stream)
        // The check may have found another content, which begins another stream.
        guard self.table.contains(stream) else { return .goOn }
        if self.table[stream].reach == .gone {
            return self.positionGone(stream, at: offset)
        }
        guard let doesAgree = self.agrees(stream, at: offset, proof) else { return .postponed }
        guard self.table.contains(stream) else { return .goOn }
        if self.table[stream].reach == .gone {
            return self.positionGone(stream, at: offset)
        }
        if self.table[stream].isSegment { return self.segmentPositioned(stream, at: offset, proof, doesAgree) }
        if !doesAgree, self.awaitsRegrowth(stream, to: offset, proof) { return .postponed }
        if let number = self.presentNumber(of: stream) {
            return self.positionedInFleet(stream, number, at: offset, proof, doesAgree)
        }
        if self.table[stream].receiver > 0, self.table[stream].walk == nil {
            guard doesAgree else {
                self.tellDifference(stream, at: offset)
                self.table[stream].walk = IncarnationWalk(after: self.table[stream])
                self.dropOffset(stream)
                return self.walkOn(stream)
            }
            self.take(stream, offset: offset, proof)
            return .goOn
        }
        return self.walked(stream, at: offset, proof, doesAgree)
    }

    /// Whether the receiver proves to hold the file's bytes below `offset`; `nil` when the file cannot be read now.
    ///
    /// Bytes of a segment that someone else skipped are not held (``explains(_:of:_:below:)``).
    /// A foreign file that was rewritten since it was sent ends its stream here.
    private mutating func agrees(_ stream: StreamKey, at offset: Int, _ proof: StreamProof) -> Bool? {
        let descriptor: FileID
        guard !self.table[stream].isUndecided else { return nil }
        switch self.open(stream) {
        case .opened(let opened): descriptor = opened
        case .lost, .replaced, .noRoom, .failed: return nil
        }
        guard self.table.contains(stream) else { return nil }
        do throws(FileSystemError) {
            guard try self.isUnchanged(stream, descriptor) else {
                self.truncated(stream)
                return false
            }
            guard offset > 0 else { return proof == .empty }
            guard offset <= self.table[stream].byteCount else { return false }
            let end = StreamOffset(UInt64(offset))
            let tail = try self.lastBytes(descriptor, below: offset)
            guard tail.count == StreamProof.byteCount(at: end),
                StreamProof(of: self.id(of: stream), at: end, tail: tail).coversSame(as: proof)
            else { return false }
            if !self.table[stream].isSegment {
                self.table[stream].ends.insert(BatchEnds.End(offset: offset, tail: tail))
            }
            return try self.explains(proof.skippedByteCount, of: stream, descriptor, below: offset)
        } catch {
            self.readFailed(stream, error)
            return nil
        }
    }

    private mutating func segmentPositioned(
        _ stream: StreamKey, at offset: Int, _ proof: StreamProof, _ doesAgree: Bool
    ) -> AnswerOutcome {
        if doesAgree {
            self.take(stream, offset: offset, proof)
            return .goOn
        }
        let file = self.table[stream]
        let id = self.id(of: stream)
        let sent = file.anchors.first { $0.end == offset }?.digest
        if offset > file.byteCount, let sent, sent == proof.digest {
            self.notices.complain(
                file.path,
                .segmentShortened(id, path: file.path, receiverOffset: offset, byteCount: file.byteCount))
            return .shortened
        } else {
            self.notices.complain(
                file.path,
                .segmentDisputed(
                    id, path: file.path, receiverOffset: offset, byteCount: file.byteCount,
                    skippedByteCount: proof.skippedByteCount))
        }
        return .disputed
    }

    /// Continues from a position whose proof agrees.
    mutating func take(_ stream: StreamKey, offset: Int, _ proof: StreamProof) {
        let file = self.table[stream]
        if let ordinal = self.receivers.current {
            if file.receiver == ordinal, offset < file.acked {
                self.notices.append(
                    .receiverForgot(
                        self.id(of: stream), path: file.path, receiverOffset: offset, ackedOffset: file.acked))
            }
            self.table[stream].receiver = ordinal
        }
        self.table[stream].walk = nil
        // A segment that is longer may be disputed yet: its stream may be sealed here.
        if offset >= file.byteCount, self.awaitedHolder(of: stream) == nil { self.table[stream].disputes = [] }
        self.table[stream].replaceAnchors(proof.digest.map { [Anchor(end: offset, digest: $0)] } ?? [])
        self.table[stream].cursor = offset
        self.table[stream].acked = offset
        self.awaitStorage(stream)
        self.positioned(stream)
    }

    private mutating func positioned(_ stream: StreamKey) {
        self.table[stream].isPositioned = true
        self.table[stream].isAsking = false
        self.table[stream].examined = 0
        if self.table[stream].phase == .sealOffered { self.table[stream].phase = .complete }
        self.changes.insert(stream)
        self.enqueue(stream)
        if self.table[stream].isDrained { self.enqueueProbe(stream) }
    }

    /// Ends the stream of a file that is gone: bytes that did not arrive cannot be read again.
    ///
    /// A segment of which this receiver holds a part is not sealed (``leaveUnsealed(_:of:)``). An empty stream of a foreign
    /// file is, for an agent without a registry asks up to the first unknown one.
    private mutating func positionGone(_ stream: StreamKey, at offset: Int) -> AnswerOutcome {
        let file = self.table[stream]
        self.tellEnding(stream, at: offset)
        guard !file.isSegment || (offset > 0 && offset >= file.byteCount) else {
            self.leaveUnsealed(stream, of: file.byteCount)
            return .postponed
        }
        self.table[stream].cursor = offset
        self.table[stream].acked = offset
        self.positioned(stream)
        return .goOn
    }

    /// Checks a file again, so that the receiver's position is not compared with an old length.
    private mutating func refresh(_ stream: StreamKey) {
        let file = self.table[stream]
        do throws(FileSystemError) {
            switch file.reach {
            case .path:
                if let status = try self.files.status(at: file.path), status.identity == file.identity {
                    self.observeLength(stream, status)
                }
            case .descriptor:
                if let descriptor = file.descriptor {
                    self.observeLength(stream, try self.files.status(descriptor))
                }
            case .replaced, .gone: break
            }
        } catch {
            self.notices.complain(file.path, .unreadable(path: file.path, error))
        }
    }

    /// Records that the receiver holds the stream up to `offset`; ignores offsets below the known one and after what
    /// was returned.
    package mutating func acked(_ stream: StreamKey, upTo offset: Int) {
        guard self.table.contains(stream) else { return }
        guard offset > self.table[stream].acked, offset <= self.table[stream].cursor else { return }
        if offset >= self.table[stream].heldBelow { self.table[stream].heldBelow = 0 }
        self.table[stream].removeAnchors(before: offset)
        self.table[stream].disputes = []
        self.table[stream].acked = offset
        self.awaitStorage(stream)
        self.changes.insert(stream)
    }

    /// Handles the loss of the connection: streams ask for their position before they are read again, and
    /// unacknowledged bytes are read again.
    package mutating func connectionLost() {
        self.rememberedFleet.left()
        for key in self.table.keys {
            if case .sealed(let byteCount) = self.table[key].phase, self.table[key].byteCount > byteCount {
                // It was sealed below its end; the next receiver is asked for the offset.
                self.table[key].phase = .following
            }
            self.interrupt(key)
        }
    }

    /// Handles the refusal of a stream (`NAK`): it asks for its position, even if all of it was sent.
    package mutating func streamRefused(_ stream: StreamKey) {
        guard self.table.contains(stream) else { return }
        self.table[stream].isAsking = true
        self.interrupt(stream)
    }

    /// What is on its way does not arrive.
    private mutating func interrupt(_ key: StreamKey) {
        self.table[key].isPositioned = false
        self.table[key].cursor = self.table[key].acked
        self.table[key].examined = 0
        self.table[key].overlong = nil
        if self.table[key].phase == .sealOffered { self.table[key].phase = .complete }
        self.enqueue(key)
    }

    /// Handles `SEALED`: deletes a segment, and removes the stream of a foreign file, if the proof agrees.
    ///
    /// Without a request, it means that the stream ended in an earlier session. A longer foreign file continues in its
    /// next incarnation, which begins with a skip of what is held.
    package mutating func sealedByReceiver(_ stream: StreamKey, _ proof: StreamProof) -> AnswerOutcome {
        self.rememberedFleet.awaited.remove(stream)
        guard self.table.contains(stream) else { return .done }
        // An unrequested seal covers the receiver's reported position, not bytes sent since.
        let file = self.table[stream]
        let offset = file.phase == .sealOffered ? file.cursor : file.acked
        if file.isAwaitingSuccessor {
            // It is asked for once more.
            self.table[stream].phase = .complete
            self.table[stream].isPositioned = false
            return .done
        }
        if file.reach == .gone {
            self.forget(stream)
            return .done
        }
        self.refresh(stream)
        guard self.table.contains(stream), self.table[stream].reach != .gone else { return .done }
        guard let doesAgree = self.agrees(stream, at: offset, proof) else {
            guard self.table.contains(stream) else { return .done }
            if file.phase == .sealOffered { self.table[stream].phase = .complete }
            self.table[stream].isPositioned = false
            self.table[stream].isAsking = true
            return .postponed
        }
        guard self.table.contains(stream) else { return .done }
        if self.table[stream].reach == .gone {
            self.forget(stream)
            return .done
        }
        if self.table[stream].isSegment { return self.segmentSealed(stream, at: offset, proof, doesAgree) }
        return self.foreignSealed(stream, at: offset, doesAgree)
    }

    private mutating func segmentSealed(
        _ stream: StreamKey, at offset: Int, _ proof: StreamProof, _ doesAgree: Bool
    ) -> AnswerOutcome {
        let file = self.table[stream]
        let wasOffered = file.phase == .sealOffered
        if wasOffered { self.table[stream].phase = .complete }
        guard doesAgree, wasOffered || file.byteCount <= offset else {
            self.table[stream].isPositioned = false
            self.table[stream].isAsking = true
            return self.segmentPositioned(stream, at: offset, proof, false)
        }
        // A writer that is still there would continue in a file without a name: it is asked for again once that has left.
        guard !file.mayGrow else {
            self.table[stream].isPositioned = false
            self.enqueueProbe(stream)
            return .done
        }
        if let outcome = self.holdBack(stream) { return outcome }
        self.table[stream].phase = .sealed(byteCount: offset)
        guard self.deleteSealedSegment(stream) else { return .done }
        // It is longer than what was sealed; its bytes are in no stream that could take the rest.
        self.table[stream].phase = .complete
        self.table[stream].isPositioned = false
        self.table[stream].isAsking = true
        return .disputed
    }

    private mutating func foreignSealed(_ stream: StreamKey, at offset: Int, _ doesAgree: Bool) -> AnswerOutcome {
        let file = self.table[stream]
        if doesAgree, file.byteCount <= offset {
            if !file.mayGrow {
                self.forget(stream)
            } else {
                // It is asked for again when it grows.
                self.table[stream].isPositioned = false
            }
            return .done
        }
        if file.phase == .sealOffered { self.table[stream].phase = .complete }
        if !doesAgree { self.tellDifference(stream, at: offset) }
        if let number = self.presentNumber(of: stream) {
            return self.renumber(
                stream, heldBelow: doesAgree ? offset : self.rememberedFleet.heldByteCount(of: number))
        }
        var walk = IncarnationWalk(after: file)
        if doesAgree, offset > 0 {
            walk.best = IncarnationWalk.Candidate(
                incarnation: file.streamIncarnation, offset: offset, isSealed: true)
        }
        self.table[stream].walk = walk
        self.dropOffset(stream)
        return self.walkOn(stream)
    }

    /// Removes all state of a file, and its registry entry with the next checkpoint.
    mutating func forget(_ key: StreamKey) {
        self.closeDescriptor(key)
        let file = self.table[key]
        self.leaveStem(of: key)
        self.rememberedFleet.forget(key)
        self.successions.forget(key)
        self.unregister(file)
        if file.reach == .gone, let id = self.registryKey(of: file) { self.former.removeGone(id.description) }
        if case .segment(let id) = file.origin, self.bySegment[id] == key { self.bySegment[id] = nil }
        self.changes.remove(key)
        self.table.remove(key)
        self.releasePredecessors(of: file.identity)
    }
}
