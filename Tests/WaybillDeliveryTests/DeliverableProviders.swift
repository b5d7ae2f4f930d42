import WaybillExport

@testable import WaybillDelivery

/// Waybill's own, by name.
extension DeliverableProvider {
    static let ga4 = Self.of(.ga4)
    static let mixpanel = Self.of(.mixpanel)
    static let mixpanelProfiles = Self.of(.mixpanelProfiles)
    static let amplitude = Self.of(.amplitude)
    static let segment = Self.of(.segment)
    static let posthog = Self.of(.posthog)
    static let snowplow = Self.of(.snowplow)

    static func of(_ provider: Destination) -> DeliverableProvider {
        guard let deliverable = DeliverableProvider(sentTo: provider) else {
            preconditionFailure("\(provider) accepts nothing over HTTP")
        }
        return deliverable
    }
}
