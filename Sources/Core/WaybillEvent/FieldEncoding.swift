/// Writes what an event's `encode(to:)` says straight into the event's fields: no tree, no dictionary.
///
///     struct OrderPlaced: ActionEvent, Encodable {         "id":"o-17","total":39.9,"items":[{"id":"p-1"}]
///         let id: String, total: Double, items: [Item]
///         var name: String { "order_placed" }
///     }
///
/// Constraints: the bytes are those of the same `put` calls. An event's members are its fields, in the order in which
/// they are encoded; `nil` writes nothing; dictionaries are sorted by key; objects and lists do not nest deeper than in
/// ``Fields``. A member that cannot be stored is left out and counted in ``FieldRepairs``; no error leaves an encoding.
///
/// Containers write at once, so only the innermost open one can be written to. Writing to an outer one closes those in
/// it; what is written to a closed one is left out and counted. ``Frame``s are the open containers, the event first:
///
///     event ── value of "items" ── list ── value of an element ── object
///
/// One draft owns it: its memory, and what it knows of types, serve the next event without a lock.
final class FieldEncoding {
    /// The fields being written; `nil` between two events.
    private var fields: UnsafeMutablePointer<Fields>?
    private var frames: [Frame] = []
    /// The number of the last frame; containers of earlier events never have the number of a present one.
    private var number = 0
    /// Calls of `encode(to:)` within each other.
    private var depth = 0
    private var eventName = ""
    /// The event's member being written, for messages.
    private var field = ""
    private var forms: [ObjectIdentifier: ValueForm] = [:]

    /// A container, or the place of a value.
    private struct Frame {
        enum Kind {
            /// The event, or an object, with what closes it.
            case members(outerKeyCount: Int)
            case list
            case memberValue
            /// The value of a list's element that begins at a byte.
            case elementValue(start: Int)
        }

        let number: Int
        let kind: Kind
        /// The elements written to a list so far.
        var elementCount = 0
    }

    /// More calls of `encode(to:)` within each other are refused: a value that encodes itself would never end.
    private static var depthMax: Int { 32 }
    /// Types above that count are looked at each time.
    private static var formCountMax: Int { 1024 }
    /// The number of no frame: what is written to it is dropped, because its container was refused and counted.
    static var nowhere: Int { 0 }

    func run(_ event: some Encodable, named name: String, into fields: UnsafeMutablePointer<Fields>) {
        precondition(self.fields == nil, "one event is encoded at a time")
        self.fields = fields
        self.eventName = name
        self.field = ""
        self.push(.members(outerKeyCount: 0))
        do {
            try event.encode(to: FieldEncoder(self, self.number))
        } catch {
            fields.pointee.fail(.failed(self.field, type(of: event), error))
        }
        self.close(above: 0)
        self.frames.removeLast()
        self.depth = 0
        self.fields = nil
    }

    // MARK: Frames

    @discardableResult
    private func push(_ kind: Frame.Kind) -> Int {
        self.number += 1
        self.frames.append(Frame(number: self.number, kind: kind))
        return self.number
    }

    private func index(of number: Int) -> Int? {
        self.frames.lastIndex { $0.number == number }
    }

    /// Closes the frames in a frame; `nil`, counted, if the frame itself is closed.
    private func enter(_ number: Int) -> (index: Int, fields: UnsafeMutablePointer<Fields>)? {
        guard let fields, number != Self.nowhere else { return nil }
        guard let index = self.index(of: number) else {
            fields.pointee.repairs.nested += 1
            return nil
        }
        self.close(above: index)
        return (index, fields)
    }

    private func close(above index: Int) {
        while self.frames.count > index + 1 { self.closeLast() }
    }

    private func closeLast() {
        guard let fields, let frame = self.frames.popLast() else { return }
        switch frame.kind {
        case .members(let outerKeyCount): fields.pointee.closeObject(outerKeyCount)
        case .list: fields.pointee.closeList()
        case .memberValue: fields.pointee.endValue()
        case .elementValue(let start):
            if fields.pointee.endElement(start) { self.frames[self.frames.count - 1].elementCount += 1 }
        }
    }

    // MARK: Containers

