package import WaybillProtocol
package import WaybillSystem

/// A byte position in the journal, over all segments.
package struct JournalPosition: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let rawValue: Int

    package init(_ rawValue: Int) {
        self.rawValue = rawValue
    }

    package static func < (left: JournalPosition, right: JournalPosition) -> Bool {
        left.rawValue < right.rawValue
    }

    package var description: String {
        String(self.rawValue)
    }
}

/// An entry of the next group.
struct StagedEntry {
    let name: StreamName
    let entry: JournalEntry
    /// The stream's new description, if the journal does not have it yet.
    let description: StreamDescription?
}

/// A message from an agent that the journal stores.
package enum JournalEntry: Sendable {
    /// A fully checked batch, its payload as received, and the bytes that it inflates to.
    case batch(BatchHeader, payload: SharedBytes, raw: SharedBytes)
    case skip(SkippedRange)
    case seal(length: StreamOffset)
    /// The standing of a stream that begins where another owner's ended; see ``Journal/adopt(_:as:)``.
    case standing(StreamStanding)
}

/// The result of staging an entry.
package enum StagingResult: Hashable, Sendable {
    case staged
    /// The journal already holds the entry; the stream's offset is attached.
    case alreadyHeld(StreamOffset)
    /// The stream ended here: nothing can follow.
    case sealed(StreamOffset)
    /// The entry does not begin at the stream's offset.
    case gap(StreamOffset)
}
