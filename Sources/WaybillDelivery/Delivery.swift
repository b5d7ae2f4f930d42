/// Delivery: closed parts of exports go to their provider's endpoint, and each record reaches one of two ends.
///
///     exports/ga4/env=prod/date=2026-11-20/part-00000.ndjson ──▶ requests ──▶ answers ──▶ accepted, or a dead letter
///
/// Constraints, in numbers:
/// - a part holds up to 1,000,000 records and 256 MiB; at most what is in flight of it is in memory, and for each
///   256 records 16 bytes that say where they lie;
/// - a request holds what ``WaybillExport/Limits`` allows; for all providers but GA4 that is a whole part;
/// - one request is in flight, for GA4 four: the order of a person's events is the order of the part;
/// - two commits (`fdatasync`) a round of requests, of about 200 bytes each.
///
/// The life of one record:
///
///     ClosedPart          its manifest is there, its bytes have the manifest's SHA-256
///       → PartDelivery    decides which records go next: the cursor, then what waits for another try
///       → RequestTemplate makes the body; credentials are put in at the last moment, and only there
///       → the transport   sends it, and says what is known of the answer
///       → DeliveryRules   reads the answer as this provider means it: a ``Verdict``
///       → PartDelivery    moves the cursor, sends it again, halves the request, or gives a record up
///       → RefusalLog      remembers what was given up, and why; then one commit moves the cursor
///
/// What is durable before what:
///
///     "records a, b are about to be sent"  commit   only where the provider takes a record twice (GA4)
///     request, answer
///     dead letters                         sync
///     the cursor                           commit   a crash before it sends again, or knows that nobody knows
///     part-00000.delivered                 once no record is left; then the state forgets the part
///
/// Why the cursor is a state of its own and not in the part's folder: a replay exchanges the folder while the state
/// still has to say what was sent of the one before.
///
/// ``PartDelivery``, ``DeliveryRules`` and what they use are values without file, clock or socket; ``Deliverer`` has
/// the files and ``HTTPTransport`` the connections.
///
/// - SeeAlso: `Protocol/formats/delivery.md`.
package import WaybillExport

/// What is known of a request that was tried.
package enum Answer: Hashable, Sendable {
    /// The provider answered.
    ///
    /// - Parameter body: `nil` where the connection ended before the body did.
    case response(status: Int, retryAfter: Duration?, body: [UInt8]?)
    /// The provider cannot have seen the request: no connection came about.
    case notSent(detail: String)
    /// The request may have been taken; nobody will ever say.
    case unknown(detail: String)
}

/// Why delivery to a provider ends before everything is delivered.
package enum DeliveryStop: Hashable, Sendable {
    /// The provider does not know the credentials, or does not let them do this.
    case credentials(detail: String)
    /// Something else than the provider's interface answers there.
    case endpoint(detail: String)
    /// The provider takes nothing more of this account for now.
    case quota(detail: String)
    /// One record after the other is refused: the reason lies not in them.
    case everythingRefused(detail: String)

    /// What happened and what to do, for people.
    package var description: String {
        switch self {
        case .credentials(let detail):
            "the provider refuses the credentials (\(detail)); correct them and run this again"
        case .endpoint(let detail):
            "the endpoint is not the provider's (\(detail)); correct --endpoint or --region and run this again"
        case .quota(let detail):
            "the account's quota is used up (\(detail)); run this again when the provider takes events again"
        case .everythingRefused(let detail):
            "the provider refuses one record after the other (\(detail)); they are in the dead letters. Find out why "
                + "before running this again"
        }
    }
}

/// What becomes of a record of which nobody knows whether the provider took it, where it would count twice.
package enum AmbiguityPolicy: String, Hashable, Sendable, CaseIterable {
    /// It goes to the dead letters: rather missing than counted twice.
    case skip
    /// It is sent again: rather counted twice than missing.
    case resend
}

/// Which of a provider's data centres.
package enum ProviderRegion: String, Hashable, Sendable, CaseIterable {
    case us
    case eu
}

/// A provider that takes nothing by HTTP.
package struct NotDeliverable: Error, Hashable, Sendable, CustomStringConvertible {
    package let provider: Destination

    package var description: String {
        switch self.provider {
        case .flurry: "flurry was switched off on 2024-03-15; there is nothing to deliver to, its files are an archive"
        default: "\(self.provider.rawValue) has no endpoint to deliver to: take its files from exports/"
        }
    }
}

/// The providers that take events by HTTP; those that do not have no such value.
package enum DeliverableProvider: String, Hashable, Sendable, CaseIterable {
    case ga4
    case mixpanel
    case mixpanelProfiles = "mixpanel-profiles"
    case amplitude
    case segment
    case posthog
    case snowplow

    package init(_ provider: Destination) throws(NotDeliverable) {
        guard let deliverable = DeliverableProvider(rawValue: provider.rawValue) else {
            throw NotDeliverable(provider: provider)
        }
        self = deliverable
    }

    package var id: Destination {
        switch self {
        case .ga4: .ga4
        case .mixpanel: .mixpanel
        case .mixpanelProfiles: .mixpanelProfiles
        case .amplitude: .amplitude
        case .segment: .segment
        case .posthog: .posthog
        case .snowplow: .snowplow
        }
    }
}
