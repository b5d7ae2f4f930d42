internal import WaybillProtocol

/// The number of a foreign file's content in the ids of its streams at all receivers of a fleet, and the proof that shows
/// which content has it.
struct ContentNumber: Hashable, Sendable {
    let number: Int
    /// The end of what was sent or skipped under this number, with the proof for the file's bytes below it.
    ///
    /// `nil` before anything was. It is never behind what was sent, so a file with other bytes there has another content.
    var sent: Anchor?
    /// How many of the first bytes the fleet holds in a sealed stream with a lower number: streams with this one begin with
    /// a skip of them.
    let heldBelow: Int

    var text: String {
        "\(self.number):\(self.sent?.end ?? 0):\(self.sent?.digest.text ?? "-"):\(self.heldBelow)"
    }

    init(number: Int, sent: Anchor? = nil, heldBelow: Int = 0) {
        self.number = number
        self.sent = sent
        self.heldBelow = heldBelow
    }

    /// Parses one; `nil` for any other text.
    init?(_ text: Substring) {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 4, let number = parts[0].asCount, let end = parts[1].asCount,
            let heldBelow = parts[3].asCount, heldBelow <= end
        else { return nil }
        var sent: Anchor?
        if end > 0 {
            guard let digest = ProofDigest(parts[2].utf8) else { return nil }
            sent = Anchor(end: end, digest: digest)
        } else if parts[2] != "-" {
            return nil
        }
        self.init(number: number, sent: sent, heldBelow: heldBelow)
    }
}
