/// Delivery: closed parts of exports go to their provider's endpoint, and each record reaches one of two ends.
///
///     exports/ga4/env=prod/date=2026-11-20/part-00000.ndjson ──▶ requests ──▶ answers ──▶ accepted, or a dead letter
///
/// Constraints, in numbers:
/// - a part has up to 1,000,000 records and 256 MiB; only its records in flight are in memory, and 16 bytes of offsets
///   for each 256 records;
/// - a request has the size that ``WaybillExport/Limits`` allows; for all providers except GA4 it may be a whole part;
/// - one request is in flight, or four for GA4: the order of a person's events is the order of the part;
/// - each round of requests needs two commits (`fdatasync`) of about 200 bytes each.
///
/// The life of one record:
///
///     ClosedPart          its manifest exists, and its bytes have the manifest's SHA-256
///       → PartDelivery    decides which records go next: the cursor, then those that wait for another attempt
///       → RequestTemplate makes the body; credentials are put in at the last moment, and only there
///       → the transport   sends it and returns the answer
///       → DeliveryRules   interprets the answer for this provider as a ``Verdict``
///       → PartDelivery    moves the cursor, sends it again, halves the request, or gives up a record
///       → RefusalLog      records what was given up, and why; then one commit moves the cursor
///
/// The order of durable steps:
///
///     "records a, b are about to be sent"  commit   only if the provider counts a repeated record twice (GA4)
///     request, answer
///     dead letters                         sync
///     the cursor                           commit   after a crash before it, records are sent again or are ambiguous
///     part-00000.delivered                 when no record is left; then the part is removed from the state
///
/// The cursor is in a separate state and not in the part's folder, because a replay replaces the folder while the state
/// must still record what was sent from the previous one.
///
/// ``PartDelivery``, ``DeliveryRules`` and what they use are values without file, clock or socket; ``Deliverer`` has
/// the files and a ``ProviderConnection`` the connections.
///
/// - SeeAlso: `Protocol/formats/delivery.md`.

/// The known outcome of a request.
package enum Answer: Hashable, Sendable {
    /// The provider answered.
    ///
    /// - Parameter body: `nil` if the connection ended before the body did.
    case response(status: Int, retryAfter: Duration?, body: [UInt8]?)
    /// The provider cannot have seen the request, because no connection was established.
    case notSent(detail: String)
    /// The request may have been accepted; this can never be known.
    case unknown(detail: String)
}

/// Why delivery to a provider ends before everything is delivered.
package enum DeliveryStop: Hashable, Sendable {
    /// The provider does not know the credentials, or they lack permission.
    case credentials(detail: String)
    /// The address is not the provider's API.
    case endpoint(detail: String)
    /// The provider accepts nothing more from this account for now.
    case quota(detail: String)
    /// Every record is refused, so the cause is not in the records.
    case everythingRefused(detail: String)

    /// What happened and what to do, for the operator.
    package var description: String {
        switch self {
        case .credentials(let detail):
            "the provider refuses the credentials (\(detail)); correct them and run this again"
        case .endpoint(let detail):
            "the endpoint is not the provider's (\(detail)); correct --endpoint or --region and run this again"
        case .quota(let detail):
            "the account's quota is used up (\(detail)); run this again when the provider accepts events again"
        case .everythingRefused(let detail):
            "the provider refuses one record after the other (\(detail)); they are in the dead letters. Find out why "
                + "before running this again"
        }
    }
}
