/// What to do with a record that the provider may have accepted, and that would count twice if repeated.
package enum AmbiguityPolicy: String, Hashable, Sendable, CaseIterable {
    /// Write it to the dead letters: it may be missing, but is never counted twice.
    case skip
    /// Send it again: it may be counted twice, but is never missing.
    case resend
}

/// The location of a provider's data centre.
package enum ProviderRegion: String, Hashable, Sendable, CaseIterable {
    case us
    case eu
}

/// The error for a provider that accepts nothing over HTTP.
package struct NotDeliverable: Error, Hashable, Sendable, CustomStringConvertible {
    package let provider: Destination

    package var description: String {
        switch self.provider {
        case .flurry: "flurry was switched off on 2024-03-15; there is nothing to deliver to, its files are an archive"
        default: "\(self.provider.rawValue) has no endpoint to deliver to: take its files from exports/"
        }
    }
}

/// The providers that accept events over HTTP.
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
