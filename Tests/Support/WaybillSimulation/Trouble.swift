/// A kind of trouble; each life knows some of them, so that one kind does not hide another.
enum Trouble: CaseIterable, Hashable, Sendable {
    // Processes and machines.
    case appDeaths, agentDeaths, receiverDeaths
    case agentStops, receiverStops
    case sourcePowerCuts, receiverPowerCuts
    // Disks.
    case diskErrors, syncErrors, shortWrites, fullDisks, slowSyncs
    // Networks.
    case cutConnections, halfOpenConnections, stalls, partitions, twoReceivers
    // Clocks.
    case drift, clockJumps, passingDays
    // Sources.
    case rotation, lateWrites, copyTruncate, deletion, longLines, tornLines, missedHints, noHints
    // State that is lost, old, or rotten.
    case lostRegistry, oldRegistry, rottenRegistry, rottenCheckpoint, rottenJournal
    // Receivers that lost data or were given back older data; what a source's owner does meanwhile.
    case restoredData, lostData, lostTail, lostBoth, unlinkedJournal, rewrites
    // Peers that lie.
    case falseReceiver, lyingAgent
    // Agents are told apart from some time on, over data from before; strangers try what is not theirs.
    case principals
    // Configurations that are reloaded: sources come and go, and change places.
    case reloads
    // Lines that end the exports which read them.
    case poison
    // Small limits.
    case smallWindow, smallFeed, shortRetention
}

extension Trouble {
    /// Whether it comes now and then; otherwise it is there all the time.
    var isOccasional: Bool {
        switch self {
        case .appDeaths, .agentDeaths, .receiverDeaths, .agentStops, .receiverStops, .sourcePowerCuts,
            .receiverPowerCuts, .diskErrors, .syncErrors, .shortWrites, .fullDisks, .halfOpenConnections, .stalls,
            .partitions, .clockJumps, .passingDays, .rotation, .copyTruncate, .deletion, .lostRegistry, .oldRegistry,
            .rottenRegistry, .rottenCheckpoint, .rottenJournal, .restoredData, .lostData, .lostTail, .lostBoth,
            .unlinkedJournal, .rewrites, .falseReceiver, .lyingAgent, .principals:
            true
        case .cutConnections, .slowSyncs, .twoReceivers, .drift, .lateWrites, .longLines, .tornLines, .missedHints,
            .noHints, .reloads, .poison, .smallWindow, .smallFeed, .shortRetention:
            false
        }
    }
}
