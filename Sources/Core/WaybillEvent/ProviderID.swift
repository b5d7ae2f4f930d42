/// A destination of events, identified by the name of its exports.
///
/// The receiver's operator may define others than those below; declare a constant for each, so that a misspelt one does not
/// compile:
///
///     extension ProviderID {
///         static let warehouse = ProviderID("warehouse")
///     }
public struct ProviderID: Hashable, Sendable, CustomStringConvertible {
    /// The name used in events and export folders.
    public let description: String

    /// Creates the id of a provider.
    public init(_ name: String) {
        precondition(!name.isEmpty, "a provider's name must not be empty")
        self.description = name
    }

    /// Google Analytics 4.
    public static var ga4: ProviderID { ProviderID("ga4") }
    /// Mixpanel.
    public static var mixpanel: ProviderID { ProviderID("mixpanel") }
    /// Amplitude.
    public static var amplitude: ProviderID { ProviderID("amplitude") }
    /// Segment.
    public static var segment: ProviderID { ProviderID("segment") }
    /// PostHog.
    public static var posthog: ProviderID { ProviderID("posthog") }
    /// Snowplow.
    public static var snowplow: ProviderID { ProviderID("snowplow") }
    /// Flurry.
    public static var flurry: ProviderID { ProviderID("flurry") }
    /// Comma-separated values.
    public static var csv: ProviderID { ProviderID("csv") }
    /// The system log.
    public static var syslog: ProviderID { ProviderID("syslog") }
    /// The systemd journal.
    public static var journald: ProviderID { ProviderID("journald") }
}
