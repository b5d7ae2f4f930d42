/// The providers that exports can be for.
///
/// Everything that depends on a provider asks its type, so a provider is registered by its place in ``standard``.
package struct ProviderRegistry: Sendable {
    /// Waybill's own.
    package static let standard = ProviderRegistry([
        GA4.self, Mixpanel.self, MixpanelProfiles.self, Amplitude.self, Segment.self, PostHog.self, Snowplow.self,
        Flurry.self, CSV.self, Syslog.self, Journald.self,
    ])

    /// In the order of help, pages and metrics.
    package let destinations: [Destination]

    package init(_ providers: [any Provider.Type]) {
        self.destinations = providers.map { Destination($0) }
        precondition(Set(self.destinations).count == providers.count, "each provider has a name of its own")
    }

    /// Those that accept events over HTTP.
    package var delivered: [DeliverableProvider] {
        self.destinations.compactMap(DeliverableProvider.init(sentTo:))
    }

    /// All names, for help and errors.
    package var list: String {
        self.destinations.map(\.rawValue).joined(separator: ", ")
    }

    /// Why a provider of the registry, or one that an operator describes, refuses events; each once.
    package var refusals: [RefusalReason] {
        var seen: Set<RefusalReason> = []
        let reasons = RefusalReason.common + self.destinations.flatMap { $0.type.refusals } + Custom.refusals
        return reasons.filter { seen.insert($0).inserted }
    }

    fileprivate func destination(named name: String) -> Destination? {
        self.destinations.first { $0.rawValue == name }
    }
}

/// The provider that an export is for: one of a registry, or one that an operator names and describes.
///
/// Two with the same name are equal.
package struct Destination: Hashable, Sendable, CustomStringConvertible {
    /// Its name in paths, metrics and events.
    package let rawValue: String
    /// Its facts and its rules.
    package let type: any Provider.Type

    package init(_ type: any Provider.Type) {
        self.init(type.name, type)
    }

    private init(_ name: String, _ type: any Provider.Type) {
        self.rawValue = name
        self.type = type
    }

    /// A destination that an operator names and describes by its columns.
    package static func custom(_ name: String) -> Destination {
        Destination(name, Custom.self)
    }

    /// The registered provider of that name.
    package init(named name: String, in registry: ProviderRegistry = .standard) throws(UnknownProvider) {
        guard let provider = registry.destination(named: name) else {
            throw UnknownProvider(name: name, list: registry.list)
        }
        self = provider
    }

    /// The provider with an operator's name: a letter a to z, then up to 31 of a to z, 0 to 9 and `-`.
    ///
    /// - Returns: `nil` for any other name, and for names with another meaning in `exports/` and `state/`.
    package init?(customName name: String, in registry: ProviderRegistry = .standard) {
        let bytes = Array(name.utf8)
        guard 1...32 ~= bytes.count, 0x61...0x7A ~= bytes[0],
            bytes.allSatisfy({ 0x61...0x7A ~= $0 || 0x30...0x39 ~= $0 || $0 == UInt8(ascii: "-") }),
            name != "archive", name != Custom.name, registry.destination(named: name) == nil
        else { return nil }
        self = .custom(name)
    }

    /// The provider, registered or custom, that one of our paths or state files names.
    package init?(recordedName name: String, in registry: ProviderRegistry = .standard) {
        guard let provider = registry.destination(named: name) else {
            self.init(customName: name, in: registry)
            return
        }
        self = provider
    }

    /// Whether `waybill deliver` sends its parts.
    package var isDelivered: Bool { self.type.delivery != nil }

    /// Its name in an event's `providers` and `overrides`.
    package var subscriptionName: String { self.type.subscriptionName ?? self.rawValue }

    /// Why it refuses events, in the order of metrics.
    package var refusals: [RefusalReason] { RefusalReason.common + self.type.refusals }

    package var description: String { self.rawValue }

    package static func == (first: Destination, second: Destination) -> Bool {
        first.rawValue == second.rawValue
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(self.rawValue)
    }
}

extension Destination: CaseIterable {
    /// Those of the standard registry.
    package static var allCases: [Destination] { ProviderRegistry.standard.destinations }

    /// All names, for help and errors.
    package static var list: String { ProviderRegistry.standard.list }
}

/// A provider name that a registry does not have.
package struct UnknownProvider: Error, Hashable, Sendable, CustomStringConvertible {
    package let name: String
    /// The names that it has.
    package let list: String

    package var description: String {
        "there is no provider \"\(self.name)\"; choose one of: \(self.list)"
    }
}
