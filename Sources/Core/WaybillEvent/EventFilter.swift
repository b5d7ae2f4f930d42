/// A filter for the app's events before they are written: it can remove or hash fields, or drop the event.
///
///     configuration.filters = [.removing("email"), .hashing("phone"), EventFilter { draft in
///         if draft.name.hasPrefix("debug_") { draft.drop() }
///     }]
///
/// Filters run in order on the tracking thread. They also apply to registered fields and traits, but not to Waybill's
/// own events. A removed field is removed from the overrides for single providers too.
public struct EventFilter: Sendable {
    let body: @Sendable (inout EventDraft) -> Void

    /// Creates a filter that runs `body`.
    public init(_ body: @escaping @Sendable (inout EventDraft) -> Void) {
        self.body = body
    }

    /// A filter that removes these fields.
    public static func removing(_ fields: String...) -> EventFilter {
        EventFilter { draft in
            for field in fields { draft.remove(field) }
        }
    }

    /// A filter that replaces the values of these fields with their salted hashes.
    public static func hashing(_ fields: String...) -> EventFilter {
        EventFilter { draft in
            for field in fields { draft.hash(field) }
        }
    }
}

/// The rules applied to every event before it becomes a line.
package struct EventRules: Sendable {
    package var subscriptions: [ProviderSubscription]
    package var filters: [EventFilter]
    package var sampling: [Sampling]

    package init(subscriptions: [ProviderSubscription] = [], filters: [EventFilter] = [], sampling: [Sampling] = []) {
        self.subscriptions = subscriptions
        self.filters = filters
        self.sampling = sampling
    }
}
