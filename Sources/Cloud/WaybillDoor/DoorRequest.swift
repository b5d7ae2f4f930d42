package import WaybillIngest

/// A request whose events wait to be stored.
///
/// One thread hands it to another; no one changes it in between.
package final class DoorRequest: Sendable {
    package let source: IngestSource
    /// Who sent it.
    package let address: AddressGroup
    package let dialect: Dialect
    package let events: IngestedEvents
    /// What the faults point into.
    package let body: [UInt8]

    package init(
        source: IngestSource, address: AddressGroup = .unknown, dialect: Dialect, _ events: IngestedEvents,
        body: [UInt8]
    ) {
        self.source = source
        self.address = address
        self.dialect = dialect
        self.events = events
        self.body = body
    }
}

/// The result of storing a request.
package enum DoorOutcome: Hashable, Sendable {
    case stored(DoorCounts)
    /// The disk is full, or has less room than is reserved: the sender keeps its events.
    case full
    /// The key's events take so much of the disk that the rest is left to other keys.
    case share
    /// The files cannot be written.
    case failed
}

/// The results of a request's events; a user event that another one's properties made counts with it.
package struct DoorCounts: Hashable, Sendable {
    package var storedCount = 0
    /// Events that had been stored before.
    package var repeatedCount = 0
    /// Events in the quarantine.
    package var quarantinedCount = 0
    /// Faulty events that the quarantine had no room for.
    package var droppedCount = 0

    package init(storedCount: Int = 0, repeatedCount: Int = 0, quarantinedCount: Int = 0, droppedCount: Int = 0) {
        self.storedCount = storedCount
        self.repeatedCount = repeatedCount
        self.quarantinedCount = quarantinedCount
        self.droppedCount = droppedCount
    }

    package static func += (left: inout DoorCounts, right: DoorCounts) {
        left.storedCount += right.storedCount
        left.repeatedCount += right.repeatedCount
        left.quarantinedCount += right.quarantinedCount
        left.droppedCount += right.droppedCount
    }
}

extension DoorOutcome {
    var isStored: Bool {
        switch self {
        case .stored: true
        case .full, .share, .failed: false
        }
    }
}
