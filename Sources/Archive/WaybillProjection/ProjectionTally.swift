package import WaybillExport
package import WaybillSystem

/// How many lines of a projection had each outcome, since its start.
package struct ProjectionTally: Hashable, Sendable {
    /// Lines in its batches, from their headers.
    package var lineCount = 0
    package var archived = 0
    package var quarantined = 0
    /// Those of ``quarantined`` that their stream's owner may not write, by the owner's principal.
    package var notAllowed: [String: Int] = [:]
    package var exported = 0
    package var refused = 0
    /// Events that were held, minus those that were released; either may have been received before the start.
    package var held = 0
    package var skips = SkipCounts()
    /// The refusals and fixes of an export, the quarantined lines of the archive.
    package var outcomes = OutcomeCounts()
    /// Archived lines that are in `_overflow`, because an account had too many new apps or new days.
    package var overflowed = 0

    /// Parts that are open, the records in them, and when the first of these was received.
    package var openPartCount = 0
    package var openRecordCount = 0
    package var oldestOpen: WallTime?

    package init() {}

    /// Lines without an outcome, or, if negative, with more than one; always 0 unless there is a bug.
    package var unaccountedLineCount: Int {
        self.lineCount - self.archived - self.quarantined - self.exported - self.refused - self.held - self.skips.total
    }
}

/// How many events had each outcome.
package struct ExportCounts: Hashable, Sendable {
    package var exported: Int
    package var refused: Int
    package var held: Int
    package var skipped: Int

    package init(exported: Int = 0, refused: Int = 0, held: Int = 0, skipped: Int = 0) {
        self.exported = exported
        self.refused = refused
        self.held = held
        self.skipped = skipped
    }
}