    /// The number of the object that stands at a value's place, or of the event; ``nowhere`` if none can.
    func members(at number: Int) -> Int {
        guard let fields, let index = self.index(of: number) else { return Self.nowhere }
        if case .members = self.frames[index].kind { return number }
        // A class and its superclass write to the same object.
        if index + 1 < self.frames.count, case .members = self.frames[index + 1].kind {
            return self.frames[index + 1].number
        }
        self.close(above: index)
        guard let outerKeyCount = fields.pointee.openObject() else { return Self.nowhere }
        return self.push(.members(outerKeyCount: outerKeyCount))
    }

    /// The number of the list that stands at a value's place; ``nowhere`` if none can.
    func list(at number: Int) -> Int {
        guard let fields, let index = self.index(of: number) else { return Self.nowhere }
        if index + 1 < self.frames.count, case .list = self.frames[index + 1].kind {
            return self.frames[index + 1].number
        }
        self.close(above: index)
        switch self.frames[index].kind {
        case .memberValue: return fields.pointee.openList() ? self.push(.list) : Self.nowhere
        case .elementValue: fields.pointee.refuseNesting()
        case .members, .list: self.refuse([Any].self, "an event encodes members with names, and no list", fields)
        }
        return Self.nowhere
    }

    /// The number of the value for a key; ``nowhere`` if it cannot be written.
    func value(forKey key: String, in number: Int) -> Int {
        guard let (index, fields) = self.enter(number) else { return Self.nowhere }
        if index == 0 { self.field = key }
        guard fields.pointee.begin(key, isFinite: true) else { return Self.nowhere }
        return self.push(.memberValue)
    }

    /// The number of the value for a list's next element.
    func element(of number: Int) -> Int {
        guard let (index, fields) = self.enter(number) else { return Self.nowhere }
        let start = fields.pointee.beginElement(isFirst: self.frames[index].elementCount == 0)
        return self.push(.elementValue(start: start))
    }

    func elementCount(of number: Int) -> Int {
        self.index(of: number).map { self.frames[$0].elementCount } ?? 0
    }

    // MARK: Values

    func encode<Value: Encodable>(_ value: Value, forKey key: String, in number: Int) {
        guard let (index, fields) = self.enter(number) else { return }
        // The event's name is a member of the line already.
        if index == 0, key == "name", let text = value as? String, text == self.eventName { return }
        if let value = value as? any ScalarFieldValue { return Self.put(value, key, fields) }
        let place = self.value(forKey: key, in: number)
        guard place != Self.nowhere else { return }
        self.write(value, at: place) { fields, fault in fields.pointee.abandonMember(fault) }
    }

    private static func put(_ value: some ScalarFieldValue, _ key: String, _ fields: UnsafeMutablePointer<Fields>) {
        fields.pointee.put(key, value)
    }

    func encodeElement(_ value: some Encodable, of number: Int) {
        let place = self.element(of: number)
        guard let index = self.index(of: place), case .elementValue(let start) = self.frames[index].kind else { return }
        self.write(value, at: place) { fields, fault in fields.pointee.abandonElement(start, fault) }
    }

    /// Writes a value and closes its place; `abandon` removes what an app's code wrote before it failed.
    private func write(
        _ value: some Encodable, at place: Int, _ abandon: (UnsafeMutablePointer<Fields>, FieldFault) -> Void
    ) {
        guard let fields else { return }
        do {
            try self.encode(value, at: place)
            guard let index = self.index(of: place) else { return }
            self.close(above: index)
            self.closeLast()
        } catch {
            guard let index = self.index(of: place) else { return }
            self.close(above: index)
            self.frames.removeLast()
            abandon(fields, .failed(self.field, type(of: value), error))
        }
    }

    /// Writes the only value of a place; what the event itself encodes instead of members is refused.
    ///
    /// - Throws: the error of the app's code.
    func encode<Value: Encodable>(_ value: Value, at number: Int) throws {
        guard let (index, fields) = self.enter(number) else { return }
        switch (self.form(of: Value.self), self.frames[index].kind) {
        case (.refused(let remedy), _): self.refuse(Value.self, remedy, fields)
        case (.dictionary, _): self.encode(members: value, at: number, fields)
        case (.plain, _): try self.descend(value, at: number, fields)
        case (.scalar, .members), (.list, .members):
            self.refuse(Value.self, "an event encodes members with names, and no value of its own", fields)
        case (.list, .elementValue): fields.pointee.refuseNesting()
        case (.scalar, _), (.list, _):
            // A cast of an optional without a value fails.
            guard let value = value as? any FieldValue else { return fields.pointee.skipValue() }
            if value.isFinite { value.append(to: &fields.pointee) }
        }
    }

