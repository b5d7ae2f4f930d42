package import WaybillEvent
package import WaybillExport
internal import WaybillJSON

/// One event a line: `{"id":…,"at":…,"what":…,"fields":{…}}`; 500 lines or 1 MB a request.
package struct Example: Provider {
    package static let name = "example"
    package static let refusals = [RefusalReason("example.no_uuid", remedy: Remedy.giveID)]
    package static let sendKey = SendKey.members([["id"]], dayCount: 3)

    package static var delivery: DeliveryFacts? {
        let key = CredentialName(rawValue: "EXAMPLE_KEY")
        var facts = DeliveryFacts(
            hosts: (us: "https://us.example.com", eu: "https://eu.example.com"), path: "/v2/events",
            credentials: [key], recordsPerRequestMax: 500, requestByteCountMax: 1_000_000)
        facts.prefix = RequestText([.plain("{\"key\":\""), .json(key), .plain("\",\"events\":[")])
        facts.suffix = "]}"
        facts.answers.acceptedCount = "accepted"
        return facts
    }

    package static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key] {
        [keys.flag("users", \.example.includesUsers, "Write `user` events too.")]
    }

    package static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {
        text.add("users", options.example.includesUsers, unless: false)
    }

    private let options: ExampleOptions

    package init(_ options: ExportOptions) {
        self.options = options.example
    }

    package var description: ProviderDescription {
        ProviderDescription(
            id: Destination(Self.self), fileExtension: "ndjson", recordsPerPartMax: 500, partByteCountMax: 1_000_000)
    }

    package var recordByteCountMax: Int { 10_000 }

    package func takes(_ kind: EventKind) -> Bool {
        kind == .user ? self.options.includesUsers : kind != .meta
    }

    package func map(
        _ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft
    ) -> MappingOutcome {
        guard let id = event.uuid else {
            return .refused(RefusalCause(Self.refusals[0], "id is missing or not a UUID", field: "id"))
        }
        draft.json.beginObject()
        draft.json.key("id")
        draft.json.string(plain: id)
        draft.json.key("at")
        draft.time(event.facts.time)
        draft.json.key("what")
        draft.eventName(event.name, limit: 40, unit: .utf16, isReserved: { $0.first == UInt8(ascii: "$") })
        draft.json.key("fields")
        draft.json.beginObject()
        var fields = event.fields()
        while let (key, value) = fields.next(in: event) {
            guard draft.beginField(key, of: event, limit: 40, unit: .utf16, isReserved: { _ in false }) else {
                continue
            }
            draft.value(value, of: event, limit: 255, depthMax: 3)
        }
        // Two braces and the line feed follow.
        draft.dropFields(toFit: self.recordByteCountMax - 3)
        draft.json.endObject()
        draft.json.endObject()
        return .written
    }
}

/// An operator's options for the example.
package struct ExampleOptions: ProviderOptions, Hashable {
    package var includesUsers = false

    package init() {}
}

extension ExportOptions {
    package var example: ExampleOptions {
        get { self[ExampleOptions.self] }
        set { self[ExampleOptions.self] = newValue }
    }
}

extension ProviderRegistry {
    /// The standard registry with the example at its end.
    package static var withExample: ProviderRegistry {
        ProviderRegistry(Self.standard.destinations.map { $0.type } + [Example.self])
    }
}
