internal import WaybillEvent
internal import WaybillJSON

/// What an event's fields mean for revenue, items and groups, in the vocabulary of GA4's ecommerce events.
///
/// An event named `purchase`, `in_app_purchase`, `ad_impression` or `refund` is about money: `value` and `currency`, or
/// `price` and `quantity`. `items` is a list of flat objects, `group_id` a group of the user (reference, "Events").
/// Other names mean nothing: an app with a vocabulary of its own gets a mapping. Values are tape indices.
struct Commerce {
    enum Flow {
        case income, refund
    }

    /// `nil`: the event is not about money.
    private(set) var flow: Flow?
    /// A number.
    private(set) var value: Int?
    /// A number.
    private(set) var price: Int?
    /// A whole number.
    private(set) var quantity: Int?
    private(set) var tax: Int?
    private(set) var shipping: Int?
    private(set) var currency: TextSlice?
    private(set) var transaction: TextSlice?
    private(set) var product: TextSlice?
    private(set) var coupon: TextSlice?
    private(set) var paymentType: TextSlice?
    private(set) var group: TextSlice?
    /// A list of flat objects.
    private(set) var items: Int?
    /// Whether the event has a field named `revenue`, which then is not added.
    private(set) var hasRevenue = false

    init(of event: borrowing MappedEvent) {
        guard event.kind != .user, event.kind != .meta else { return }
        var fields = event.fields()
        while let (key, value) = fields.next(in: event) {
            guard !event.tape[key].traits.contains(.hasEscapes) else { continue }
            self.take(event.tape.bytes(of: key), value, of: event)
        }
        if event.kind != .screen { self.flow = Self.flow(of: event.name) }
    }

    private static func flow(of name: TextSlice) -> Flow? {
        switch name.body.count {
        case 6: name.equals("refund") ? .refund : nil
        case 8: name.equals("purchase") ? .income : nil
        case 13: name.equals("ad_impression") ? .income : nil
        case 15: name.equals("in_app_purchase") ? .income : nil
        default: nil
        }
    }

    /// Takes a field, if it is the first of a name with a meaning; its length excludes most others.
    @inline(__always)
    private mutating func take(_ name: UnsafeRawBufferPointer, _ index: Int, of event: borrowing MappedEvent) {
        switch name.count {
        case 3: if Self.equals(name, "tax") { Self.set(&self.tax, number: index, of: event) }
        case 5: self.takeShort(name, index, of: event)
        case 6: if Self.equals(name, "coupon") { self.coupon = self.coupon ?? event.nonEmptyText(at: index) }
        case 7: if Self.equals(name, "revenue") { self.hasRevenue = true }
        case 8: self.takeMedium(name, index, of: event)
        case 10: if Self.equals(name, "product_id") { self.product = self.product ?? event.nonEmptyText(at: index) }
        case 12:
            if Self.equals(name, "payment_type") {
                self.paymentType = self.paymentType ?? event.nonEmptyText(at: index)
            }
        case 14:
            if Self.equals(name, "transaction_id") {
                self.transaction = self.transaction ?? event.nonEmptyText(at: index)
            }
        default: break
        }
    }

    private mutating func takeShort(_ name: UnsafeRawBufferPointer, _ index: Int, of event: borrowing MappedEvent) {
        if Self.equals(name, "value") { return Self.set(&self.value, number: index, of: event) }
        if Self.equals(name, "price") { return Self.set(&self.price, number: index, of: event) }
        if self.items == nil, Self.equals(name, "items"), event.tape[index].kind == .array,
            event.isListOfFlatObjects(index)
        {
            self.items = index
        }
    }

    private mutating func takeMedium(_ name: UnsafeRawBufferPointer, _ index: Int, of event: borrowing MappedEvent) {
        if Self.equals(name, "currency") {
            self.currency = self.currency ?? event.nonEmptyText(at: index)
        } else if Self.equals(name, "group_id") {
            self.group = self.group ?? event.nonEmptyText(at: index)
        } else if Self.equals(name, "shipping") {
            Self.set(&self.shipping, number: index, of: event)
        } else if Self.equals(name, "quantity"), Self.isWhole(index, of: event) {
            Self.set(&self.quantity, number: index, of: event)
        }
    }

    private static func equals(_ name: UnsafeRawBufferPointer, _ text: StaticString) -> Bool {
        JSONText.equals(name, isEscaped: false, text)
    }

    private static func set(_ place: inout Int?, number index: Int, of event: borrowing MappedEvent) {
        if place == nil, event.tape[index].kind == .number { place = index }
    }

    /// Whether a value is a number without sign, fraction and exponent.
    static func isWhole(_ index: Int, of event: borrowing MappedEvent) -> Bool {
        event.tape[index].kind == .number && event.tape.bytes(of: index).allSatisfy { 0x30...0x39 ~= $0 }
    }

    /// Writes an amount of money, which is negative for a refund.
    func write(amount index: Int, of event: borrowing MappedEvent, into draft: inout Draft) {
        let digits = event.tape.bytes(of: index)
        if self.flow == .refund, digits.first != UInt8(ascii: "-"), !Self.isZero(digits) {
            draft.json.verbatim("-")
            draft.json.output.append(digits)
        } else {
            draft.json.verbatim(digits)
        }
    }

    private static func isZero(_ digits: UnsafeRawBufferPointer) -> Bool {
        digits.allSatisfy { $0 == UInt8(ascii: "0") || $0 == UInt8(ascii: ".") }
    }

    /// Writes the property `revenue`, which sums can use: only events about money have it; returns their number.
    func writeRevenue(of event: borrowing MappedEvent, into draft: inout Draft) -> Int {
        guard self.flow != nil, let value, !self.hasRevenue else { return 0 }
        draft.beginContextField("revenue")
        self.write(amount: value, of: event, into: &draft)
        return 1
    }

    /// The group, if it fits; a cut one would be another group.
    func group(in draft: inout Draft) -> TextSlice? {
        guard let group, group.fits(Limits.Commerce.groupCharacterCountMax, in: &draft) else { return nil }
        return group
    }

    /// The text of a member of the only item.
    func onlyItemText(_ name: StaticString, of event: borrowing MappedEvent) -> TextSlice? {
        guard let items, items + 1 < Int(event.tape[items].next),
            Int(event.tape[items + 1].next) == Int(event.tape[items].next),
            let index = event.tape.firstValue(of: name, in: items + 1)
        else { return nil }
        return event.nonEmptyText(at: index)
    }
}

extension MappedEvent {
    /// The text of a value that is a string with at least one character.
    func nonEmptyText(at index: Int) -> TextSlice? {
        guard let text = self.text(at: index), !text.body.isEmpty else { return nil }
        return text
    }

    /// Whether a list contains only objects whose values are all scalars.
    func isListOfFlatObjects(_ list: Int) -> Bool {
        var item = list + 1
        while item < Int(self.tape[list].next) {
            guard self.tape[item].kind == .object else { return false }
            var members = self.tape.members(of: item)
            while let (_, value) = members.next(in: self.tape) {
                switch self.tape[value].kind {
                case .array, .object: return false
                case .null, .false, .true, .number, .string: continue
                }
            }
            item = Int(self.tape[item].next)
        }
        return true
    }
}