    func encodeNothing(at number: Int) {
        if let (_, fields) = self.enter(number) { fields.pointee.skipValue() }
    }

    func encodeNull(forKey key: String, in number: Int) {
        if let (_, fields) = self.enter(number) { fields.pointee.putNull(key) }
    }

    private func descend(_ value: some Encodable, at number: Int, _ fields: UnsafeMutablePointer<Fields>) throws {
        guard self.depth < Self.depthMax else {
            return self.refuse(type(of: value), "its encode(to:) goes \(Self.depthMax) values deep", fields)
        }
        self.depth += 1
        defer { self.depth -= 1 }
        try value.encode(to: FieldEncoder(self, number))
    }

    private func encode<Value>(members value: Value, at number: Int, _ fields: UnsafeMutablePointer<Fields>) {
        guard let members = (value as? any KeyedValues)?.membersByName else {
            return self.refuse(Value.self, "its keys are no names: use text, integers or an enumeration", fields)
        }
        let object = self.members(at: number)
        for (name, value) in members.sorted(by: { $0.name < $1.name }) { self.encode(value, forKey: name, in: object) }
    }

    private func refuse(_ type: Any.Type, _ remedy: String, _ fields: UnsafeMutablePointer<Fields>) {
        fields.pointee.refuseValue(FieldFault(field: self.field, type: String(reflecting: type), remedy: remedy))
    }

    private func form<Value>(of type: Value.Type) -> ValueForm {
        if let known = self.forms[ObjectIdentifier(type)] { return known }
        let form = ValueForm(of: type)
        if self.forms.count < Self.formCountMax { self.forms[ObjectIdentifier(type)] = form }
        return form
    }
}

/// How values of a type become values of fields.
private enum ValueForm {
    /// By ``ScalarFieldValue``.
    case scalar
    /// By another ``FieldValue``, which may be a list.
    case list
    /// As an object, its members sorted by name.
    case dictionary
    /// By the type's own `encode(to:)`.
    case plain
    /// Not at all; with what to do about it.
    case refused(remedy: String)

    init<Value>(of type: Value.Type) {
        if type is any ScalarFieldValue.Type {
            self = .scalar
        } else if type is any KeyedValues.Type {
            self = .dictionary
        } else if type is any FieldValue.Type {
            self = .list
        } else if let remedy = Self.remedies[String(reflecting: type)] {
            self = .refused(remedy: remedy)
        } else {
            self = .plain
        }
    }

    /// What to do about types whose own `encode(to:)` writes what no reader expects: `Date` a bare number of seconds
    /// since 2001, `Decimal` its digits as a list.
    ///
    /// Foundation is known by its names, so that the client need not link it: on Apple's platforms its module has
    /// another name than elsewhere, and `Decimal` is a C type.
    private static let remedies: [String: String] = {
        let foreign = ["Date", "URL", "UUID", "Decimal"].flatMap { ["Foundation.\($0)", "FoundationEssentials.\($0)"] }
        let product = "add the product WaybillFoundation to the app's target and import it once"
        var remedies = Dictionary(uniqueKeysWithValues: (foreign + ["__C.NSDecimal"]).map { ($0, product) })
        for name in ["Foundation.Data", "FoundationEssentials.Data"] {
            remedies[name] = "bytes are no field: encode their text or their count"
        }
        for name in ["Swift.Int128", "Swift.UInt128"] { remedies[name] = "encode it as text" }
        return remedies
    }()
}

/// A dictionary, whatever its types are.
private protocol KeyedValues {
    /// The values with their keys as names; `nil` if the keys are neither text nor integers.
    var membersByName: [(name: String, value: any Encodable)]? { get }
}

extension Dictionary: KeyedValues where Value: Encodable {
    fileprivate var membersByName: [(name: String, value: any Encodable)]? {
        var members: [(name: String, value: any Encodable)] = []
        for (key, value) in self {
            let raw: Any = (key as? any RawRepresentable)?.rawValue ?? key
            switch raw {
            case let text as String: members.append((text, value))
            case let number as any BinaryInteger: members.append(("\(number)", value))
            default: return nil
            }
        }
        return members
    }
}
