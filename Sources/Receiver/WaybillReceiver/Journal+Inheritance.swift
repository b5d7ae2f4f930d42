internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// Where a stream that its owner opens for the first time begins.
enum Inheritance {
    /// It is known, or begins at 0.
    case none
    /// Where this stream of a former owner ends.
    case from(StreamStanding)
    /// A stream from before the receiver knew principals ends here; the agent must show that its file has the bytes.
    case unproven(StreamOffset)
}

extension Journal {
    /// Looks a stream up under the names that its owner had, then among those without an owner.
    ///
    /// The streams of a former name are the owner's own. One without an owner may be anybody's: it goes to the principal
    /// that may adopt and whose file has the bytes below exactly its offset. `from` 0 begins another stream.
    ///
    /// - Parameter description: of a stream that is not a resting one.
    func inheritance(
        of description: StreamDescription, _ tenancy: StreamTenancy
    ) throws(FileSystemError) -> Inheritance {
        guard !self.knows(description.name) else { return .none }
        var former = description
        for owner in tenancy.tenant.formerOwners {
            former.owner = StreamOwner(principal: owner)
            if let standing = try self.standing(of: former) { return .from(standing) }
        }
        former.owner = .everyone
        guard tenancy.tenant.principal.adopts, !description.owner.principal.isEmpty,
            let standing = try self.standing(of: former)
        else { return .none }
        let claim = tenancy.claim
        if claim.from == StreamOffset(0) { return .none }
        guard standing.durable > StreamOffset(0) else {
            // A log's later contents have the numbers that follow: the agent must not begin at this one again.
            return standing.isSealed && description.format != .waybill ? .from(standing) : .none
        }
        guard claim.from == standing.durable, let proof = claim.proof, proof == standing.proof.digest else {
            return .unproven(standing.durable)
        }
        return .from(standing)
    }
}
