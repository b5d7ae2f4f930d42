/// A kind of trouble with the files of a source's host, as hosts have them.
///
/// Drawn by dice of their own: a life without one is what it was, and a kind that agents begin to keep changes no life
/// that does not have it.
package enum FileTrouble: String, CaseIterable, Hashable, Sendable {
    /// The file system has another device number after a restart.
    case deviceNumbers
    /// The file system does not know when files were created: a new file in an old inode has no mark of its own.
    case missingBirths
    /// Both in one life: nothing but a file's content says which one it is.
    case bareRemounts
    /// The agent has few descriptors, and other parts of it need some of them.
    case fewDescriptors
    /// Logs behind links: rotated as a kubelet does, in folders that are renamed, behind a `current` that is swapped.
    case links
    /// Of logs behind links the agent finds again what it knows, in the folder that the file really is in.
    case realFolders
    /// A file is written again and renamed over its old name, with all that it had and more, as `rsync` and editors do.
    case mirrors
    /// The same with a file that only begins as the old one does.
    case likeMirrors
    /// A file is copied, and both grow.
    case copies
    /// A file is copied to a name of its source and then cut to nothing.
    case copyTruncates
    /// A file is shorter for less than five seconds, and then has its bytes again.
    case dips
    /// The last lines of a file are taken back, and it grows on otherwise.
    case retractions
    /// A file is cut to nothing and grows past what was read, and begins as before.
    case regrowths
    /// No trouble, but a judgement: what is told to be lost is compared with what is, to the byte.
    case exactLoss
    /// A writer continues behind NULs, a page of them or more: they are a hole, or bytes that are shown a little later.
    case holes
    /// The spool is behind a link, which leads elsewhere now and then.
    case linkedSpools

    /// Those that lives of fleets may have: what of a file is lost is known there only once its receivers are.
    package static let ofFleet = Set(Self.allCases).subtracting([.exactLoss, .linkedSpools])

    /// Those with which agents of a fleet keep every promise.
    package static let keptInFleets: Set<FileTrouble> = [
        .deviceNumbers, .fewDescriptors, .links, .copies, .copyTruncates, .dips,
    ]
}

extension FileTrouble {
    /// Draws the kinds that a life knows.
    ///
    /// - Parameters:
    ///   - troubles: others, of which those are taken in half of these lives that make agents forget: what a file is
    ///     shows only to one that remembers.
    ///   - forgetful: those that make agents forget.
    /// - Returns: the kinds, and the dice of the life's files.
    static func draw<Other>(
        seed: UInt64, among allowed: Set<FileTrouble>, beside troubles: inout Set<Other>, forgetful: Set<Other>
    ) -> (kinds: Set<FileTrouble>, dice: Dice) {
        let dice = Dice(seed: seed ^ 0x6669_6C65_7300_0000)
        let isTroubled = dice.chance(500)
        let isRemembered = dice.chance(500)
        let drawn = Set(Self.allCases.filter { _ in dice.chance(300) })
        guard isTroubled, !drawn.isDisjoint(with: allowed) else { return ([], dice) }
        if isRemembered { troubles.subtract(forgetful) }
        return (Self.settled(drawn.intersection(allowed)), dice)
    }

    /// Leaves out what two kinds together would make of a life.
    private static func settled(_ kinds: Set<FileTrouble>) -> Set<FileTrouble> {
        var kinds = kinds
        if kinds.contains(.bareRemounts) {
            kinds.formUnion([.missingBirths])
        } else if kinds.contains(.missingBirths) {
            kinds.remove(.deviceNumbers)
        }
        if !kinds.contains(.links) { kinds.remove(.realFolders) }
        return kinds
    }

    /// Of what is changed in the middle, a power cut leaves what no operator has seen.
    static let withoutPowerCuts: Set<FileTrouble> = [.links, .realFolders, .dips, .retractions, .holes, .linkedSpools]

    /// Whether someone does it to a log now and then.
    var isOccasional: Bool {
        switch self {
        case .deviceNumbers, .bareRemounts, .fewDescriptors, .links, .mirrors, .likeMirrors, .copies, .copyTruncates,
            .dips, .retractions, .regrowths, .holes, .linkedSpools:
            true
        case .missingBirths, .realFolders, .exactLoss: false
        }
    }
}
