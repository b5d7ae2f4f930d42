/// Something every event of the app passes before it reaches the disk: it may take fields away, hash them, or drop it.
///
///     configuration.filters = [.removing("email"), .hashing("phone"), EventFilter { draft in
///         if draft.name.hasPrefix("debug_") { draft.drop() }
///     }]
///
/// Filters run in their order on the tracking thread, and also over registered fields and traits; not over Waybill's
/// own events. What a filter takes away is gone from what single providers get, too.
public struct EventFilter: Sendable {
    let body: @Sendable (inout EventDraft) -> Void

    /// A filter that does what `body` does.
    public init(_ body: @escaping @Sendable (inout EventDraft) -> Void) {
        self.body = body
    }

    /// Takes fields away.
    public static func removing(_ fields: String...) -> EventFilter {
        EventFilter { draft in
            for field in fields { draft.remove(field) }
        }
    }

    /// Replaces the values of fields by their salted hashes.
    public static func hashing(_ fields: String...) -> EventFilter {
        EventFilter { draft in
            for field in fields { draft.hash(field) }
        }
    }
}

/// What happens to every event between the app and its line.
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
