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

/// A message from an agent that the journal stores.
package enum JournalEntry: Sendable {
    /// A fully checked batch, its payload as received, and the bytes that it inflates to.
    case batch(BatchHeader, payload: SharedBytes, raw: SharedBytes)
    case skip(SkippedRange)
    case seal(length: StreamOffset)
    /// The standing of a stream that begins where another owner's ended; see ``Journal/adopt(_:as:)``.
    case standing(StreamStanding)

    /// Why it does not continue a stream with this offset; `nil` if it does.
    ///
    /// What was held or sealed before is so still; nothing follows a seal.
    func misfit(at position: StreamOffset, isSealed: Bool) -> StagingResult? {
        let range: (start: StreamOffset, end: StreamOffset)
        switch self {
        case .batch(let header, _, _): range = (header.offset, header.end)
        case .skip(let skipped): range = (skipped.offset, skipped.end)
        case .seal(let length):
            if isSealed { return length == position ? .alreadyHeld(position) : .gap(position) }
            return length == position ? nil : .gap(position)
        case .standing: preconditionFailure("a standing comes from adopt(_:as:)")
        }
        if range.end <= position { return .alreadyHeld(position) }
        if isSealed { return .sealed(position) }
        return range.start == position ? nil : .gap(position)
    }
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
