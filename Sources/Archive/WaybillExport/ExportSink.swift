package import WaybillEvent
package import WaybillSystem

/// One finished record, whose pointers are valid only during the call.
package struct ExportRecord {
    /// The record with its line terminator, as written to the part.
    package let bytes: UnsafeRawBufferPointer
    /// The ids of its events, separated by commas; `-` for an event without a usable one.
    package let ids: UnsafeRawBufferPointer
    package let eventCount: Int
    package let env: DeploymentEnvironment
    /// The calendar day of its events in the report's zone.
    package let day: CalendarDay
    /// The time of its oldest event.
    package let oldest: WallTime
    package let fixes: FixCounts
    package let firstID: UnsafeRawBufferPointer
    package let lastID: UnsafeRawBufferPointer
    /// Events more than 48 hours old, which GA4 no longer joins with those that its SDK sent.
    package let late48HoursCount: Int
    /// Events received more than 24 hours after their session began, which GA4 attributes to no session.
    package let late24HoursCount: Int

    package init(
        bytes: UnsafeRawBufferPointer, ids: UnsafeRawBufferPointer, eventCount: Int, env: DeploymentEnvironment,
        day: CalendarDay, oldest: WallTime, fixes: FixCounts, firstID: UnsafeRawBufferPointer,
        lastID: UnsafeRawBufferPointer, late48HoursCount: Int, late24HoursCount: Int
    ) {
        self.bytes = bytes
        self.ids = ids
        self.eventCount = eventCount
        self.env = env
        self.day = day
        self.oldest = oldest
        self.fixes = fixes
        self.firstID = firstID
        self.lastID = lastID
        self.late48HoursCount = late48HoursCount
        self.late24HoursCount = late24HoursCount
    }
}

/// One refused event, whose pointers are valid only during the call.
package struct Refusal {
    package let reason: RefusalReason
    /// The dead letter's line, with its line feed.
    package let deadLetter: UnsafeRawBufferPointer
    package let env: DeploymentEnvironment
    package let day: CalendarDay
}

/// One event that the provider would not accept yet; pointers are valid only during the call.
package struct HeldEvent {
    /// Of this event alone.
    package let record: ExportRecord
    /// The time from which the provider accepts it.
    package let notBefore: WallTime

    package var id: UnsafeRawBufferPointer { self.record.ids }
}

/// Receives the outcome of each event.
///
/// Each event ends in exactly one call; events that share a record end in the same one.
package protocol ExportSink: ~Copyable {
    mutating func write(_ record: ExportRecord)
    mutating func refuse(_ refusal: Refusal)
    mutating func hold(_ event: HeldEvent)
    mutating func skip(_ reason: NotExported)
}
