internal import WaybillEvent
internal import WaybillJSON

/// A stored event as observers see it.
///
///     event.name                          "moment_like"
///     event["user"]                       "u-8812345"
///     event.fields                        [momentID: m-17]
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

    init(sequence: UInt64, kind: EventKind, line: [UInt8]) {
        self.sequence = sequence
        self.kind = kind
        self.line = line
    }

    /// Parses a line of a spool; `nil` for anything else.
    package init?(line: [UInt8]) {
        var sequence: UInt64?
        var kind: EventKind?
        line.withUnsafeBytes { bytes in
            var tape = JSONTape()
            guard tape.accepts(bytes) else { return }
            sequence = tape.firstValue(of: "seq", in: 0).flatMap { UInt64(StoredField.text(of: $0, tape)) }
            kind = tape.firstValue(of: "kind", in: 0).flatMap { EventKind(rawValue: StoredField.text(of: $0, tape)) }
        }
        guard let sequence, let kind else { return nil }
        self.init(sequence: sequence, kind: kind, line: line)
    }

    /// The event's name in reports.
    public var name: String {
        self["name"] ?? ""
    }

    /// The text of a member of the line, such as "screen", "user" or "session"; `nil` if there is none.
    public subscript(member: String) -> String? {
        self.reading { tape in
            Self.value(of: member, in: 0, tape).map { StoredField.text(of: $0, tape) }
        }
    }

    /// The event's fields, or the user's traits, in order.
    public var fields: [StoredField] {
        self.reading { tape in
            guard let object = tape.firstValue(of: "data", in: 0) ?? tape.firstValue(of: "traits", in: 0) else {
                return []
            }
            return StoredField.members(of: object, tape)
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
                delivery.name = StoredField.text(of: name, tape)
            }
            if let data = tape.firstValue(of: "data", in: override) {
                delivery.fields = StoredField.members(of: data, tape)
            }
            return delivery
        }
    }

    /// An event as delivered to one provider.
    public struct Delivery: Hashable, Sendable {
        /// The event's name for the provider.
        public var name: String
        /// The event's fields for the provider, in order.
        public var fields: [StoredField]
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
            if StoredField.text(of: index, tape) == text { return true }
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

/// A field of a stored event.
public struct StoredField: Hashable, Sendable {
    /// The field's name.
    public let name: String
    /// Its value as JSON text, such as `"토스터"`, `39900` or `[1,2]`.
    public let json: String
    /// Its value as text: a string without quotes and escapes, any other value as in ``json``.
    public let text: String

    static func members(of object: Int, _ tape: borrowing JSONTape) -> [StoredField] {
        var fields: [StoredField] = []
        var members = tape.members(of: object)
        while let (key, value) = members.next(in: tape) {
            let text = Self.text(of: value, tape)
            fields.append(
                StoredField(
                    name: JSONText.string(tape.bytes(of: key)), json: Self.json(of: value, tape), text: text))
        }
        return fields
    }

    static func text(of index: Int, _ tape: borrowing JSONTape) -> String {
        switch tape[index].kind {
        case .string: JSONText.string(tape.bytes(of: index))
        default: self.json(of: index, tape)
        }
    }

    private static func json(of index: Int, _ tape: borrowing JSONTape) -> String {
        let text = String(decoding: tape.bytes(of: index), as: UTF8.self)
        return tape[index].kind == .string ? "\"\(text)\"" : text
    }
}
