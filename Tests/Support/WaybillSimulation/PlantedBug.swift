/// Mistakes that collectors have made, planted where the shipped code meets the disk: a simulation is worth something
/// only as long as it catches them.
package enum PlantedBug: String, CaseIterable, Hashable, Sendable {
    /// The journal answers before its bytes are durable.
    case skipJournalSync
    /// A new or renamed file's name is never made durable.
    case skipDirectorySync
    /// A checkpoint is durable before the files that it speaks of.
    case checkpointBeforeData
    /// A failed sync is taken for a good one.
    case trustFailedSync
    /// A failed write is taken for a good one.
    case trustFailedWrites
    /// A write that stored a part only is taken for a whole one.
    case trustShortWrites
    /// What lies behind a checkpoint is not cut off.
    case keepTails

    /// A sealed file is never synced; the one that it was made of is deleted all the same.
    case skipSealSync
    /// That a day was sealed is forgotten: its lines go to the file that the next seal replaces.
    case forgetSeals

    /// The files that an erasure makes again are not synced before they take the place of the old ones.
    case skipErasureSync
    /// A start reads events without the record of erased people.
    case forgetErasures
    /// A start does not finish the exchange of files that an erasure has begun.
    case leaveErasures

    /// A start reads events without the record of the lines that end it.
    case forgetPoison

    // What agents believe of receivers.
    /// An agent continues from any offset, whatever its proof.
    case believeWithoutProof
    /// An agent continues from the offset that its registry has, whatever the proof.
    case registryOverProof
    /// A proof may cover as many bytes as its maker likes.
    case proverChoosesCount
    /// A segment is deleted when the receiver calls it sealed, whatever was sent.
    case sealOnWord
    /// Bytes that someone skipped count as held.
    case takeSkipsForBytes
    /// A file that was disputed once is never asked for again.
    case setAside
    /// What a receiver held counts for the one that has taken its place.
    case keepOffsets
    /// A receiver that came back older is told by its end alone: others may have made it grow again.
    case compareEndsAlone
    /// The same, by its end and its last start alone.
    case compareLastStartAlone
    /// The ends that come with answers are not remembered.
    case ignoreAnswerEnds
    /// A receiver is known by its incarnation, whatever the address: a false one can take the place of another.
    case ignoreAddress

    // What receivers remember.
    /// Only the last start is remembered.
    case forgetStarts
    /// The journal's open file is not compared with its path: what is acknowledged after it was deleted is gone.
    case trustUnlinkedJournal
    /// That a stream was sealed is forgotten with the segment of the journal in which it was.
    case forgetSealedStreams

    // How receivers tell owners apart.
    /// A stream is named by its id alone: any agent that opens it moves it.
    case nameStreamsByID
    /// A stream from before there were principals goes to the first principal that asks for it.
    case adoptWithoutProof
    /// The patterns of a principal are compared with `OPEN`, and not with every line.
    case checkPatternsAtOpenAlone
    /// `SKIP` and `SEAL` are taken from anybody who names the stream.
    case skipByAnybody

    // Where the shipped code meets the network and the other files.
    /// Batches are acknowledged when they arrive, before they are durable.
    case ackBeforeCommit
    /// The agent begins again where its registry stands, and the receiver appends what comes.
    case resendWithoutAsking
    /// The agent continues where its registry stands, whatever the receiver says.
    case registryOverReceiver
    /// A segment is deleted once all of it is acknowledged, though its writer continues.
    case deleteOnAck
    /// A reload of the agent's configuration takes what is on its way for delivered.
    case trustFlightAtReload
    /// A file that its writer has locked is taken for a finished one.
    case ignoreLocks
    /// The journal is let go once the archive is past it, whatever the exports have read.
    case retireUnread
    /// A line is stored twice and its neighbour not at all: the number of lines is right.
    case countInsteadOfCompare

    // Which file is which.

    /// A process without a free descriptor takes that for an error of the disk.
    case ignoreFewDescriptors
    /// Inode and device alone say which file it is: what was renamed over a file is another content.
    case identifyByInode
    /// What is shorter than what was read is another content at once.
    case shorterIsAnother
    /// A file that is not at its name is looked for in the folder of that name alone.
    case searchParentAlone
    /// The ids of a content that left its inode are given to the next file there.
    case reuseStems
    /// A content that follows another one in its file gets the number of that one.
    case keepNumbers
    /// Two files may continue one content.
    case twoSuccessors
    /// NULs before a line are skipped at once.
    case trustHoles
    /// A spool is where its link led at the start.
    case followLinksOnce

    // What retention deletes.
    /// A day goes for its age, whether or not its events were delivered.
    case deleteUndelivered
    /// The journal is bounded whatever the archive has read.
    case freeUnarchived

    // Of a fleet.

    /// An agent tells the next receiver what the last one acknowledged, as if the bucket had it.
    case sayAcknowledged
    /// A piece is put under its name whatever is there.
    case overwritePieces
    /// A name that is taken counts as one's own piece, without comparing.
    case trustTakenKeys

    /// `SEALED` is said when the end is durable at the receiver, before the bucket has it.
    case sealBeforeStored
    /// A merger remembers only how far it has each stream.
    case rememberEndsAlone
    /// A merger takes a batch of which it has some lines for one that it has.
    case mergeWholeBatches
    /// A merger drops what it has at the same offset, whatever the bytes.
    case mergeWithoutComparing
    /// A chain is named after its receiver alone: a directory that was put back writes under the same keys.
    case shareChains
    /// A merger remembers one position for all chains.
    case oneMergePosition
    /// A merger remembers the greatest key that it has merged, of all chains, and looks only behind it.
    case mergeInNameOrder
    /// An agent believes of one fleet what another one has stored.
    case ignoreFleet
    /// An agent continues from any offset of a fleet's receiver, whatever its file holds there.
    case ignoreProofsOfFleet
    /// An agent numbers the contents of a log for each receiver by itself.
    case numberForEachReceiver
    /// A merger has days sealed without waiting for a receiver that is behind.
    case sealWithoutWaiting
    /// A merger has days sealed that are over by its own clock alone.
    case believeOwnClock

    /// A merger erases where it stands when it finds a request, whatever the rounds say.
    case eraseAtSight
    /// A merger that was killed takes the next erasure for applied.
    case forgetPendingErasures
    /// A merger that was killed forgets which lines are not read.
    case forgetSetAsides

    /// Those of a fleet.
    package static let ofFleet: [PlantedBug] = [
        .sayAcknowledged, .overwritePieces, .trustTakenKeys, .sealBeforeStored, .rememberEndsAlone, .mergeWholeBatches,
        .mergeWithoutComparing, .shareChains, .oneMergePosition, .mergeInNameOrder, .ignoreFleet, .ignoreProofsOfFleet,
        .numberForEachReceiver, .sealWithoutWaiting, .believeOwnClock, .eraseAtSight, .forgetPendingErasures,
        .forgetSetAsides,
    ]

    /// Those of files, with the trouble in which each is met.
    package static let ofFiles: [PlantedBug: FileTrouble] = [
        .ignoreFewDescriptors: .fewDescriptors, .identifyByInode: .mirrors, .shorterIsAnother: .dips,
        .searchParentAlone: .realFolders, .reuseStems: .mirrors, .keepNumbers: .retractions, .twoSuccessors: .copies,
        .trustHoles: .holes, .followLinksOnce: .linkedSpools,
    ]

    /// Those of files that lives of fleets meet, too.
    package static let ofFilesInFleets = [PlantedBug.ignoreFewDescriptors, .shorterIsAnother, .trustHoles].filter {
        Self.ofFiles[$0].map { FileTrouble.keptInFleets.contains($0) } ?? false
    }

    /// Those of retention.
    package static let ofRetention: [PlantedBug] = [.deleteUndelivered, .freeUnarchived]

    /// Those that a disk alone can have.
    package static let ofStorage: [PlantedBug] = [
        .skipJournalSync, .skipDirectorySync, .checkpointBeforeData, .trustFailedSync, .trustFailedWrites,
        .trustShortWrites, .keepTails, .skipSealSync, .forgetSeals, .skipErasureSync, .forgetErasures, .leaveErasures,
    ]
}
