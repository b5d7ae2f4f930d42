/// The events that a provider receives.
public struct ProviderSubscription: Sendable {
    private let provider: ProviderID
    /// The types of the events; `nil` for all events.
    private let types: [ObjectIdentifier]?

    /// Sends every event to the provider.
    public static func all(_ provider: ProviderID) -> ProviderSubscription {
        ProviderSubscription(provider: provider, types: nil)
    }

    /// Sends events of these types to the provider, and all `user` events.
    public static func only(_ provider: ProviderID, _ types: any Event.Type...) -> ProviderSubscription {
        ProviderSubscription(provider: provider, types: types.map { ObjectIdentifier($0) })
    }

    private func includes(_ type: ObjectIdentifier, _ kind: EventKind) -> Bool {
        guard let types = self.types, kind != .user else { return true }
        return types.contains(type)
    }

    /// Appends `,"providers":[…]`, or nothing if there are no subscriptions, which means all providers.
    static func append(
        _ subscriptions: [ProviderSubscription], for type: ObjectIdentifier, _ kind: EventKind,
        to line: inout LineBuffer
    ) {
        guard !subscriptions.isEmpty, kind != .meta else { return }
        line.append(",\"providers\":[")
        var isFirst = true
        for subscription in subscriptions where subscription.includes(type, kind) {
            if !isFirst { line.append(UInt8(ascii: ",")) }
            isFirst = false
            line.appendString(subscription.provider.description)
        }
        line.append(UInt8(ascii: "]"))
    }
}
