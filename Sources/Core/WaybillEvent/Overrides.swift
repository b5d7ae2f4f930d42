/// What a provider receives instead of the unchanged event: edits of its name and fields.
///
///     overrides[.ga4].name = "select_content"
///     overrides[.ga4].rename("momentID", to: "item_id")
///     overrides[.ga4].set("content_type", "moment")
///     overrides[.ga4].remove("draft")
///
/// The edits apply, in their order, to all fields that the provider would get: the event's own, those that the call
/// adds, and registered ones; ``replaceAll(_:)`` replaces all of these. What the configuration's filters remove or hash
/// stays removed or hashed, under the old and under the new name of a renamed field.
public struct ProviderOverride: ~Copyable {
    /// The name for this provider; `nil` keeps the event's name.
    public var name: String?
    /// Whether the provider does not get the event; its other edits have no effect then.
    public var skip = false
    /// The salt for hashing private values.
    var salt: PrivacySalt?
    private var edits: [FieldEdit] = []
    /// The fields of edits; those from index `boxCount` on remain from earlier events.
    private var boxes: [FieldsBox] = []
    private var boxCount = 0
    /// The edited fields, in memory that the next event reuses.
    private let result = FieldsBox()

    init() {}

    /// Renames a field, in its place; it replaces another field of the new name.
    ///
    /// Does nothing if the provider would not get such a field.
    public mutating func rename(_ field: String, to name: String) {
        self.edits.append(.rename(field, to: name))
    }

    /// Removes fields.
    public mutating func remove(_ fields: String...) {
        for field in fields { self.edits.append(.remove(field)) }
    }

    /// Sets a field, in its place if the event has it; `nil` removes it.
    public mutating func set<Value: FieldValue>(_ field: String, _ value: Value?) {
        guard let value else { return self.edits.append(.remove(field)) }
        self.set { $0.put(field, value) }
    }

    /// Sets a field to the raw value of an enumeration; `nil` removes it.
    @_disfavoredOverload
    public mutating func set<Value: RawRepresentable>(
        _ field: String, _ value: Value?
    ) where Value.RawValue: ScalarFieldValue {
        self.set(field, value?.rawValue)
    }

    /// Sets the fields that `body` puts, such as objects and private texts; those that the event has stay in their place.
    public mutating func set(_ body: (inout Fields) -> Void) {
        self.edits.append(.set(self.makeBox(body)))
    }

    /// Replaces all fields with those that `body` puts: the event's own, those of the call, and registered ones.
    public mutating func replaceAll(_ body: (inout Fields) -> Void) {
        self.edits.append(.replaceAll(self.makeBox(body)))
    }

    private mutating func makeBox(_ body: (inout Fields) -> Void) -> Int {
        if self.boxCount == self.boxes.count { self.boxes.append(FieldsBox()) }
        let box = self.boxes[self.boxCount]
        box.fields.salt = self.salt
        body(&box.fields)
        self.boxCount += 1
        return self.boxCount - 1
    }

    mutating func removeAll() {
        self.name = nil
        self.skip = false
        self.edits.removeAll(keepingCapacity: true)
        self.removeBoxes()
    }

    private mutating func removeBoxes() {
        for box in self.boxes[..<self.boxCount] { box.fields.removeAll() }
        self.boxCount = 0
    }

    /// The fields that edits set.
    func forEachFields(_ body: (inout Fields) -> Void) {
        for box in self.boxes[..<self.boxCount] { body(&box.fields) }
    }

    /// The provider's fields, if they differ from the event's.
    ///
    /// - Parameters:
    ///   - fields: the event's own and those of the call, after the filters.
    ///   - common: the registered fields, after the filters.
    ///   - filtered: what the filters did.
    func edited(
        _ fields: borrowing Fields, _ common: EventDraftBox?, _ filtered: borrowing FilteredNames
    ) -> FieldsBox? {
        guard !self.edits.isEmpty else { return nil }
        let result = self.result
        result.fields.removeAll()
        result.fields.salt = self.salt
        result.fields.add(fields, from: 0)
        if let common { result.fields.add(common.draft.fields, from: 0) }
        var isEdited = false
        var renamed = RenamedNames()
        for edit in self.edits {
            switch edit {
            case .rename(let field, let name):
                isEdited = filtered.rename(field, to: name, in: result, &renamed) || isEdited
            case .remove(let field): isEdited = result.fields.removeMember(field) || isEdited
            case .set(let index):
                result.fields.setMembers(self.boxes[index].fields)
                isEdited = true
            case .replaceAll(let index):
                result.fields.removeAll()
                result.fields.add(self.boxes[index].fields, from: 0)
                isEdited = true
            }
        }
        return isEdited ? result : nil
    }
}

