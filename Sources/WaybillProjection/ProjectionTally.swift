package import WaybillExport

/// What became of the lines that a projection read, since its start.
package struct ProjectionTally: Hashable, Sendable {
    /// Lines in its batches, as their headers say.
    package var lineCount = 0
    package var archived = 0
    package var quarantined = 0
    package var exported = 0
    package var refused = 0
    /// Events that wait for their time, less those that were released; both may have come before the start.
    package var held = 0
    package var skips = SkipCounts()

    package init() {}

    /// Lines that went nowhere, or below 0 that went to more than one place; never anything but 0.
    package var unaccountedLineCount: Int {
        self.lineCount - self.archived - self.quarantined - self.exported - self.refused - self.held - self.skips.total
    }
}
