internal import WaybillProtocol
internal import WaybillSystem

/// Searches the stream under which a receiver holds a foreign file's content.
extension Tail {
    /// How many incarnations of one file are asked for in a row.
    private static var walkCountMax: Int { 256 }

    /// Handles the answer for one incarnation of a foreign file of which this receiver is not known to hold anything.
    mutating func walked(
        _ stream: StreamKey, at offset: Int, _ proof: StreamProof, _ doesAgree: Bool
    ) -> AnswerOutcome {
        var walk = self.table[stream].walk ?? IncarnationWalk(next: 0)
        self.endRest(stream)
        if walk.isReturning {
            guard doesAgree else {
                self.table[stream].walk = nil
                return .disputed
            }
            self.begin(stream, incarnation: walk.asked, offset: offset, proof)
            return .goOn
        }
        if offset == 0, doesAgree {
            guard let best = walk.best else {
                self.begin(stream, incarnation: walk.next, offset: 0, proof)
                self.table[stream].heldBelow = self.earlierByteCount(of: stream)
                return .goOn
            }
            if best.isSealed {
                self.begin(stream, incarnation: walk.next, offset: 0, proof)
                self.table[stream].heldBelow = max(best.offset, self.earlierByteCount(of: stream))
                return .goOn
            }
            walk.isReturning = true
            self.table[stream].walk = walk
            return .openAgain
        }
        if !doesAgree {
            if self.table[stream].walkCount == 0 { self.tellDifference(stream, at: offset) }
        } else if offset > walk.best?.offset ?? 0 {
            walk.best = IncarnationWalk.Candidate(incarnation: walk.next, offset: offset, isSealed: false)
        }
        walk.next += 1
        self.table[stream].walk = walk
        return self.walkOn(stream)
    }

    /// How many of the first bytes the present receiver holds in the stream of the file's content before.
    func earlierByteCount(of stream: StreamKey) -> Int {
        guard let earlier = self.table[stream].earlier, earlier.receiver == self.receivers.current else { return 0 }
        return earlier.byteCount
    }

    mutating func begin(_ stream: StreamKey, incarnation: Int, offset: Int, _ proof: StreamProof) {
        self.table[stream].streamIncarnation = incarnation
        self.take(stream, offset: offset, proof)
    }

    mutating func walkOn(_ stream: StreamKey) -> AnswerOutcome {
        self.table[stream].walkCount += 1
        self.table[stream].isAsking = true
        self.table[stream].isPositioned = false
        self.enqueue(stream)
        return self.table[stream].walkCount % Self.walkCountMax == 0 ? .disputed : .openAgain
    }

    /// Forgets what the present receiver holds, because the file has other bytes.
    mutating func dropOffset(_ stream: StreamKey) {
        self.dropFalseEnds(stream)
        let walk = self.table[stream].walk
        let count = self.table[stream].walkCount
        self.table[stream].resume(nil)
        self.table[stream].walk = walk
        self.table[stream].walkCount = count
        self.changes.insert(stream)
    }

    /// Forgets from which batch end on the file has other bytes than were shipped: they prove nothing of its content now.
    private mutating func dropFalseEnds(_ stream: StreamKey) {
        let ends = self.table[stream].ends
        guard !ends.ends.isEmpty, case .opened(let descriptor) = self.open(stream) else { return }
        do throws(FileSystemError) {
            for end in ends.ends where try !self.holds(descriptor, end) {
                self.table[stream].ends = ends.limited(to: end.offset - 1)
                return
            }
        } catch {
            self.readFailed(stream, error)
        }
    }

    mutating func tellDifference(_ stream: StreamKey, at offset: Int) {
        let file = self.table[stream]
        self.notices.append(
            .receiverDiffers(
                self.id(of: stream), path: file.path, receiverOffset: offset, byteCount: file.byteCount))
    }
}
