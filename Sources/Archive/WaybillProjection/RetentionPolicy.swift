/// How long things of one kind are kept; `nil` for no limit.
package struct RetentionLimit: Hashable, Sendable {
    /// What is this many days old is deleted.
    package var dayCountMax: Int?
    /// The maximum size of all of them; the oldest are deleted first.
    package var byteCountMax: Int?

    package init(dayCountMax: Int? = nil, byteCountMax: Int? = nil) {
        self.dayCountMax = dayCountMax
        self.byteCountMax = byteCountMax
    }

    package var keepsAll: Bool { self.dayCountMax == nil && self.byteCountMax == nil }
}

/// How long what is in the data directory is kept; `nil` for no limit.
package struct RetentionPolicy: Hashable, Sendable {
    /// What a day must be before it may be deleted.
    package enum Condition: String, Hashable, Sendable, CaseIterable {
        /// Everything of it that `waybill deliver` sends was accepted.
        case delivered
    }

    /// Sealed days of archive and exports that ended this many days ago are deleted.
    package var dayCountMax: Int?
    /// The maximum size of the archive's sealed days; the oldest are deleted first.
    package var byteCountMax: Int?
    /// The minimum free space on the disk; while there is less, the oldest sealed days are deleted.
    package var freeByteCountMin: Int?
    /// Days that are still not sealed this many days after they were due are deleted.
    package var unsealedDayCountMax: Int?
    /// Days of the quarantine.
    package var quarantine = RetentionLimit()
    /// Dead letters of sealed days.
    package var dead = RetentionLimit()
    /// Files that starts could not use.
    package var setAside = RetentionLimit()
    /// Sealed days of the archive of one app, by its bundle; a limit on days takes the place of the general one.
    package var apps: [String: RetentionLimit] = [:]
    /// What a day must be before its age, the size of all, or a lack of space deletes it; `nil`: nothing.
    package var condition: Condition?
    /// The exports that are sent, for ``condition``.
    package var sentExports: [String] = []

    package init() {}

    package var keepsAll: Bool {
        self.dayCountMax == nil && self.byteCountMax == nil && self.freeByteCountMin == nil
            && self.unsealedDayCountMax == nil && self.quarantine.keepsAll && self.dead.keepsAll
            && self.setAside.keepsAll && self.apps.values.allSatisfy(\.keepsAll)
    }
}

/// A part of the data directory of which retention deletes the oldest; its name is a label of metrics.
package enum RetainedPart: String, Hashable, Sendable, CaseIterable {
    /// Sealed days of the archive.
    case archive
    /// Sealed days of an export.
    case exports
    /// Days that are not sealed although they were due, of archive and exports.
    case unsealed
    case quarantine
    /// Refused events of an export's sealed days.
    case dead
    case setAside = "set-aside"
    /// Segments of the journal that an export has not read.
    case journal
}

/// Something that was deleted, for logs and the record.
package struct Deletion: Hashable, Sendable {
    package enum Reason: String, Hashable, Sendable, CaseIterable {
        case age, bytes, free
    }

    package let part: RetainedPart
    /// The folder or file, below the data directory.
    package let path: String
    package let reason: Reason
    package let lineCount: Int
    package let byteCount: Int

    package init(part: RetainedPart, path: String, reason: Reason, lineCount: Int, byteCount: Int) {
        self.part = part
        self.path = path
        self.reason = reason
        self.lineCount = lineCount
        self.byteCount = byteCount
    }
}

/// What a round of retention did.
package struct RetentionReport: Hashable, Sendable {
    package var deletions: [Deletion] = []
    /// What the limits would delete, and ``RetentionPolicy/condition`` keeps; oldest first.
    package var kept: [Deletion] = []

    package init() {}
}
