internal import WaybillData
internal import WaybillDelivery
internal import WaybillFleet
internal import WaybillProjection
internal import WaybillTestSupport

/// Any bytes as the manifest of an archived day, and as the objects of a fleet's bucket, under a good checksum: read or
/// refused, and written back as they were read.
enum ManifestFuzz {
    private static let fleet = String(repeating: "5b", count: 16)

    @Sendable static func run(_ input: [UInt8]) throws {
        _ = ManifestLine.isIntact(input)
        try Self.checkClaims(input)
        let sealed = ManifestLine.sealed(input.isEmpty ? [0x7D] : input)
        for bytes in [input, sealed] {
            if let manifest = DayManifest(json: bytes) {
                try require(DayManifest(json: manifest.json) == manifest, "a day is read otherwise: \(shown(bytes))")
                _ = manifest.contradiction(in: bytes)
            }
            if let round = MergeRound(bytes, number: 1) {
                try require(MergeRound(round.encoded, number: 1) == round, "a round is read otherwise: \(shown(bytes))")
            }
            if let request = ErasureRequest(bytes, number: 1) {
                try require(
                    ErasureRequest(request.encoded, number: 1) == request,
                    "a request is read otherwise: \(shown(bytes))")
            }
            for position in [JournalPosition(0), JournalPosition(1)] {
                guard let commit = CheckpointCommit(bytes, position: position) else { continue }
                try require(
                    CheckpointCommit(commit.encoded, position: position)?.encoded == commit.encoded,
                    "a checkpoint is read otherwise: \(shown(bytes))")
            }
        }
    }

    private static func checkClaims(_ input: [UInt8]) throws {
        if case .present(let holder) = ClaimObject.claim(in: input, fleet: Self.fleet) {
            let identity = ClaimIdentity(fleet: Self.fleet, merger: holder.merger, life: holder.life)
            let again = ClaimObject.claim(of: identity, part: "p", at: holder.time)
            try require(
                ClaimObject.claim(in: again, fleet: Self.fleet) == .present(holder), "another claim: \(shown(input))")
        }
        if case .present(let done) = ClaimObject.done(in: input, fleet: Self.fleet) {
            let identity = ClaimIdentity(fleet: Self.fleet, merger: done.holder.merger, life: done.holder.life)
            let again = ClaimObject.done(done, of: identity)
            try require(
                ClaimObject.done(in: again, fleet: Self.fleet) == .present(done), "another end: \(shown(input))")
        }
    }
}
