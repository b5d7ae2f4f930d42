/// Which events a provider gets.
public struct ProviderSubscription: Sendable {
    private let provider: ProviderID
    /// `nil`: all.
    private let types: [ObjectIdentifier]?

    /// The provider gets every event.
    public static func all(_ provider: ProviderID) -> ProviderSubscription {
        ProviderSubscription(provider: provider, types: nil)
    }

    /// The provider gets events of these types, and what is said about the user.
    public static func only(_ provider: ProviderID, _ types: any Event.Type...) -> ProviderSubscription {
        ProviderSubscription(provider: provider, types: types.map { ObjectIdentifier($0) })
    }

    private func includes(_ type: ObjectIdentifier, _ kind: EventKind) -> Bool {
        guard let types = self.types, kind != .user else { return true }
        return types.contains(type)
    }

    /// Appends `,"providers":[…]`, or nothing when there are no subscriptions, which means all providers.
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
