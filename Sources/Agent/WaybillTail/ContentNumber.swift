internal import WaybillProtocol

/// The number of a foreign file's content in the ids of its streams at all receivers of a fleet, and the proof that shows
/// which content has it.
struct ContentNumber: Hashable, Sendable {
    let number: Int
    /// The end of what was sent or skipped under this number, with the proof for the file's bytes below it.
    ///
    /// `nil` before anything was. It is never behind what was sent, so a file with other bytes there has another content.
    var sent: Anchor?
    /// What the fleet holds in a sealed stream with a lower number: streams with this one begin with a skip of it there.
    let held: FleetBytes?

    var text: String {
        "\(self.number):\(self.sent?.end ?? 0):\(self.sent?.digest.text ?? "-"):\(self.held?.text ?? "0")"
    }

    init(number: Int, sent: Anchor? = nil, held: FleetBytes? = nil) {
        self.number = number
        self.sent = sent
        self.held = held
    }

    /// Parses one; `nil` for any other text.
    init?(_ text: Substring) {
        let parts = text.split(separator: ":", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, let number = parts[0].asCount, let end = parts[1].asCount else { return nil }
        var sent: Anchor?
        if end > 0 {
            guard let digest = ProofDigest(parts[2].utf8) else { return nil }
            sent = Anchor(end: end, digest: digest)
        } else if parts[2] != "-" {
            return nil
        }
        var held: FleetBytes?
        if parts[3] != "0" {
            guard let bytes = FleetBytes(parts[3]), bytes.byteCount <= end else { return nil }
            held = bytes
        }
        self.init(number: number, sent: sent, held: held)
    }
}

/// The first bytes of a content, as far as a fleet holds them.
struct FleetBytes: Hashable, Sendable {
    /// The fleet's ordinal (``RememberedFleet``).
    let fleet: Int
    let byteCount: Int

    var text: String { "\(self.byteCount):\(self.fleet)" }

    init(fleet: Int, byteCount: Int) {
        self.fleet = fleet
        self.byteCount = byteCount
    }

    /// Parses some, but not none; `nil` for any other text.
    init?(_ text: Substring) {
        guard let (byteCount, fleet) = text.asCounts, byteCount > 0, fleet > 0 else { return nil }
        self.init(fleet: fleet, byteCount: byteCount)
    }

    /// `nil` for another fleet, which does not hold them.
    func byteCount(in fleet: Int) -> Int? { self.fleet == fleet ? self.byteCount : nil }
}
