internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// The entities of a payload, its `co`: a screen's fields, traits that are set once or added to, and what was bought or
/// given back.
///
///     {"schema":"iglu:…/contexts/jsonschema/1-0-0","data":[{"schema":…,"data":{…}},…]}
///
/// An entity that its public schema does not allow would make Snowplow reject the whole event. It is left out and
/// counted; the event's own data has its values. Repository snowplow/iglu-central,
/// schemas/com.snowplowanalytics.snowplow.ecommerce.
extension Snowplow {
    private static let contexts: StaticString = "iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-0"
    private static let product: StaticString =
        "iglu:com.snowplowanalytics.snowplow.ecommerce/product/jsonschema/1-0-0"
    private static let transaction: StaticString =
        "iglu:com.snowplowanalytics.snowplow.ecommerce/transaction/jsonschema/1-0-0"
    private static let refund: StaticString = "iglu:com.snowplowanalytics.snowplow.ecommerce/refund/jsonschema/1-0-0"

    /// Writes the event's entities to the draft's head, which stays empty if there are none.
    func writeEntities(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.json.beginObject()
        draft.json.member("schema", Self.contexts)
        draft.json.key("data")
        draft.json.beginArray()
        let start = draft.json.output.count
        if event.kind == .screen { self.writeScreenData(of: event, into: &draft) }
        if event.kind == .user { self.writeTraits(of: event, into: &draft) }
        let commerce = Commerce(of: event)
        if let items = commerce.items { Self.writeProducts(items, commerce, of: event, into: &draft) }
        switch commerce.flow {
        case .income: Self.writeTransaction(commerce, of: event, into: &draft)
        case .refund: Self.writeRefund(commerce, of: event, into: &draft)
        case nil: break
        }
        let isEmpty = draft.json.output.count == start
        draft.json.endArray()
        draft.json.endObject()
        if isEmpty { draft.restartRecord() } else { draft.moveToHead() }
    }

    /// Writes a screen's fields, for which the schema of screen views has no room.
    private func writeScreenData(of event: borrowing MappedEvent, into draft: inout Draft) {
        var fields = event.fields()
        guard fields.next(in: event) != nil else { return }
        draft.json.beginObject()
        draft.json.key("schema")
        self.writeSchema(named: "screen_data", of: event, into: &draft)
        draft.json.key("data")
        // In the envelope's object, its list, and the entity.
        self.writeFields(event.fields(), of: event, level: 4, into: &draft)
        draft.json.endObject()
    }

    /// Writes the traits that are set once or added to: what a warehouse makes of them is its model's affair.
    private func writeTraits(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.countUselessTraits(of: event)
        let kinds: [(TraitOperation, StaticString)] = [(.setOnce, "user_traits_once"), (.add, "user_traits_add")]
        for (operation, name) in kinds where event.hasTraits(operation) {
            draft.json.beginObject()
            draft.json.key("schema")
            self.writeSchema(named: name, of: event, into: &draft)
            draft.json.key("data")
            draft.json.beginObject()
            var traits = event.traits(operation)
            draft.itemNames.removeAll()
            while let (key, value) = traits.next(in: event) {
                guard draft.beginItemField(event.tape.bytes(of: key)) else { continue }
                // In the envelope's object, its list, and the entity.
                draft.value(value, of: event, depthMax: Limits.Snowplow.depthMax - 4)
            }
            draft.json.endObject()
            draft.json.endObject()
        }
    }

    // MARK: Products

    private static func writeProducts(
        _ items: Int, _ commerce: Commerce, of event: borrowing MappedEvent, into draft: inout Draft
    ) {
        var item = items + 1
        while item < Int(event.tape[items].next) {
            let mark = draft.json.mark
            let fixes = draft.fixes
            if !Self.writeProduct(item, commerce, of: event, into: &draft) {
                draft.json.rewind(to: mark)
                draft.fixes = fixes
                draft.fixes.count(.dropItem)
            }
            item = Int(event.tape[item].next)
        }
    }

    /// Writes one item; false if it does not have what a product must have.
    private static func writeProduct(
        _ item: Int, _ commerce: Commerce, of event: borrowing MappedEvent, into draft: inout Draft
    ) -> Bool {
        func text(_ name: StaticString) -> TextSlice? {
            event.tape.firstValue(of: name, in: item).flatMap { event.nonEmptyText(at: $0) }
        }
        guard let id = text("item_id") ?? text("item_name"),
            let price = event.tape.firstValue(of: "price", in: item), Self.isMoney(price, of: event),
            let currency = text("currency") ?? commerce.currency, Self.isCurrency(currency)
        else { return false }
        let long = Limits.Snowplow.entityTextCharacterCountMax
        let short = Limits.Snowplow.entityLabelCharacterCountMax
        Self.beginEntity(Self.product, into: &draft)
        draft.member("id", id, limit: long)
        draft.member("name", text("item_name"), limit: long)
        // Required; an item without a category has an empty one.
        draft.member("category", text("item_category") ?? TextSlice(""), limit: long)
        draft.json.member("price", verbatim: event.tape.bytes(of: price))
        Self.writeCount("quantity", event.tape.firstValue(of: "quantity", in: item), of: event, into: &draft)
        draft.member("variant", text("item_variant"), limit: short)
        draft.member("brand", text("item_brand"), limit: short)
        Self.writeCount("position", event.tape.firstValue(of: "index", in: item), of: event, into: &draft)
        draft.member("currency", currency)
        Self.endEntity(into: &draft)
        return true
    }

