/// A provider's refusal of one record of a request.
package struct RecordRefusal: Hashable, Sendable {
    /// The index of the record in the request.
    package let position: Int
    /// The provider's own words.
    package let detail: String
    /// The field named by the provider.
    package let field: String?

    package init(position: Int, detail: String, field: String? = nil) {
        self.position = position
        self.detail = detail
        self.field = field
    }
}

/// The meaning of an answer for the records of its request.
package enum Verdict: Hashable, Sendable {
    /// All were accepted.
    ///
    /// - Parameter unconfirmedCount: how many records are missing from the provider's count; it does not name them.
    case accepted(unconfirmedCount: Int)
    /// These are permanently refused; the others were accepted.
    case partly([RecordRefusal])
    /// These are permanently refused; the outcome of the others is unknown, and they are sent again.
    case refusedSome([RecordRefusal])
    /// The request is refused, without naming the record at fault.
    case refusedWhole(detail: String)
    /// The request is too large.
    case tooLarge(detail: String)
    /// Nothing was accepted: the records at `positions` are sent again after `pause`, those at `exhausted` on another
    /// day, and the others at once.
    case throttled(positions: [Int], exhausted: [Int], pause: Duration)
    /// Nothing was accepted; the request is sent again.
    case later(after: Duration?, detail: String)
    /// It is unknown whether it was accepted.
    case ambiguous(detail: String, after: Duration?)
    /// Nothing more is sent to this provider.
    case stop(DeliveryStop)
}
