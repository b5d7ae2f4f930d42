package import WaybillEvent

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
        self.provider.type.whyNotDelivered
            ?? "\(self.provider.rawValue) has no endpoint to deliver to: take its files from exports/"
    }
}

/// A provider that accepts events over HTTP.
package struct DeliverableProvider: RawRepresentable, Hashable, Sendable {
    package let id: Destination
    package let facts: DeliveryFacts

    package init?(sentTo provider: Destination) {
        guard let facts = provider.type.delivery else { return nil }
        self.id = provider
        self.facts = facts
    }

    package init(_ provider: Destination) throws(NotDeliverable) {
        guard let deliverable = DeliverableProvider(sentTo: provider) else { throw NotDeliverable(provider: provider) }
        self = deliverable
    }

    /// The one of that name of the standard registry.
    package init?(rawValue: String) {
        guard let provider = Self.allCases.first(where: { $0.rawValue == rawValue }) else { return nil }
        self = provider
    }

    package var rawValue: String { self.id.rawValue }

    package static func == (first: DeliverableProvider, second: DeliverableProvider) -> Bool {
        first.id == second.id
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(self.id)
    }
}

extension DeliverableProvider: CaseIterable {
    /// Those of the standard registry.
    package static var allCases: [DeliverableProvider] { ProviderRegistry.standard.delivered }
}

/// How a provider accepts requests, and what its answers mean: `WaybillDelivery` sends by it (`providers.md`, section 0.6
/// and each provider's section).
package struct DeliveryFacts: Sendable {
    /// Scheme and host of each region; `nil`: an operator names the address.
    package var hosts: (us: String, eu: String)?
    package var path: String
    /// The path of requests that are checked and not stored, if it has one.
    package var validationPath: String?
    /// In the order of help and errors.
    package var credentials: [CredentialName]

    package var recordsPerRequestMax: Int
    package var requestByteCountMax: Int
    /// How many requests of one part are sent at the same time.
    package var inFlightMax = 1
    /// The limit for all events together; `nil` if none is documented.
    package var eventsPerSecondMax: Double?
    package var repetition = Repetition.harmless
    /// A whole export that is regenerated and sent again also counts once, at any later time.
    package var isRepeatableForEver = false
    /// The age at which a part is an import, not live traffic.
    package var historicalMillisecondsMin = Int64.max

    package var query: RequestText = ""
    package var contentType = "application/json"
    package var authorization: RequestText?
    package var isCompressed = false
    /// What stands before, between and after the records.
    package var prefix: RequestText = ""
    package var separator = ","
    package var suffix: RequestText = ""
    /// For records that are lists of updates: the value of each one's `$token`, which the files do not contain.
    package var updateToken: CredentialName?

    package var answers = AnswerFacts()

    package init(
        hosts: (us: String, eu: String)?, path: String, credentials: [CredentialName], recordsPerRequestMax: Int,
        requestByteCountMax: Int
    ) {
        self.hosts = hosts
        self.path = path
        self.credentials = credentials
        self.recordsPerRequestMax = recordsPerRequestMax
        self.requestByteCountMax = requestByteCountMax
    }

    /// Which records may be sent again although the provider may have accepted them.
    package enum Repetition: Hashable, Sendable {
        /// All: the provider counts a repeated record once.
        case harmless
        /// All except updates of profiles that add numbers: setting a property again changes nothing.
        case addsNumbers
        /// None.
        case counted
    }
}

/// What stands in a provider's answers besides the status.
package struct AnswerFacts: Sendable {
    /// Whether a success whose body broke off is one.
    package var isBodyNeeded = true
    /// The member of a success that has the number of accepted records.
    package var acceptedCount: StaticString?
    /// The member and literal of a success that refuses the request after all.
    package var failure: (member: StaticString, literal: String)?
    /// Whether such a failure is read like a bad request, which may name records or blame the credentials.
    package var failureIsBadRequest = false
    /// The list and its element in a success that say that the quota is used up.
    package var quota: (list: StaticString, element: String)?
    package var refusals = Refusals.none
    /// The pause after a 429 that names the throttled records; `nil`: none does.
    package var throttlingPause: Duration?

    package init() {}

    /// How a bad request names the refused records.
    package enum Refusals: Hashable, Sendable {
        case none
        /// `failed_records[{index, field, message}]`, in a success too: the other records were accepted.
        case failedRecords
        /// The same, where an index counts the updates of all records.
        case failedUpdates
        /// `events_with_…{field: [index]}` and `silenced_events[index]`.
        case eventsByField
    }
}

/// The name of a credential that a provider needs.
package struct CredentialName: RawRepresentable, Hashable, Sendable {
    package let rawValue: String

    package init(rawValue: String) {
        self.rawValue = rawValue
    }

    /// The name of the variable, or of the line in a credentials file, for an environment.
    package func variable(_ env: DeploymentEnvironment) -> String {
        "WAYBILL_\(self.rawValue)_\(env.rawValue.uppercased())"
    }
}

/// Text of a request with placeholders for credentials.
package struct RequestText: Hashable, Sendable, ExpressibleByStringLiteral {
    package enum Piece: Hashable, Sendable {
        case plain(String)
        /// As a query's value.
        case query(CredentialName)
        /// As the body of a JSON string.
        case json(CredentialName)
        /// Name and password of RFC 7617.
        case basic(CredentialName, CredentialName)
        /// `true` for a part of the age ``DeliveryFacts/historicalMillisecondsMin`` or more, otherwise `false`.
        case isHistorical
    }

    package var pieces: [Piece]

    package init(_ pieces: [Piece]) {
        self.pieces = pieces
    }

    package init(stringLiteral text: String) {
        self.pieces = [.plain(text)]
    }
}
