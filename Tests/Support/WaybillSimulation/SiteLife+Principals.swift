internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillTestSupport

/// Whose streams are whose, once the receivers tell agents apart.
struct Ownership {
    /// Whether `agents` is in the receivers' configuration.
    var isKept = false
    /// Whether the strangers' principal may adopt streams too.
    var othersAdopt = false
    /// Lines that strangers wrote outside their patterns.
    var forged: Set<ArraySlice<UInt8>> = []

    /// The principal of the simulated agent.
    static let agent = "shop"
    /// The principal of all strangers.
    static let others = "others"
    static let othersBundle = "com.rival.app"

    static func token(of principal: String) -> String { "a token of \(principal), long enough" }
}

/// Principals, which are switched on over data from before.
extension SiteLife {
    /// `agents` in the receivers' configuration; `nil` at first.
    var principals: [Principal]? {
        guard self.ownership.isKept else { return nil }
        var agent = Principal(name: Ownership.agent)
        agent.bundles = ["com.example.*"]
        agent.adopts = true
        var others = Principal(name: Ownership.others)
        others.bundles = [Ownership.othersBundle]
        others.adopts = self.ownership.othersAdopt
        return [agent, others].map { principal in
            var principal = principal
            principal.tokens = [TokenDigest(of: Ownership.token(of: principal.name))]
            principal.environments = ["prod"]
            return principal
        }
    }

    /// Switches principals on; from then on a stranger tries something that is not its own.
    func tellApart(_ receiver: SimulatedReceiver) {
        guard self.ownership.isKept else {
            self.ownership.isKept = true
            self.ownership.othersAdopt = self.dice.chance(500)
            self.note("principals are switched on")
            for receiver in self.receivers {
                if self.dice.chance(500) { receiver.kill() } else { receiver.stop() }
            }
            return
        }
        guard let description = self.agent.anyStream else { return }
        self.admit(receiver, to: .intrude(description, self.dice.pick(Intrusion.allCases)))
    }

    /// The agent begins a stream of its own under the id of one from before, which holds other bytes.
    ///
    /// A stranger had changed that one: what the agent had shipped before comes again.
    func beginsOwnStream(_ id: StreamID, of path: String) {
        guard self.tainted.contains(id) else { return }
        let bytes = self.agent.disk.memory.bytes(of: path) ?? []
        self.ledger.allowRepeats(of: bytes.split(separator: 0x0A))
    }

    /// A line in an archive that its writer's patterns do not allow.
    var trespass: String? {
        guard !self.ownership.forged.isEmpty else { return nil }
        for receiver in self.receivers {
            for (path, bytes) in receiver.disk.storedFiles() where path.hasPrefix("/data/archive/") {
                let line = bytes.split(separator: 0x0A).first { self.ownership.forged.contains($0) }
                if let line {
                    return "\(receiver.label) archived a line outside the patterns: \(PromiseLedger.text(line))"
                }
            }
        }
        return nil
    }
}
