/// A destination of events, by the name its exports have.
public struct ProviderID: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// As in events and in export folders.
    public let description: String

    /// The provider of this name.
    public init(_ name: String) {
        precondition(!name.isEmpty, "a provider has a name")
        self.description = name
    }

    /// The provider of this name.
    public init(stringLiteral name: String) {
        self.init(name)
    }

    /// Google Analytics 4.
    public static var ga4: ProviderID { "ga4" }
    /// Mixpanel.
    public static var mixpanel: ProviderID { "mixpanel" }
    /// Amplitude.
    public static var amplitude: ProviderID { "amplitude" }
    /// Segment.
    public static var segment: ProviderID { "segment" }
    /// PostHog.
    public static var posthog: ProviderID { "posthog" }
    /// Snowplow.
    public static var snowplow: ProviderID { "snowplow" }
    /// Flurry.
    public static var flurry: ProviderID { "flurry" }
    /// Comma-separated values.
    public static var csv: ProviderID { "csv" }
    /// The system log.
    public static var syslog: ProviderID { "syslog" }
    /// The systemd journal.
    public static var journald: ProviderID { "journald" }
}

/// What one provider gets instead of the event as it is.
public struct ProviderOverride: ~Copyable {
    /// Replaces the event's name.
    public var name: String?
    /// Replace the event's own fields as soon as anything is put, be it `nil`; what the call site adds is added to these, too.
    public var fields = Fields()
    /// The provider does not get the event.
    public var skip = false

    init() {}

    var isEmpty: Bool {
        self.name == nil && !self.fields.isTouched && !self.skip
    }

    mutating func removeAll() {
        self.name = nil
        self.fields.removeAll()
        self.skip = false
    }
}

/// One event's deviations: one slot for each provider, made at its first use.
public struct Overrides: ~Copyable {
    private final class Slot {
        var provider: ProviderID
        var override = ProviderOverride()

        init(_ provider: ProviderID) {
            self.provider = provider
        }
    }

    /// What private values are hashed with.
    var salt: PrivacySalt?
    private var slots: [Slot] = []
    /// Slots beyond are left from earlier events.
    private var count = 0

    init() {}

    /// What `provider` gets instead.
    public subscript(_ provider: ProviderID) -> ProviderOverride {
        _read {
            precondition(self.index(of: provider) != nil, "nothing is overridden for \(provider)")
            yield self.slots[self.index(of: provider) ?? 0].override
        }
        _modify {
            let index = self.index(making: provider)
            yield &self.slots[index].override
        }
    }

    private func index(of provider: ProviderID) -> Int? {
        self.slots[..<self.count].firstIndex { $0.provider == provider }
    }

    private mutating func index(making provider: ProviderID) -> Int {
        if let index = self.index(of: provider) { return index }
        let index = self.count
        if index == self.slots.count {
            self.slots.append(Slot(provider))
        } else {
            self.slots[index].provider = provider
        }
        self.slots[index].override.fields.salt = self.salt
        self.count += 1
        return index
    }

    mutating func removeAll() {
        for slot in self.slots[..<self.count] { slot.override.removeAll() }
        self.count = 0
    }

    func forEachFields(_ body: (inout Fields) -> Void) {
        for slot in self.slots[..<self.count] { body(&slot.override.fields) }
    }

    /// Adds fields to those of every provider that has fields of its own.
    func add(_ fields: borrowing Fields, from start: Int) {
        for slot in self.slots[..<self.count] where slot.override.fields.isTouched {
            slot.override.fields.add(fields, from: start)
        }
    }

    var repairs: FieldRepairs {
        var repairs = FieldRepairs()
        for slot in self.slots[..<self.count] { repairs += slot.override.fields.repairs }
        return repairs
    }

    /// Appends `,"overrides":{…}`, or nothing when no slot says anything.
    func append(to line: inout LineBuffer) {
        var isFirst = true
        for slot in self.slots[..<self.count] where !slot.override.isEmpty {
            line.append(isFirst ? ",\"overrides\":{" : ",")
            isFirst = false
            line.appendString(slot.provider.description)
            line.append(":{")
            var needsComma = false
            if let name = slot.override.name {
                line.append("\"name\":")
                line.appendString(name)
                needsComma = true
            }
            if slot.override.fields.isTouched {
                line.append(needsComma ? ",\"data\":{" : "\"data\":{")
                line.append(slot.override.fields.buffer)
                line.append(UInt8(ascii: "}"))
                needsComma = true
            }
            if slot.override.skip {
                line.append(needsComma ? ",\"skip\":true" : "\"skip\":true")
            }
            line.append(UInt8(ascii: "}"))
        }
        if !isFirst { line.append(UInt8(ascii: "}")) }
    }
}
