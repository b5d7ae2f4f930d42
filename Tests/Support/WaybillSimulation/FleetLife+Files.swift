internal import WaybillTestSupport

/// How a fleet's ledger judges trouble with files.
extension FleetLife {
    /// Kinds of trouble after which an agent does not know what it was told, or its receiver lacks what it said.
    static let forgetful: Set<FleetTrouble> = [
        .lostRegistries, .clones, .otherFleet, .lostReceivers, .restoredReceivers, .silence,
    ]

    func isIgnored(_ line: ArraySlice<UInt8>) -> Bool { line.elementsEqual(FleetLedger.head.dropLast()) }

    func allowOnceMore(_ lines: [ArraySlice<UInt8>]) { self.ledger.allowOnceMore(FleetLedger.tokens(of: lines)) }

    func allowRepeats(of lines: [ArraySlice<UInt8>]) { self.ledger.allowRepeats(of: FleetLedger.tokens(of: lines)) }

    func cutAway(_ lines: [ArraySlice<UInt8>], isKnown: Bool) {
        self.ledger.cut(FleetLedger.tokens(of: lines), stored: self.bucket.tokens)
    }

    func takenAway(_ bytes: ArraySlice<UInt8>, seen: Int) {}
    func mayBeTold(lost byteCount: Int) {}

    func newLine(filledBy byteCount: Int, on agent: SimulatedAgent) -> [UInt8] {
        self.ledger.makeLine(filledBy: byteCount, logger: agent.number, isPromised: true)
    }
}
