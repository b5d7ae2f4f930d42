/// The limits of the providers, last checked 2026-11-22.
///
/// A provider's are in its own file, with the page that they are from. Where a provider's bound is exclusive or imprecise,
/// the value is the largest safe one.
package enum Limits {
    /// The longest line that the agent accepts from a foreign writer.
    package static let lineByteCountMax = 1 << 20

    /// What events have in common for revenue, items and groups.
    package enum Commerce {
        /// The shortest limit among the providers that have groups: PostHog keeps 400, Amplitude 1024.
        package static let groupCharacterCountMax = 400
    }
}
