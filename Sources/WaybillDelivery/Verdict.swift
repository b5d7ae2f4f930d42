/// What a provider says of one record of a request.
package struct RecordRefusal: Hashable, Sendable {
    /// Which record of the request, from 0.
    package let position: Int
    /// The provider's own words.
    package let detail: String
    /// The field that it names.
    package let field: String?

    package init(position: Int, detail: String, field: String? = nil) {
        self.position = position
        self.detail = detail
        self.field = field
    }
}

/// What an answer means for the records of its request.
package enum Verdict: Hashable, Sendable {
    /// All were taken.
    ///
    /// - Parameter unconfirmedCount: so many fewer were counted by the provider, which names none of them.
    case accepted(unconfirmedCount: Int)
    /// These are refused for good, the others were taken.
    case partly([RecordRefusal])
    /// These are refused for good; nothing is known of the others, which go again.
    case refusedSome([RecordRefusal])
    /// The request is refused, and which record is to blame is not said.
    case refusedWhole(detail: String)
    /// The request is too large.
    case tooLarge(detail: String)
    /// Nothing was taken: the records at `positions` go again after `pause`, those at `exhausted` on another day, the
    /// others at once.
    case throttled(positions: [Int], exhausted: [Int], pause: Duration)
    /// Nothing was taken; the request goes again.
    case later(after: Duration?, detail: String)
    /// Nobody knows whether it was taken.
    case ambiguous(detail: String, after: Duration?)
    /// Nothing more goes to this provider.
    case stop(DeliveryStop)
}
