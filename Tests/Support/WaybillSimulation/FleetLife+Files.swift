internal import WaybillTestSupport

/// How a fleet's ledger judges trouble with files.
extension FleetLife: FileLife {
    /// Kinds of trouble after which an agent does not know what it was told, or its receiver lacks what it said.
    static let forgetful: Set<FleetTrouble> = [
        .lostRegistries, .clones, .otherFleet, .lostReceivers, .restoredReceivers, .silence,
    ]

    var remembersFiles: Bool { self.troubles.isDisjoint(with: Self.forgetful) }
    var mayEndAgents: Bool { self.knows(.agentDeaths) }
    var hasSureDisks: Bool { true }
    var haveHeads: Bool { self.knows(.likeHeads) || self.knows(.regrowths) || self.knows(.likeMirrors) }
    /// Agents of a fleet see no change before they look.
    var boundsRereads: Bool { false }

    func isIgnored(_ line: ArraySlice<UInt8>) -> Bool { line.elementsEqual(FleetLedger.head.dropLast()) }

    func allowOnceMore(_ lines: [ArraySlice<UInt8>]) { self.ledger.allowOnceMore(FleetLedger.tokens(of: lines)) }

    func allowRepeats(of lines: [ArraySlice<UInt8>]) { self.ledger.allowRepeats(of: FleetLedger.tokens(of: lines)) }

    func cutAway(_ lines: [ArraySlice<UInt8>], isKnown: Bool) {
        self.ledger.cut(FleetLedger.tokens(of: lines), stored: self.bucket.tokens)
    }

    func takenAway(_ bytes: ArraySlice<UInt8>, seen: Int) {}
    func mayBeTold(lost byteCount: Int) {}
}

extension FleetAgent: FileHost {
    var isPowered: Bool { true }
    var holdsFiles: Bool { false }
    var troubledLogs: [FleetLogger] { self.logger.map { [$0] } ?? [] }

    /// Its agent looks by itself.
    func changed(_ path: String, isFolder: Bool) {}

    func newLine(filledBy byteCount: Int) -> [UInt8] {
        self.life.ledger.makeLine(filledBy: byteCount, logger: self.number, isPromised: true)
    }
}
