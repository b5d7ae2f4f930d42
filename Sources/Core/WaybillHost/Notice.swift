/// A warning or an error of a program, by its identifier.
///
/// Constraints:
/// - An identifier is `WB` and four digits: 1000 and more for the receiver and the door, 2000 for the agent, 3000 for deliveries,
///   4000 for what any program may end with. It stays the same for ever, and a retired one is never used again.
/// - Each has a cause, an effect and a remedy (``text``): `waybill explain WB1203` prints them, and
///   `Documentation/messages.md` is made from them.
/// - `Logger.warning(_:_:metadata:)` and its like take one, and `TidyTests` refuses a warning or an error without.
package enum Notice: Int, CaseIterable, Sendable {
    // The receiver: journal and start.
    case segmentSetAside = 1001
    case recordsLost = 1002
    case startDelayed = 1003
    case journalDamaged = 1004
    case commitSlow = 1005
    case commitFailed = 1006
    case journalLost = 1007
    case retirementFailed = 1008
    case clockDoubted = 1009
    case journalTooLarge = 1010

    // The receiver: configuration.
    case restartNeeded = 1101
    case reloadRefused = 1102
    case certificateExpired = 1103
    case dataOpenToOthers = 1104

    // The receiver: connections.
    case agentRefused = 1201
    case agentDenied = 1202
    case tlsRefused = 1203
    case batchRefused = 1204
    case auditFailed = 1205
    case proxyRefused = 1206

    // The receiver: archive and exports.
    case projectionRecovered = 1301
    case projectionFailed = 1302
    case projectionHeld = 1303
    case linksNotSetAside = 1304
    case linksSetAside = 1305
    case partsNotClosed = 1306
    case linesQuarantined = 1307
    case eventsRefused = 1308
    case eventsChanged = 1309
    case eventsSkipped = 1310
    case unsealedDayDeleted = 1311
    case daysNotDelivered = 1312
    case journalFreed = 1313
    case exportMissed = 1314
    case readerDied = 1315
    case poisonSetAside = 1316
    case readerStopped = 1317
    case readerEnded = 1318

    // The receiver: its bucket.
    case uploadFailed = 1401
    case chainDiverged = 1402
    case mergeFailed = 1403
    case mergeConflict = 1404
    case pieceDamaged = 1405
    case publishFailed = 1406
    case publishDiffers = 1407
    case erasureWaits = 1408
    case erasedDayRepaired = 1409
    case checkpointFailed = 1420
    case piecesKept = 1421
    case mergerRestored = 1422
    case clocksApart = 1423
    case agentsDiffer = 1431
    case restoreLacks = 1441
    case restoreLeavesOut = 1442

    // The door.
    case doorFull = 1501
    case doorFailed = 1502
    case doorReceiverAway = 1503
    case doorQuarantineKept = 1506
    case doorRestartNeeded = 1511
    case doorReloadRefused = 1512

    // The agent: state.
    case registryDamaged = 2001
    case deviceKeyDamaged = 2002
    case registryEntriesUnreadable = 2003
    case stateOpenToOthers = 2004
    case registryFailed = 2005
    case agentRestartNeeded = 2006
    case agentReloadRefused = 2007

    // The agent: the receiver.
    case disconnected = 2101
    case receiverOlder = 2102
    case linesQuarantinedThere = 2103
    case eventsRefusedThere = 2104
    case streamRefused = 2105
    case receiverForgot = 2106
    case segmentsMissing = 2107
    case acksMissing = 2108
    case segmentsReturned = 2109
    case fleetDoubted = 2110

    // The agent: sources.
    case spoolUnusable = 2201
    case nothingMatches = 2202
    case foldersDenied = 2203
    case foldersPolled = 2204
    case fileUnreadable = 2205
    case fileRefused = 2206
    case foreignFormat = 2207
    case notRegular = 2208
    case notSegment = 2209
    case fileCut = 2210
    case fileGone = 2211
    case duplicateSegment = 2212
    case segmentDisputed = 2213
    case notReshipped = 2214
    case segmentShortened = 2215
    case segmentUndeletable = 2216
    case segmentGrew = 2217
    case lineTooLong = 2218
    case lineWithoutEnd = 2219
    case longLineNotKept = 2220
    case segmentAwaits = 2221
    case fewDescriptors = 2222
    case fileShorter = 2223
    case endUnseen = 2224
    case mountHangs = 2225
    case locksUnseen = 2226
    case fileHole = 2227

    // Deliveries.
    case deliveryRefused = 3001
    case deliveryFailed = 3002
    case connectionsNotClosed = 3003
    case dayRemade = 3004
    case partRemade = 3005
    case requestNotAccepted = 3006
    case deliveryStateRecovered = 3007
    case partDamaged = 3008
    case deliveryReloadRefused = 3009
    case environmentWithoutCredentials = 3010
    case claimsNotAsked = 3011
    case claimDamaged = 3012
    case partTakenOver = 3013
    case partHeldElsewhere = 3014
    case dayInDoubt = 3015

    // What any program may end with.
    case usageWrong = 4001
    case configurationWrong = 4002
    case inUse = 4003
    case filesUnusable = 4004
    case addressUnusable = 4005
    case unreachable = 4006
    case tlsUnusable = 4007
    case exportsConflict = 4008
    case inputUnreadable = 4009
    case inputWrong = 4010
    case credentialsRefused = 4011
    case libraryFailed = 4012
    case storeUnsafe = 4013
    case interrupted = 4014
    case nameChanged = 4015

    /// `WB` and four digits.
    package var id: String { "WB\(self.rawValue)" }

    /// - Parameter id: as a log line has it; letters of either case.
    package init?(id: String) {
        guard id.count == 6, id.lowercased().hasPrefix("wb"), let number = Int(id.dropFirst(2)) else { return nil }
        self.init(rawValue: number)
    }

    /// Identifiers of earlier versions, which no notice may have again.
    package static let retired: Set<Int> = []

    /// Why it is logged, what follows from it, and what to do.
    package var text: NoticeText {
        guard let text = Self.texts[self] else { preconditionFailure("\(self.id) has no text") }
        return text
    }

    static let texts: [Notice: NoticeText] = NoticeText.journal
        .merging(NoticeText.connections) { $1 }
        .merging(NoticeText.projections) { $1 }
        .merging(NoticeText.fleet) { $1 }
        .merging(NoticeText.ingest) { $1 }
        .merging(NoticeText.agent) { $1 }
        .merging(NoticeText.sources) { $1 }
        .merging(NoticeText.deliveries) { $1 }
        .merging(NoticeText.programs) { $1 }
}

extension Notice: CustomStringConvertible {
    package var description: String { self.id }
}

/// What a notice means.
package struct NoticeText: Sendable {
    package let title: String
    package let cause: String
    package let effect: String
    package let remedy: String
    /// The members of a line that name the object concerned.
    ///
    /// Lines of one identifier and object are one cause, which is written once a minute. `nil` if each line is written:
    /// what logs it has a pace of its own, or answers an operator.
    package let object: [String]?

    init(_ title: String, of object: [String]?, cause: String, effect: String, remedy: String) {
        self.title = title
        self.object = object
        self.cause = cause
        self.effect = effect
        self.remedy = remedy
    }
}
