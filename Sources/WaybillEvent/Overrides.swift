/// A destination of events, identified by the name of its exports.
public struct ProviderID: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The name used in events and export folders.
    public let description: String

    /// Creates the id of a provider.
    public init(_ name: String) {
        precondition(!name.isEmpty, "a provider's name must not be empty")
        self.description = name
    }

    /// Creates the id of a provider.
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

/// What a provider receives instead of the unchanged event.
public struct ProviderOverride: ~Copyable {
    /// The name for this provider; `nil` keeps the event's name.
    public var name: String?
    /// The fields for this provider: they replace the event's own as soon as anything is put, even `nil`; fields added
    /// at the call site are added to them too.
    public var fields = Fields()
    /// Whether the provider does not get the event.
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

/// The overrides of an event, with one slot per provider, created on first use.
public struct Overrides: ~Copyable {
    private final class Slot {
        var provider: ProviderID
        var override = ProviderOverride()

        init(_ provider: ProviderID) {
            self.provider = provider
        }
    }

    /// The salt for hashing private values.
    var salt: PrivacySalt?
    private var slots: [Slot] = []
    /// The number of slots in use; later ones remain from earlier events.
    private var count = 0

    init() {}

    /// What `provider` receives instead of the unchanged event.
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

    /// Adds fields for every provider with overridden fields.
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

    /// Appends `,"overrides":{…}`, or nothing if no slot has an override.
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
