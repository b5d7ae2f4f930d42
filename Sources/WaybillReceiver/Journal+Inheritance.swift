internal import WaybillJournal
internal import WaybillProtocol

/// Where a stream that its owner opens for the first time begins.
enum Inheritance {
    /// It is known, or begins at 0.
    case none
    /// Where this stream of a former owner ends.
    case from(StreamName)
    /// A stream from before the receiver knew principals ends here; the agent must show that its file has the bytes.
    case unproven(StreamOffset)
}

extension Journal {
    /// Looks a stream up under the names that its owner had, then among those without an owner.
    ///
    /// The streams of a former name are the owner's own. One without an owner may be anybody's: it goes to the principal
    /// that may adopt and whose file has the bytes below exactly its offset. `from` 0 begins another stream.
    func inheritance(of name: StreamName, _ tenancy: StreamTenancy) -> Inheritance {
        guard !self.knows(name) else { return .none }
        for owner in tenancy.tenant.formerOwners {
            let former = StreamName(principal: owner, id: name.id)
            if self.knows(former) { return .from(former) }
        }
        let ownerless = StreamName(principal: "", id: name.id)
        guard tenancy.tenant.principal.adopts, !name.principal.isEmpty, let standing = self.streams[ownerless],
            standing.durable > StreamOffset(0)
        else { return .none }
        let claim = tenancy.claim
        if claim.from == StreamOffset(0) { return .none }
        guard claim.from == standing.durable, let proof = claim.proof, proof == standing.proof.digest else {
            return .unproven(standing.durable)
        }
        return .from(ownerless)
    }
}
