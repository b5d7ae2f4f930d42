package import WaybillEvent
internal import WaybillJSON

/// A stored event as observers see it.
///
///     event.name                          "moment_like"
///     event.fields["momentID"]            "m-17"
///     event[member: "user"]               "u-8812345"
///     event.delivery(to: .ga4)?.name      "select_content"
///
/// It holds the event's line, byte for byte, and parses it on access.
public struct EventView: Sendable {
    /// The writer's sequence number of the event; the first is 1.
    public let sequence: UInt64
    /// The event's kind.
    public let kind: EventKind
    /// The event's line as stored in the spool, including the LF.
    public let line: [UInt8]
    /// The Swift type with which the event was tracked; `nil` if the view was made of a line alone.
    private let type: ObjectIdentifier?

    init(sequence: UInt64, kind: EventKind, line: [UInt8], type: ObjectIdentifier? = nil) {
        self.sequence = sequence
        self.kind = kind
        self.line = line
        self.type = type
    }

    /// Parses a line of a spool; `nil` for anything else.
    package init?(line: [UInt8]) {
        var sequence: UInt64?
        var kind: EventKind?
        line.withUnsafeBytes { bytes in
            var tape = JSONTape()
            guard tape.accepts(bytes) else { return }
            sequence = tape.firstValue(of: "seq", in: 0).flatMap { UInt64(StoredValue.text(of: $0, tape)) }
            kind = tape.firstValue(of: "kind", in: 0).flatMap { EventKind(rawValue: StoredValue.text(of: $0, tape)) }
        }
        guard let sequence, let kind else { return nil }
        self.init(sequence: sequence, kind: kind, line: line)
    }

    /// Whether the event was tracked as a value of this type.
    package func isOf(_ type: any Event.Type) -> Bool {
        self.type == ObjectIdentifier(type)
    }

    /// The event's name in reports.
    public var name: String {
        self[member: "name"] ?? ""
    }

    /// The text of a member of the line, such as "screen", "user" or "session"; `nil` if there is none.
    ///
    /// An event's fields are in ``fields``.
    public subscript(member member: String) -> String? {
        self.reading { tape in
            Self.value(of: member, in: 0, tape).map { StoredValue.text(of: $0, tape) }
        }
    }

    /// The event's fields, or the traits that it sets, in order.
    ///
    /// Traits that are set once or added to are in ``traits(_:)`` alone.
    public var fields: StoredFields {
        self.reading { tape in
            guard let object = tape.firstValue(of: "data", in: 0) ?? tape.firstValue(of: "traits", in: 0) else {
                return StoredFields([])
            }
            return StoredFields(object, tape)
        }
    }

    /// The user's traits that the event changes in this way, in order; none for events of other kinds.
    ///
    ///     event.traits(.setOnce)["first_seen"]     "2025-03-01"
    ///     event.traits(.add)["visits"]             1
    public func traits(_ change: TraitChange) -> StoredFields {
        self.reading { tape in
            let member: StaticString =
                switch change {
                case .set: "traits"
                case .setOnce: "traits_once"
                case .add: "traits_add"
                }
            return tape.firstValue(of: member, in: 0).map { StoredFields($0, tape) } ?? StoredFields([])
        }
    }

    /// The event as delivered to a provider, after subscriptions and overrides; `nil` if the provider does not get it.
    ///
    /// Waybill's own events go only to system logs. An export then applies the provider's own rules: for example, it
    /// changes names for GA4 and converts `user` events to the provider's form.
    public func delivery(to provider: ProviderID) -> Delivery? {
        if self.kind == .meta, provider != .syslog, provider != .journald { return nil }
        return self.reading { tape in
            if let providers = tape.firstValue(of: "providers", in: 0),
                !Self.contains(provider.description, providers, tape)
            {
                return nil
            }
            var delivery = Delivery(name: self.name, fields: self.fields)
            guard let overrides = tape.firstValue(of: "overrides", in: 0),
                let override = Self.value(of: provider.description, in: overrides, tape)
            else { return delivery }
            if let skip = tape.firstValue(of: "skip", in: override), tape[skip].kind == .true { return nil }
            if let name = tape.firstValue(of: "name", in: override) {
                delivery.name = StoredValue.text(of: name, tape)
            }
            if let data = tape.firstValue(of: "data", in: override) {
                delivery.fields = StoredFields(data, tape)
            }
            return delivery
        }
    }

    /// An event as delivered to one provider.
    public struct Delivery: Hashable, Sendable {
        /// The event's name for the provider.
        public var name: String
        /// The event's fields for the provider, in order.
        public var fields: StoredFields
    }

    private func reading<Result>(_ body: (borrowing JSONTape) -> Result) -> Result {
        self.line.withUnsafeBytes { bytes in
            var tape = JSONTape()
            do throws(JSONError) {
                try tape.parse(bytes)
            } catch {
                preconditionFailure("the client wrote a line that is not JSON: \(error)")
            }
            return body(tape)
        }
    }

    private static func value(of name: String, in object: Int, _ tape: borrowing JSONTape) -> Int? {
        var name = name
        return name.withUTF8 { tape.firstValue(of: UnsafeRawBufferPointer($0), in: object) }
    }

    private static func contains(_ text: String, _ array: Int, _ tape: borrowing JSONTape) -> Bool {
        var index = array + 1
        while index < Int(tape[array].next) {
            if StoredValue.text(of: index, tape) == text { return true }
            index = Int(tape[index].next)
        }
        return false
    }
}

extension EventView: CustomStringConvertible {
    /// The event's line, without its LF.
    public var description: String {
        String(decoding: self.line.dropLast(), as: UTF8.self)
    }
}