    // MARK: Transactions

    private static func writeTransaction(
        _ commerce: Commerce, of event: borrowing MappedEvent, into draft: inout Draft
    ) {
        guard let value = commerce.value, let transaction = commerce.transaction else { return }
        guard Self.isMoney(value, of: event), let currency = commerce.currency, Self.isCurrency(currency),
            let quantity = Self.totalQuantity(commerce, of: event)
        else { return draft.fixes.count(.dropItem) }
        Self.beginEntity(Self.transaction, into: &draft)
        draft.member("transaction_id", transaction, limit: Limits.Snowplow.entityTextCharacterCountMax)
        draft.json.member("revenue", verbatim: event.tape.bytes(of: value))
        draft.member("currency", currency)
        // Required; GA4's events of purchases do not have it.
        draft.member(
            "payment_method", commerce.paymentType ?? TextSlice(""),
            limit: Limits.Snowplow.paymentMethodCharacterCountMax)
        draft.json.member("total_quantity", quantity)
        for (name, index) in [("tax" as StaticString, commerce.tax), ("shipping", commerce.shipping)] {
            guard let index, Self.isMoney(index, of: event) else { continue }
            draft.json.member(name, verbatim: event.tape.bytes(of: index))
        }
        draft.member("discount_code", commerce.coupon, limit: Limits.Snowplow.discountCodeCharacterCountMax)
        Self.endEntity(into: &draft)
    }

    private static func writeRefund(_ commerce: Commerce, of event: borrowing MappedEvent, into draft: inout Draft) {
        guard let value = commerce.value, let transaction = commerce.transaction else { return }
        guard Self.isMoney(value, of: event), let currency = commerce.currency, Self.isCurrency(currency) else {
            return draft.fixes.count(.dropItem)
        }
        Self.beginEntity(Self.refund, into: &draft)
        draft.member("transaction_id", transaction, limit: Limits.Snowplow.entityTextCharacterCountMax)
        draft.member("currency", currency)
        draft.json.member("refund_amount", verbatim: event.tape.bytes(of: value))
        Self.endEntity(into: &draft)
    }

    /// How many pieces were bought: the sum over all items, each of which is one if it does not say.
    private static func totalQuantity(_ commerce: Commerce, of event: borrowing MappedEvent) -> Int? {
        guard let items = commerce.items else {
            guard let quantity = commerce.quantity else { return 1 }
            return Self.count(quantity, of: event)
        }
        var total = 0
        var item = items + 1
        while item < Int(event.tape[items].next) {
            total += event.tape.firstValue(of: "quantity", in: item).flatMap { Self.count($0, of: event) } ?? 1
            item = Int(event.tape[item].next)
        }
        return total <= Limits.Snowplow.entityNumberMax ? total : nil
    }

    // MARK: Values

    private static func beginEntity(_ schema: StaticString, into draft: inout Draft) {
        draft.json.beginObject()
        draft.json.member("schema", schema)
        draft.json.key("data")
        draft.json.beginObject()
    }

    private static func endEntity(into draft: inout Draft) {
        draft.json.endObject()
        draft.json.endObject()
    }

    private static func writeCount(
        _ name: StaticString, _ index: Int?, of event: borrowing MappedEvent, into draft: inout Draft
    ) {
        guard let index, let count = Self.count(index, of: event) else { return }
        draft.json.member(name, count)
    }

    /// A whole number in the schemas' range.
    private static func count(_ index: Int, of event: borrowing MappedEvent) -> Int? {
        guard Commerce.isWhole(index, of: event), event.tape.bytes(of: index).count <= 7 else { return nil }
        return event.tape.bytes(of: index).reduce(0) { $0 * 10 + Int($1 - 0x30) }
    }

    /// Whether a value is a number from 0 to 9,999,999 with at most two digits after the point that are not 0.
    private static func isMoney(_ index: Int, of event: borrowing MappedEvent) -> Bool {
        guard event.tape[index].kind == .number else { return false }
        let digits = event.tape.bytes(of: index)
        let whole = digits.prefix { 0x30...0x39 ~= $0 }
        guard 1...7 ~= whole.count else { return false }
        let rest = digits.dropFirst(whole.count)
        guard let point = rest.first else { return true }
        guard point == UInt8(ascii: "."), rest.dropFirst().allSatisfy({ 0x30...0x39 ~= $0 }) else { return false }
        let isWhole = rest.dropFirst().allSatisfy { $0 == UInt8(ascii: "0") }
        return rest.dropFirst(3).allSatisfy { $0 == UInt8(ascii: "0") }
            && (isWhole || !whole.elementsEqual("9999999".utf8))
    }

    /// Whether text has the form of a code of ISO 4217.
    private static func isCurrency(_ text: TextSlice) -> Bool {
        !text.isEscaped && text.body.count == 3
            && text.body.allSatisfy { 0x41...0x5A ~= $0 || 0x61...0x7A ~= $0 }
    }
}