/// An edit of a provider's fields.
private enum FieldEdit {
    case rename(String, to: String)
    case remove(String)
    /// Sets the fields of a box.
    case set(Int)
    /// Replaces all fields with those of a box.
    case replaceAll(Int)
}

/// Fields that can be kept in an array.
final class FieldsBox {
    var fields = Fields()
}

/// The names that the filters removed or hashed in an event, which no field may get by a rename.
struct FilteredNames: ~Copyable {
    private var removed: [String] = []
    private var hashed: [String] = []

    mutating func removeAll() {
        self.removed.removeAll(keepingCapacity: true)
        self.hashed.removeAll(keepingCapacity: true)
    }

    mutating func remove(_ name: String) {
        self.removed.append(name)
    }

    mutating func hash(_ name: String) {
        self.hashed.append(name)
    }

    /// Renames a field unless the filters remove the new name; hashes its value, once, if they hash it.
    func rename(_ field: String, to name: String, in box: FieldsBox, _ renamed: inout RenamedNames) -> Bool {
        if self.removed.contains(name) { return box.fields.removeMember(field) }
        let isHashed = self.hashed.contains(field) || renamed.hashed.contains(field)
        if isHashed {
            renamed.hashed.append(name)
        } else if self.hashed.contains(name) {
            box.fields.hashMember(field)
        }
        return box.fields.renameMember(field, to: name)
    }
}

/// The new names of fields whose values the filters hashed under an old one.
struct RenamedNames {
    var hashed: [String] = []
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
    private var filtered = FilteredNames()

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
        self.slots[index].override.salt = self.salt
        self.count += 1
        return index
    }

    mutating func removeAll() {
        guard self.count > 0 else { return }
        for slot in self.slots[..<self.count] { slot.override.removeAll() }
        self.count = 0
        self.filtered.removeAll()
    }

    /// Removes a field from what single providers get, for a filter.
    mutating func remove(_ field: String) {
        guard self.count > 0 else { return }
        for slot in self.slots[..<self.count] { slot.override.forEachFields { $0.remove(field) } }
        self.filtered.remove(field)
    }

    /// Hashes a field in what single providers get, for a filter.
    mutating func hash(_ field: String) {
        guard self.count > 0 else { return }
        for slot in self.slots[..<self.count] { slot.override.forEachFields { $0.hash(field) } }
        self.filtered.hash(field)
    }

    var repairs: FieldRepairs {
        var repairs = FieldRepairs()
        for slot in self.slots[..<self.count] { slot.override.forEachFields { repairs += $0.repairs } }
        return repairs
    }

    /// Appends `,"overrides":{…}`, or nothing if every provider gets the event unchanged.
    ///
    /// - Parameters:
    ///   - fields: the event's own and those of the call.
    ///   - common: the registered fields that the line gets, too.
    func append(to line: inout LineBuffer, _ fields: borrowing Fields, _ common: EventDraftBox?) {
        var isFirst = true
        for slot in self.slots[..<self.count] {
            let edited = slot.override.skip ? nil : slot.override.edited(fields, common, self.filtered)
            guard slot.override.skip || slot.override.name != nil || edited != nil else { continue }
            line.append(isFirst ? ",\"overrides\":{" : ",")
            isFirst = false
            line.appendString(slot.provider.description)
            line.append(":{")
            if slot.override.skip {
                line.append("\"skip\":true")
            } else {
                Self.append(slot.override.name, edited, to: &line)
            }
            line.append(UInt8(ascii: "}"))
        }
        if !isFirst { line.append(UInt8(ascii: "}")) }
    }

    private static func append(_ name: String?, _ edited: FieldsBox?, to line: inout LineBuffer) {
        if let name {
            line.append("\"name\":")
            line.appendString(name)
        }
        guard let edited else { return }
        line.append(name == nil ? "\"data\":{" : ",\"data\":{")
        line.append(edited.fields.buffer)
        line.append(UInt8(ascii: "}"))
    }
}
