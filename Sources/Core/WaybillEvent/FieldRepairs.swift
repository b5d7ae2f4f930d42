/// Counters for values that were left out of events or truncated.
public struct FieldRepairs: Hashable, Sendable {
    /// Fields left out because their value is NaN or infinite.
    ///
    /// Values of an app's own ``FieldValue`` type that write nothing are also counted here, including elements of
    /// lists. So are integers above 2^53 that were to be added to a trait.
    public internal(set) var nonFinite = 0
    /// Fields left out because the event already has one with that name; the first is kept.
    public internal(set) var duplicate = 0
    /// Objects left out because they were nested in an object, and lists because they were nested in a list; also
    /// fields and values that were written in addition to the one value of a field.
    public internal(set) var nested = 0
    /// Names truncated to 255 bytes.
    public internal(set) var cutName = 0
    /// User agents of visitors truncated to 512 bytes.
    public internal(set) var cutUserAgent = 0
    /// Values of `Encodable` events left out because their type has no form in an event, such as `Date` without
    /// `WaybillFoundation`; a `wb.field` event names the first of each type.
    public internal(set) var refused = 0
    /// Values of `Encodable` events left out because their `encode(to:)` threw an error; a `wb.field` event names it.
    public internal(set) var failed = 0
    /// Events of a ``FieldlessEvent`` type with stored properties, which are not stored; counted in debug builds only.
    public internal(set) var forgotten = 0

    /// Creates counters without any repairs.
    public init() {}

    package static func += (left: inout FieldRepairs, right: FieldRepairs) {
        left.nonFinite += right.nonFinite
        left.duplicate += right.duplicate
        left.nested += right.nested
        left.cutName += right.cutName
        left.cutUserAgent += right.cutUserAgent
        left.refused += right.refused
        left.failed += right.failed
        left.forgotten += right.forgotten
    }
}
