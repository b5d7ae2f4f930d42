internal import WaybillExport
internal import WaybillProtocol

/// How a site's ledger judges trouble with files.
extension SiteLife {
    var loggers: [SimulatedLogger] { self.agent.loggers }

    /// Kinds of trouble after which an agent does not know what it was told, or its receiver lacks what it said.
    static let forgetful: Set<Trouble> = [
        .lostRegistry, .oldRegistry, .rottenRegistry, .restoredData, .lostData, .lostTail, .lostBoth,
        .unlinkedJournal, .falseReceiver, .lyingAgent, .principals, .sourcePowerCuts, .twoReceivers, .reloads,
        .rottenJournal, .rottenCheckpoint, .passingDays, .rewrites,
    ]

    /// What is the same all through a life with these kinds of trouble.
    static func rules(
        _ troubles: Set<Trouble>, _ files: Set<FileTrouble>, openFileCountMax: Int, journalSegmentByteCount: Int,
        batchByteCountMax: Int
    ) -> LifeRules {
        func lacks(_ others: Set<Trouble>) -> Bool { troubles.isDisjoint(with: others) }
        var rules = LifeRules(
            journalSegmentByteCount: journalSegmentByteCount, batchByteCountMax: batchByteCountMax,
            latencies: [50...200, 1_000...30_000, 20_000...200_000], killsAgents: troubles.contains(.agentDeaths),
            killsReceivers: troubles.contains(.receiverDeaths), remembersFiles: lacks(Self.forgetful),
            mayEndAgents: !lacks([.agentDeaths, .agentStops, .rewrites]),
            logs: LogRules(
                haveHeads: troubles.contains(.rewrites) || !files.isDisjoint(with: [.regrowths, .likeMirrors]),
                haveLongLines: troubles.contains(.longLines), haveTornLines: troubles.contains(.tornLines),
                haveLateWrites: troubles.contains(.lateWrites)))
        rules.cutsConnections = troubles.contains(.cutConnections)
        rules.drifts = troubles.contains(.drift)
        rules.hasHints = !troubles.contains(.noHints)
        rules.missesHints = troubles.contains(.missedHints)
        rules.slowsSyncs = troubles.contains(.slowSyncs)
        rules.exportChoices = [[], [.csv], [.mixpanel], [.ga4, .csv], [.ga4, .mixpanel, .csv]]
        rules.copiesSlowly = lacks([.shortRetention, .passingDays])
        rules.hasSureDisks = lacks([.diskErrors, .syncErrors, .fullDisks, .shortWrites])
        // An agent that sees each change at once, and has descriptors for all files.
        let isAttentive =
            rules.remembersFiles && openFileCountMax == 512
            && lacks([.agentDeaths, .agentStops, .missedHints, .noHints])
            && files.isDisjoint(with: [.fewDescriptors, .deviceNumbers, .bareRemounts])
        rules.boundsRereads = isAttentive
        rules.holdsFiles =
            isAttentive
            && lacks([
                .sourcePowerCuts, .reloads, .lostRegistry, .oldRegistry, .rottenRegistry, .diskErrors, .fullDisks,
                .shortWrites, .passingDays,
            ])
        return rules
    }

    func allowOnceMore(_ lines: [ArraySlice<UInt8>]) { self.ledger.allowCopy(of: lines) }

    func allowRepeats(of lines: [ArraySlice<UInt8>]) { self.ledger.allowRepeats(of: lines) }

    func cutAway(_ lines: [ArraySlice<UInt8>], isKnown: Bool) {
        for line in lines { self.ledger.cutAway(line, isKnown: isKnown) }
    }

    /// What of these bytes was not delivered may be told as lost, and what the agent has seen of it must be.
    func takenAway(_ bytes: ArraySlice<UInt8>, seen: Int) {
        guard self.knows(.exactLoss) else { return }
        let before = self.lossByteCountMax
        var start = bytes.startIndex
        while start < bytes.endIndex {
            let end = bytes[start...].firstIndex(of: 0x0A) ?? bytes.endIndex
            let line = bytes[start..<end].drop { $0 == 0 }
            if !self.ledger.isAcknowledged(line) {
                // Of NULs that were never read, no one knows that they are a hole.
                self.lossByteCountMax += min(end + 1, bytes.endIndex) - start
                if end - bytes.startIndex < seen { self.seenAway.append(line) }
            }
            start = end + 1
        }
        self.note("\(bytes.count) bytes are taken away, and no receiver has \(self.lossByteCountMax - before) of them")
    }

    func mayBeTold(lost byteCount: Int) { self.lossByteCountMax += byteCount }

    /// What is wrong with the loss that was told; `nil` when all is well.
    func lossProblem(stored: [[ArraySlice<UInt8>: Int]]) -> String? {
        let hiding: Set<Trouble> = [
            .agentDeaths, .agentStops, .falseReceiver, .lyingAgent, .twoReceivers, .rottenJournal, .diskErrors,
            .syncErrors, .shortWrites, .fullDisks, .rewrites,
        ]
        // A remount kills the agent.
        guard self.knows(.exactLoss), self.rules.remembersFiles, self.troubles.isDisjoint(with: hiding),
            self.fileTroubles.isDisjoint(with: [.deviceNumbers, .bareRemounts])
        else { return nil }
        let told = self.agent.tally.lostByteCount
        if told > self.lossByteCountMax {
            return "\(told) bytes are told to be lost, and at most \(self.lossByteCountMax) are"
        }
        // What the agent has seen of a file for which it has no descriptor counts once it is read.
        let blind: Set<FileTrouble> = [.fewDescriptors, .retractions, .regrowths]
        guard self.openFileCountMax == 512, self.fileTroubles.isDisjoint(with: blind),
            self.troubles.isDisjoint(with: [.missedHints, .noHints])
        else { return nil }
        let least = self.seenAway.reduce(0) { sum, line in
            sum + (self.ledger.isWritten(line) && !stored.contains { $0[line] != nil } ? line.count + 1 : 0)
        }
        return told < least ? "\(least) bytes were seen and are lost, and \(told) are told" : nil
    }
}
